#include "convert/codes_in_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/signbit.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/comfy_weights.h"
#include "quant/quantized_weight.h"

namespace burnish::convert {

namespace {

/// Codes of E2M1: magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6 below a sign; to nearest, ties to an even code.
at::Tensor e2m1_codes(const at::Tensor& values) {
  const auto below = [](float border) { return std::nextafter(border, 0.0f); };  // which is then rounded up
  const auto borders = at::tensor({0.25f, below(0.75f), 1.25f, below(1.75f), 2.5f, below(3.5f), 5.0f});
  auto codes = at::bucketize(values.abs(), borders, /*out_int32=*/true).to(at::kByte);
  return codes.add_(at::signbit(values).to(at::kByte).mul_(8));
}

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

/// NVFP4 as comfy-kitchen computes it (its quantize_nvfp4): the largest scale of neighbours becomes the largest E4M3 number.
CodesInFile in_nvfp4(const at::Tensor& weight) {
  const auto out = weight.size(0), in = weight.size(1);
  CodesInFile made{.kind = CodeKind::e2m1, .codes = {}};
  const auto blocks = weight.view({out, -1, kNvfp4.group});
  made.whole = weight.abs().amax().div(448.0 * 6).clamp_min_(1e-30);
  const auto scales = blocks.abs().amax(2).div_(6).div_(made.whole).clamp_max_(448).to(at::kFloat8_e4m3fn);
  const auto all = (scales.to(at::kFloat) * made.whole).unsqueeze(2);
  const auto codes = e2m1_codes((blocks / all).masked_fill_(all == 0, 0).clamp_(-6, 6)).view({out, in / 2, 2});
  made.codes = codes.select(2, 0) * 16 + codes.select(2, 1);
  made.scales = models::laid_out(scales.view(at::kByte)).view(at::kFloat8_e4m3fn);
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
    return in_nvfp4(weight);
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
