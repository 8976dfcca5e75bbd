#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "base/codes.h"
#include "kernels/quantize_blocks/quantize_blocks.h"

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

/// Computes quantize_blocks, once for all who ask while a SharedRows of x lives.
CodedBlocks shared_blocks(const at::Tensor& x_NI, CodeKind kind);

/// While one lives, quantize_rows (without a gain) and shared_blocks of this x are computed once and then given again, on this thread:
/// layers that read one x share its codes. x must not be written meanwhile.
class SharedRows {
 public:
  explicit SharedRows(const at::Tensor& x);
  ~SharedRows();
  SharedRows(const SharedRows&) = delete;
  SharedRows& operator=(const SharedRows&) = delete;

  /// The innermost one, where it is of these numbers, whatever their shapes are, or null.
  static SharedRows* of(const at::Tensor& x_NI);
  /// What `make` made the last time, if it was for this kind and rotation.
  CodedRows rows(CodeKind kind, int64_t rotation, const std::function<CodedRows()>& make);
  CodedBlocks blocks(CodeKind kind, const std::function<CodedBlocks()>& make);

 private:
  const at::Tensor& x_;
  CodedRows rows_;
  CodedBlocks blocks_;
  CodeKind kind_ = CodeKind::int8, kind_of_blocks_ = CodeKind::mxfp8;
  int64_t rotation_ = 0;
  SharedRows* before_;
};

}  // namespace burnish::kernels
