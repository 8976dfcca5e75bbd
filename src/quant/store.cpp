#include "quant/store.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "quant/source.h"

namespace burnish::quant {

namespace {
bool is_fp8(c10::ScalarType dtype) { return dtype == c10::kFloat8_e4m3fn || dtype == c10::kFloat8_e5m2; }

bool can_compute(Format format) {
  return format.codes == CodeKind::e4m3 && format.scaling != Scaling::block && format.scaling != Scaling::row_block;
}
}  // namespace

Store::Store(const StoreOptions& options) : options_(options) {
  if (options_.fp8_compute && options_.format && !can_compute(*options_.format))
    config_error("quant", "fp8_compute multiplies E4M3 codes with a scale per row or weight, not {}; choose weight_format fp8",
                 describe(*options_.format));
  for (const auto& pattern : options_.high_precision) {
    try {
      high_precision_.emplace_back(pattern);
    } catch (const std::regex_error&) {
      config_error("quant", "high_precision_layers: '{}' is not a regular expression", pattern);
    }
  }
}

bool Store::stays(const std::string& name) const {
  const auto layer = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
  return std::any_of(high_precision_.begin(), high_precision_.end(), [&](const auto& r) { return std::regex_match(layer, r); });
}

std::shared_ptr<nn::WeightSource> Store::store(const std::string& name, const at::Tensor& in_file, const at::Tensor& scale,
                                               c10::Device device) {
  if (stays(name) || (!options_.format && !is_fp8(in_file.scalar_type()))) return nullptr;
  auto weight = in_file.flatten(1);
  auto stored = is_fp8(weight.scalar_type()) ? from_codes(weight, scale, device, name) : quantize(weight, *options_.format, device, name);
  if (options_.fp8_compute && in_file.dim() == 2 && can_compute(stored.format))
    return std::make_shared<Fp8ComputeSource>(std::move(stored));
  return std::make_shared<QuantizedSource>(std::move(stored));
}

std::string Store::settings() const {
  std::string text = options_.format ? "stored as " + format_name(*options_.format) + " except " + join(options_.high_precision) : "";
  return options_.fp8_compute ? text + ", fp8_compute" : text;
}

int64_t Store::num_bytes(const std::string& name, int64_t out, int64_t in, c10::ScalarType in_file) const {
  if (stays(name)) return -1;
  if (is_fp8(in_file)) return out * in + 4;
  return options_.format ? stored_bytes(*options_.format, out, in) : -1;
}

}  // namespace burnish::quant
