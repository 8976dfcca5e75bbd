#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <cmath>

#include "kernels/place.h"
#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/unpack/unpack.h"
#include "quant/scaled_mm.h"
#include "quant/source.h"

namespace burnish::quant {

namespace {

constexpr int64_t kSides = 32;
constexpr double kExact = 1e-5;  // of scales that are E4M3 numbers but for the rounding of fp32

/// Returns what NVFP4's scales were multiplied by. Files' readers give products of it and of E4M3 numbers, the largest of which is one of
/// seven times a power of two: the one of which all others are E4M3 numbers too. Undefined where there is none, as of rows that come from
/// several weights.
at::Tensor common_factor(const at::Tensor& scales) {
  if (scales.is_meta()) return scales.new_empty({});
  const auto largest = scales.max();
  for (double number = 448; number >= 256; number -= 32) {
    const auto factor = largest / number;
    const auto of_bytes = scales / factor, bytes = of_bytes.to(at::kFloat8_e4m3fn).to(at::kFloat);
    if ((bytes - of_bytes).abs().le(of_bytes.abs() * kExact).all().item<bool>()) return factor;
  }
  return {};
}

}  // namespace

BlockComputeSource::BlockComputeSource(QuantizedWeight weight) : QuantizedSource(std::move(weight)) {
  if (weight_.format.codes == CodeKind::e2m1) whole_ = common_factor(weight_.scales);
}

bool BlockComputeSource::can_compute(const QuantizedWeight& weight) {
  const auto kind = weight.format.codes;
  const bool is_blocks = (kind == CodeKind::mxfp8 || kind == CodeKind::e2m1) && weight.format.scaling == Scaling::row_block &&
                         weight.format.group == code_block(kind).group;
  if (!is_blocks || weight.in % kSides != 0 || weight.out % kSides != 0) return false;
  const auto device = weight.codes.device();
  if (!kernels::runs_on_cpu(device) && !has_block_products(kernels::place_of(device))) return false;
  return kind == CodeKind::mxfp8 || common_factor(weight.scales).defined();
}

kernels::CodedBlocks BlockComputeSource::coded() const {
  if (whole_.defined()) {
    const auto bytes = (weight_.scales / whole_).to(at::kFloat8_e4m3fn).view(at::kByte);
    return {weight_.codes, kernels::laid_out(bytes).view(at::kFloat8_e4m3fn), whole_};
  }
  const auto exponents = weight_.scales.view(at::kInt).bitwise_right_shift(23).to(at::kByte);
  return {weight_.codes, kernels::laid_out(exponents).view(at::kFloat8_e8m0fnu), {}};
}

at::Tensor BlockComputeSource::forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const {
  if (has_few_rows(x)) return QuantizedSource::forward(product, x, bias);
  const auto kind = weight_.format.codes;
  const auto rows = kernels::shared_blocks(x.flatten(0, -2), kind);
  if (has_block_products(device())) {
    auto sizes = x.sizes().vec();
    sizes.back() = weight_.out;
    return scaled_mm(rows, coded(), bias).to(x.scalar_type()).view(sizes);
  }
  const auto group = weight_.format.group;
  const auto scales = kernels::scales_of(rows, rows.codes_NI.size(0), weight_.in / group);
  const auto numbers = kernels::unpack(rows.codes_NI, kind, scales, group, weight_.in, at::kFloat).view(x.sizes());
  return QuantizedSource::forward(product, numbers, bias).to(x.scalar_type());
}

}  // namespace burnish::quant
