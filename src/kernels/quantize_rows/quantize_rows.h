#pragma once
#include <ATen/core/Tensor.h>

#include "base/codes.h"

namespace burnish::kernels {

/// Rows as codes [N, I] of a byte each, E4M3 or INT8, with an fp32 scale each, [N, 1]: the largest magnitude over the largest code, 448 or
/// 127 (of a row of zeros: 1e-12 over it). NaN and infinity make a row's scale NaN or infinite.
struct CodedRows {
  at::Tensor codes_NI, scales_N1;
};

/// Computes x · gain in codes (e4m3 or int8), rounded to nearest, ties to even, without autograd; gain [I] in fp32, or undefined for 1.
/// x [N, I] of any dtype. Where `rotation` is not 0, so many neighbours of a row are rotated in fp32 before they are rounded
/// (kernels/rotate).
CodedRows quantize_rows(const at::Tensor& x_NI, const at::Tensor& gain_I, CodeKind kind, int64_t rotation = 0);

/// While one lives, quantize_rows of this x (without a gain) is computed once and then given again, on this thread: layers that read one
/// x share its codes. x must not be written meanwhile.
class SharedRows {
 public:
  explicit SharedRows(const at::Tensor& x);
  ~SharedRows();
  SharedRows(const SharedRows&) = delete;
  SharedRows& operator=(const SharedRows&) = delete;

 private:
  friend CodedRows quantize_rows(const at::Tensor&, const at::Tensor&, CodeKind, int64_t);
  const at::Tensor& x_;
  CodedRows made_;
  CodeKind kind_ = CodeKind::int8;
  int64_t rotation_ = 0;
  SharedRows* before_;
};

}  // namespace burnish::kernels
