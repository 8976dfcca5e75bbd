#include "kernels/unpack/gpu.h"

#include <ATen/ops/empty.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kUnpackBlock = 1024;

const Binary* unpack_kernel(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, c10::ScalarType dtype) {
  const int64_t each = scales.size(1) == 1 ? 0 : group;
  if (kind == CodeKind::int8_convrot) kind = CodeKind::int8;  // which are rotated after
  return find_kernel(kernel_name("unpack.values", kernel_dtype(dtype), {static_cast<int64_t>(kind), each, kUnpackBlock}), codes.device());
}

}  // namespace

bool unpack_fits_gpu(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype) {
  return !runs_on_cpu(codes) && !kernel_dtype(dtype).empty() && codes.numel() > 0 && codes.is_contiguous() && is_aligned(codes) &&
         codes.size(1) % 16 == 0 && in % 16 == 0 && scales.scalar_type() == at::kFloat && (scales.size(1) == 1 || scales.stride(1) == 1) &&
         unpack_kernel(codes, kind, scales, group, dtype) != nullptr;
}

at::Tensor unpack_gpu(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype) {
  auto out = at::empty({codes.size(0), in}, scales.options().dtype(dtype));
  launch(*unpack_kernel(codes, kind, scales, group, dtype), {codes.size(0), (in + kUnpackBlock - 1) / kUnpackBlock, 1},
         {{"codes", codes},
          {"scales", scales},
          {"out", out},
          {"width", in},
          {"bytes_of_row", codes.size(1)},
          {"scale_stride", scales.stride(0)}});
  return out;
}

}  // namespace burnish::kernels
