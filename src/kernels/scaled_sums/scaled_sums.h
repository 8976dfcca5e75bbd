#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Holds what whole sums of products of codes are multiplied by and what is added to them.
struct Scales {
  at::Tensor rows_N1 = {};     ///< fp32, of the left factor's rows
  at::Tensor columns_1O = {};  ///< fp32, of the right factor's columns; undefined for 1
  at::Tensor bias_O = {};      ///< added to each row; undefined for none
  int64_t rotation = 0;        ///< so many neighbours of a row are rotated (kernels/rotate) once they are scaled; 0: none
};

/// y = sums · scales + bias, or with `adds` y += it, computed in fp32; without autograd. sums int32 [N, O], contiguous; y [N, O] of any
/// floating dtype, whose rows may lie apart.
void scale_sums_(const at::Tensor& y_NO, const at::Tensor& sums_NO, const Scales& scales, bool adds);

}  // namespace burnish::kernels
