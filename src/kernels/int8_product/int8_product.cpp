#include "kernels/int8_product/int8_product.h"

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kTile = 128;  // rows and columns of a program, and codes of each that it multiplies at once

const Binary* kernel_of_sums(c10::Device device) {
  return find_kernel(kernel_name("int8_product.sums", "i8", {kTile, kTile, kTile}), device);
}

const Binary* kernel_of_scaled(const at::Tensor& y_MN, const Scales& scales, bool adds) {
  return find_kernel(
      kernel_name("int8_product.scaled", "bf16", {scales.columns_1O.defined(), scales.bias_O.defined(), adds, kTile, kTile, kTile}),
      y_MN.device());
}

std::array<int64_t, 3> tiles(int64_t rows, int64_t columns) {
  return {((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile), 1, 1};
}

}  // namespace

bool int8_product_fits_gpu(const at::Tensor& a_MK, const at::Tensor& b_NK) {
  auto suits = [](const at::Tensor& codes) { return codes.is_contiguous() && is_aligned(codes) && codes.size(1) % 16 == 0; };
  return !runs_on_cpu(a_MK) && a_MK.numel() > 0 && b_NK.size(0) % 16 == 0 && suits(a_MK) && suits(b_NK) &&
         kernel_of_sums(a_MK.device()) != nullptr;
}

bool scales_int8_product_gpu(const at::Tensor& y_MN, const Scales& scales) {
  return y_MN.scalar_type() == at::kBFloat16 && y_MN.stride(1) == 1 && y_MN.stride(0) % 16 == 0 && is_aligned(y_MN) && scales.rotation == 0;
}

void int8_sums_gpu_(const at::Tensor& sums_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  launch(*kernel_of_sums(a_MK.device()), tiles(a_MK.size(0), b_NK.size(0)),
         {{"a", a_MK}, {"b", b_NK}, {"sums", sums_MN}, {"num_rows", a_MK.size(0)}, {"num_columns", b_NK.size(0)}, {"width", a_MK.size(1)}});
}

void int8_product_gpu_(const at::Tensor& y_MN, const at::Tensor& a_MK, const at::Tensor& b_NK, const Scales& scales, bool adds) {
  const auto optional = [](const at::Tensor& t) { return t.defined() ? contiguous_aligned(t.to(at::kFloat)) : t; };
  launch(*kernel_of_scaled(y_MN, scales, adds), tiles(a_MK.size(0), b_NK.size(0)),
         {{"a", a_MK},
          {"b", b_NK},
          {"y", y_MN},
          {"rows", scales.rows_N1.contiguous()},
          {"columns", optional(scales.columns_1O)},
          {"bias", optional(scales.bias_O)},
          {"num_rows", a_MK.size(0)},
          {"num_columns", b_NK.size(0)},
          {"width", a_MK.size(1)},
          {"y_stride", y_MN.stride(0)}});
}

}  // namespace burnish::kernels
