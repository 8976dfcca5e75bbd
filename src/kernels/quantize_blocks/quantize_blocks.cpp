#include "kernels/quantize_blocks/quantize_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/signbit.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kRows = 128, kGroups = 4, kNumbersAtOnce = 1024;
constexpr double kLargestE4m3 = 448, kLargestE2m1 = 6, kLeastScale = 1e-30;

int64_t round_up(int64_t number, int64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

c10::ScalarType scale_dtype(CodeKind kind) { return kind == CodeKind::e2m1 ? at::kFloat8_e4m3fn : at::kFloat8_e8m0fnu; }

/// Divides by a tensor: a GPU multiplies by the reciprocal of a number.
at::Tensor over(const at::Tensor& numbers, double divisor) { return numbers / at::full({}, divisor, numbers.options()); }

/// NVFP4's scale for all, which the device alone knows.
at::Tensor whole_scale(const at::Tensor& x) {
  auto [least, most] = at::aminmax(x);
  return over(at::maximum(-least, most).to(at::kFloat), kLargestE4m3 * kLargestE2m1).clamp_min_(kLeastScale);
}

/// Codes of E2M1: magnitudes 0, 0.5, 1, 1.5, 2, 3, 4 and 6 below a sign; to nearest, ties to an even code.
at::Tensor e2m1_codes(const at::Tensor& values) {
  const auto below = [](float border) { return std::nextafter(border, 0.0f); };  // which is then rounded up
  const auto borders = at::tensor({0.25f, below(0.75f), 1.25f, below(1.75f), 2.5f, below(3.5f), 5.0f}).to(values.device());
  auto codes = at::bucketize(values.abs(), borders, /*out_int32=*/true).to(at::kByte);
  return codes.add_(at::signbit(values).to(at::kByte).mul_(8));
}

CodedBlocks mxfp8_anywhere(const at::Tensor& blocks_NGB) {
  const auto exponents = exponents_to_448(blocks_NGB.abs().amax(2)).clamp_(0, 254).to(at::kByte);
  const auto codes = (blocks_NGB / powers_of_two(exponents).unsqueeze(2)).to(at::kFloat8_e4m3fn);
  return {codes.view(at::kByte).flatten(1), laid_out(exponents).view(at::kFloat8_e8m0fnu), {}};
}

CodedBlocks nvfp4_anywhere(const at::Tensor& blocks_NGB) {
  const auto whole = whole_scale(blocks_NGB);
  const auto scales = over(blocks_NGB.abs().amax(2), kLargestE2m1).div_(whole).clamp_max_(kLargestE4m3).to(at::kFloat8_e4m3fn);
  const auto all = (scales.to(at::kFloat) * whole).unsqueeze(2);
  const auto values = (blocks_NGB / all).masked_fill_(all == 0, 0).clamp_(-kLargestE2m1, kLargestE2m1);
  const auto pairs = e2m1_codes(values).flatten(1).unflatten(1, {-1, 2});
  return {pairs.select(2, 0) * 16 + pairs.select(2, 1), laid_out(scales.view(at::kByte)).view(at::kFloat8_e4m3fn), whole};
}

CodedBlocks empty_blocks(const at::Tensor& x_NI, CodeKind kind) {
  const auto rows = x_NI.size(0), in = x_NI.size(1), groups = in / code_block(kind).group;
  const auto bytes = x_NI.options().dtype(at::kByte).requires_grad(false);
  CodedBlocks made{
      at::empty({rows, code_bytes(kind, in)}, bytes), at::zeros({round_up(rows, kRows), round_up(groups, kGroups)}, bytes), {}};
  made.scales = made.scales.view(scale_dtype(kind));
  return made;
}

}  // namespace

CodedBlocks quantize_blocks(const at::Tensor& x_NI, CodeKind kind) {
  const bool is_e2m1 = kind == CodeKind::e2m1;
  const auto dtype = kernel_dtype(x_NI.scalar_type());
  const Binary* kernel = nullptr;
  if (!runs_on_cpu(x_NI) && !dtype.empty() && x_NI.numel() > 0)
    kernel = find_kernel(kernel_name("quantize_blocks.codes", dtype, {is_e2m1, code_block(kind).group, kNumbersAtOnce}), x_NI.device());
  if (kernel == nullptr) {
    const auto blocks = x_NI.to(at::kFloat).unflatten(1, {-1, code_block(kind).group});
    return is_e2m1 ? nvfp4_anywhere(blocks) : mxfp8_anywhere(blocks);
  }
  auto made = empty_blocks(x_NI, kind);
  if (is_e2m1) made.whole = whole_scale(x_NI);
  const auto rows = x_NI.size(0), width = x_NI.size(1);
  launch(*kernel, {rows, (width + kNumbersAtOnce - 1) / kNumbersAtOnce, 1},
         {{"x", contiguous_aligned(x_NI)},
          {"whole", made.whole},
          {"codes", made.codes_NI},
          {"scales", made.scales.view(at::kByte)},
          {"width", width},
          {"groups", made.scales.size(1)}});
  return made;
}

at::Tensor scales_of(const CodedBlocks& coded, int64_t rows, int64_t groups) {
  const auto bytes = in_rows(coded.scales, rows, groups);
  if (!coded.whole.defined()) return powers_of_two(bytes);
  return bytes.view(at::kFloat8_e4m3fn).to(at::kFloat).mul_(coded.whole);
}

at::Tensor laid_out(const at::Tensor& scales) {
  const auto tall = round_up(scales.size(0), kRows), wide = round_up(scales.size(1), kGroups);
  const auto filled = at::constant_pad_nd(scales, {0, wide - scales.size(1), 0, tall - scales.size(0)});
  return filled.view({tall / kRows, 4, 32, wide / kGroups, kGroups}).permute({0, 3, 2, 1, 4}).reshape(filled.sizes());
}

at::Tensor in_rows(const at::Tensor& laid_out, int64_t rows, int64_t groups) {
  const int64_t tall = round_up(rows, kRows), wide = round_up(groups, kGroups);
  const auto tiles = laid_out.contiguous().view(at::kByte).view({tall / kRows, wide / kGroups, 32, 4, kGroups}).permute({0, 3, 2, 1, 4});
  return tiles.reshape({tall, wide}).narrow(0, 0, rows).narrow(1, 0, groups).contiguous();
}

at::Tensor powers_of_two(const at::Tensor& exponents) {
  auto wide = exponents.to(at::kInt);
  return wide.bitwise_left_shift(23).masked_fill_(wide == 0, 1 << 22).view(at::kFloat);
}

at::Tensor exponents_to_448(const at::Tensor& most) {
  auto bits = most.view(at::kInt);
  return bits.bitwise_right_shift(23).sub_(8).add_(bits.bitwise_and(0x7FFFFF) > 0x600000);
}

}  // namespace burnish::kernels
