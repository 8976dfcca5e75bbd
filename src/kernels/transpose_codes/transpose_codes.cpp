#include "kernels/transpose_codes/transpose_codes.h"

#include <ATen/ops/empty.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kSide = 64;  // of the squares that a program turns

}  // namespace

at::Tensor transpose_codes(const at::Tensor& codes_NI) {
  const int64_t rows = codes_NI.size(0), width = codes_NI.size(1);
  const Binary* kernel = nullptr;
  if (!runs_on_cpu(codes_NI) && codes_NI.element_size() == 1 && codes_NI.numel() > 0 && rows % 16 == 0 && width % 16 == 0)
    kernel = find_kernel(kernel_name("transpose_codes.turn", "u8", {kSide}), codes_NI.device());
  if (kernel == nullptr) return codes_NI.t().contiguous();
  auto turned_IN = at::empty({width, rows}, codes_NI.options());
  launch(*kernel, {(width + kSide - 1) / kSide, (rows + kSide - 1) / kSide, 1},
         {{"codes", contiguous_aligned(codes_NI)}, {"out", turned_IN}, {"rows", rows}, {"width", width}});
  return turned_IN;
}

}  // namespace burnish::kernels
