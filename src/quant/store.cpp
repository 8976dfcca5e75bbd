#include "quant/store.h"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/pattern.h"
#include "base/text.h"
#include "quant/source.h"
#include "quant/trained_codes.h"

namespace burnish::quant {

namespace {
constexpr Format kByRow{CodeKind::e4m3, Scaling::row};

/// Returns what codes of a file become where their numbers were changed.
Format anew(CodeKind kind) {
  if (is_fp8(kind)) return kByRow;
  return {is_rotated(kind) ? CodeKind::int8_convrot : CodeKind::int8, Scaling::row};
}

QuantizedWeight to_train(const nn::FileWeight& weight, c10::Device device, const std::string& name) {
  if (weight.codes) {
    auto codes = from_codes(*weight.codes, device, name);
    return quantize_to_train([&](int64_t begin, int64_t end) { return dequantize_rows(codes, begin, end, at::kFloat); }, codes.out,
                             codes.in, device, name);
  }
  auto matrix = weight.numbers.flatten(1);
  auto rows = [&](int64_t begin, int64_t end) { return matrix.narrow(0, begin, end - begin).to(device).to(at::kFloat); };
  return quantize_to_train(rows, matrix.size(0), matrix.size(1), device, name);
}
}  // namespace

Store::Store(const StoreOptions& options) : options_(options) {
  auto check = [&](bool is_asked, const char* option, CodeKind kind, const char* choice) {
    if (is_asked && options_.format && !ComputeSource::can_compute(*options_.format, kind))
      config_error("quant", "{} multiplies {} codes with a scale per row or weight, not {}; choose weight_format {}", option,
                   code_block(kind).name, describe(*options_.format), choice);
  };
  check(options_.fp8_compute, "fp8_compute", CodeKind::e4m3, "fp8");
  check(options_.int8_compute, "int8_compute", CodeKind::int8, "int8");
  std::vector<Pattern> patterns;
  for (const auto& pattern : options_.high_precision) patterns.emplace_back("quant", "high_precision_layers", pattern);
  is_high_precision_ = [patterns](const std::string& layer) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return pattern.matches(layer); });
  };
}

bool Store::stays(const std::string& name) const {
  return is_high_precision_(name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name);
}

bool Store::trains(const std::string& name) const {
  return std::any_of(options_.trained.begin(), options_.trained.end(), [&](const auto& part) { return lies_below(name, part); });
}

std::optional<Format> Store::format_for(const std::string& name, const nn::FileWeight& weight) const {
  if (stays(name)) return std::nullopt;
  if (trains(name)) return kByRow;
  if (weight.codes) return format_of(*weight.codes);
  return weight.in_file ? anew(*weight.in_file) : options_.format;
}

std::shared_ptr<nn::WeightSource> Store::store(const std::string& name, const nn::FileWeight& weight, c10::Device device) {
  const auto format = format_for(name, weight);
  if (!format) return nullptr;
  auto stored = trains(name)   ? to_train(weight, device, name)
                : weight.codes ? from_codes(*weight.codes, device, name)
                               : quantize(weight.numbers.flatten(1), *format, device, name);
  const auto sizes = weight.sizes();
  auto source = source_of(stored, sizes.size() == 2);
  if (trains(name)) source->train(sizes, options_.gradient_dtype);
  return source;
}

std::shared_ptr<QuantizedSource> Store::source_of(const QuantizedWeight& weight, bool is_matrix) const {
  auto multiplies = [&](CodeKind kind) { return is_matrix && ComputeSource::can_compute(weight.format, kind); };
  if (options_.fp8_compute && multiplies(CodeKind::e4m3)) return std::make_shared<Fp8ComputeSource>(weight);
  if (options_.int8_compute && multiplies(CodeKind::int8)) return std::make_shared<Int8ComputeSource>(weight);
  const auto kind = weight.format.codes;
  const bool is_asked = (kind == CodeKind::mxfp8 && options_.fp8_compute) || (kind == CodeKind::e2m1 && options_.fp4_compute);
  if (is_asked && is_matrix && BlockComputeSource::can_compute(weight)) return std::make_shared<BlockComputeSource>(weight);
  return std::make_shared<QuantizedSource>(weight);
}

std::string Store::settings() const {
  const std::string products = std::string(options_.fp8_compute ? ", fp8_compute" : "") + (options_.int8_compute ? ", int8_compute" : "") +
                               (options_.fp4_compute ? ", fp4_compute" : "");
  if (!options_.trained.empty()) return "trained in fp8 except " + join(options_.high_precision) + products;
  return (options_.format ? "stored as " + format_name(*options_.format) + " except " + join(options_.high_precision) : "") + products;
}

int64_t Store::num_bytes(const std::string& name, const nn::FileWeight& weight) const {
  const auto format = format_for(name, weight);
  if (!format) return -1;
  const auto sizes = weight.sizes();
  return stored_bytes(*format, sizes[0], c10::multiply_integers(sizes.begin() + 1, sizes.end()));
}

}  // namespace burnish::quant
