#include "kernels/quantize_rows/quantize_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "kernels/launch.h"
#include "kernels/place.h"
#include "kernels/quantize_rows/cpu.h"
#include "kernels/rotate/rotate.h"

namespace burnish::kernels {

namespace {

constexpr double kLeastMagnitude = 1e-12;
constexpr int64_t kQuantizeBlock = 2048;

double largest_code(CodeKind kind) { return kind == CodeKind::int8 ? 127 : 448; }
c10::ScalarType dtype_of(CodeKind kind) { return kind == CodeKind::int8 ? at::kChar : at::kFloat8_e4m3fn; }

CodedRows quantize_anywhere(const at::Tensor& x_NI, const at::Tensor& gain_I, CodeKind kind, int64_t rotation) {
  auto x = x_NI.to(at::kFloat);
  if (gain_I.defined()) x = x * gain_I;
  if (rotation > 0) rotate_(x = x.clone(at::MemoryFormat::Contiguous), rotation);
  const auto most = largest_code(kind);
  // It divides by a tensor: a GPU multiplies by the reciprocal of a number.
  auto scales = x.abs().amax(1, true).clamp_min_(kLeastMagnitude).div_(at::full({}, most, x.options()));
  auto codes = (x / scales).clamp_(-most, most);
  return {(kind == CodeKind::int8 ? codes.round_() : codes).to(dtype_of(kind)), scales};
}

CodedRows quantize(const at::Tensor& x_NI, const at::Tensor& gain_I, CodeKind kind, int64_t rotation) {
  const int64_t rows = x_NI.size(0), width = x_NI.size(1);
  const auto exact = x_NI.options().dtype(at::kFloat).requires_grad(false);
  const auto results = [&] { return CodedRows{at::empty({rows, width}, exact.dtype(dtype_of(kind))), at::empty({rows, 1}, exact)}; };
  if (kind == CodeKind::int8 && int8_rows_fit_cpu(x_NI)) {
    auto quantized = results();
    int8_rows_cpu(x_NI, gain_I, rotation, quantized.codes_NI, quantized.scales_N1);
    return quantized;
  }
  auto dtype = kernel_dtype(x_NI.scalar_type());
  const Binary* kernel = nullptr;
  if (!runs_on_cpu(x_NI) && !dtype.empty() && x_NI.numel() > 0 && width % 16 == 0)
    kernel = find_kernel(kernel_name("quantize_rows.codes", dtype, {gain_I.defined(), kind == CodeKind::int8, rotation, kQuantizeBlock}),
                         x_NI.device());
  if (kernel == nullptr) return quantize_anywhere(x_NI, gain_I, kind, rotation);
  auto quantized = results();
  launch(*kernel, {rows, 1, 1},
         {{"x", contiguous_aligned(x_NI)},
          {"gain", gain_I.defined() ? contiguous_aligned(gain_I) : gain_I},
          {"codes", quantized.codes_NI},
          {"scales", quantized.scales_N1},
          {"width", width}});
  return quantized;
}

SharedRows*& innermost() {
  thread_local SharedRows* shared = nullptr;
  return shared;
}

/// Whether both are the same numbers, whatever their shapes are.
bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.numel() == b.numel() && a.size(-1) == b.size(-1) &&
         a.scalar_type() == b.scalar_type() && a.is_contiguous() && b.is_contiguous();
}

}  // namespace

SharedRows::SharedRows(const at::Tensor& x) : x_(x), before_(innermost()) { innermost() = this; }

SharedRows::~SharedRows() { innermost() = before_; }

SharedRows* SharedRows::of(const at::Tensor& x_NI) {
  auto* shared = innermost();
  return shared != nullptr && same_numbers(shared->x_, x_NI) ? shared : nullptr;
}

CodedRows SharedRows::rows(CodeKind kind, int64_t rotation, const std::function<CodedRows()>& make) {
  if (!rows_.codes_NI.defined() || kind_ != kind || rotation_ != rotation) rows_ = make();
  kind_ = kind;
  rotation_ = rotation;
  return rows_;
}

CodedBlocks SharedRows::blocks(CodeKind kind, const std::function<CodedBlocks()>& make) {
  if (!blocks_.codes_NI.defined() || kind_of_blocks_ != kind) blocks_ = make();
  kind_of_blocks_ = kind;
  return blocks_;
}

CodedRows quantize_rows(const at::Tensor& x_NI, const at::Tensor& gain_I, CodeKind kind, int64_t rotation) {
  auto* shared = gain_I.defined() ? nullptr : SharedRows::of(x_NI);
  if (shared == nullptr) return quantize(x_NI, gain_I, kind, rotation);
  return shared->rows(kind, rotation, [&] { return quantize(x_NI, {}, kind, rotation); });
}

CodedBlocks shared_blocks(const at::Tensor& x_NI, CodeKind kind) {
  auto* shared = SharedRows::of(x_NI);
  if (shared == nullptr) return quantize_blocks(x_NI, kind);
  return shared->blocks(kind, [&] { return quantize_blocks(x_NI, kind); });
}

}  // namespace burnish::kernels
