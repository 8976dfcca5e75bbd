#include "convert/codes_in_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>

#include "kernels/quantize_blocks/quantize_blocks.h"
#include "models/files/comfy_weights.h"
#include "quant/quantized_weight.h"

namespace burnish::convert {

namespace {

/// A file's scales, of those that a weight in memory has: fp32, one [] or [out, 1].
at::Tensor scales_by(const quant::Format& format, const at::Tensor& scales) {
  if (format.scaling == quant::Scaling::none) return {};
  return format.scaling == quant::Scaling::tensor ? scales.reshape(std::vector<int64_t>()) : scales;
}

/// The tensors of a weight without its numbers.
CodesInFile on_meta(const at::Tensor& weight, const quant::Format& format) {
  const auto out = weight.size(0), in = weight.numel() / out;
  const auto bytes = weight.options().dtype(dtype_in_file(format.codes)), exact = weight.options().dtype(at::kFloat);
  CodesInFile made{.kind = format.codes, .codes = at::empty(weight.sizes(), bytes), .rotation = quant::rotation_of(format, in)};
  if (format != kNvfp4) {
    const bool is_one = format.scaling == quant::Scaling::tensor;
    made.scales = scales_by(format, at::empty({is_one ? 1 : out, 1}, exact));
    return made;
  }
  made.codes = at::empty({out, in / 2}, bytes);
  made.scales = at::empty({quant::ceil_div(out, 128) * 128, quant::ceil_div(in / format.group, 4) * 4}, exact.dtype(at::kFloat8_e4m3fn));
  made.whole = at::empty(std::vector<int64_t>(), exact);
  return made;
}

at::Tensor bytes_of(const std::string& text) {
  auto bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  return bytes;
}

at::Tensor mark_of(const CodesInFile& weight) {
  nlohmann::ordered_json mark{{"format", weight.kind == CodeKind::e2m1 ? "nvfp4" : "int8_tensorwise"}};
  if (weight.rotation > 0) {
    mark["convrot"] = true;
    mark["convrot_groupsize"] = weight.rotation;
  }
  return bytes_of(mark.dump());
}

}  // namespace

bool is_written(CodeKind kind) { return is_fp8(kind) || kind == CodeKind::int8 || kind == CodeKind::int8_convrot; }

bool fits(const quant::Format& format, at::IntArrayRef shape) {
  return format.codes != CodeKind::e2m1 || (shape.size() == 2 && shape[0] % 16 == 0 && shape[1] % 16 == 0);
}

CodesInFile codes_for_file(const at::Tensor& weight, const quant::Format& format, const std::string& name) {
  if (weight.is_meta()) return on_meta(weight, format);
  if (format == kNvfp4) {
    quant::check_finite(weight, name);
    const auto made = kernels::quantize_blocks(weight, CodeKind::e2m1);
    return {.kind = CodeKind::e2m1, .codes = made.codes_NI, .scales = made.scales, .whole = made.whole};
  }
  const auto made = quant::quantize(weight.flatten(1), format, weight.device(), name);
  const auto codes = made.codes.view(dtype_in_file(format.codes)).view(weight.sizes());
  return {.kind = format.codes, .codes = codes, .scales = scales_by(format, made.scales), .rotation = made.rotation};
}

c10::ScalarType dtype_in_file(CodeKind kind) {
  switch (kind) {
    case CodeKind::e4m3: return at::kFloat8_e4m3fn;
    case CodeKind::e5m2: return at::kFloat8_e5m2;
    case CodeKind::e2m1: return at::kByte;
    default: return at::kChar;
  }
}

io::NamedTensors tensors_of(const CodesInFile& weight, const std::string& name) {
  io::NamedTensors all{{name, weight.codes}};
  const auto layer = name.substr(0, name.rfind('.'));
  if (is_fp8(weight.kind)) {
    if (weight.scales.defined()) all.emplace_back(layer + std::string(kFp8Scale), weight.scales);
    return all;
  }
  all.emplace_back(layer + ".weight_scale", weight.scales);
  if (weight.whole.defined()) all.emplace_back(layer + ".weight_scale_2", weight.whole);
  all.emplace_back(layer + std::string(models::kComfyMark), mark_of(weight));
  return all;
}

}  // namespace burnish::convert
