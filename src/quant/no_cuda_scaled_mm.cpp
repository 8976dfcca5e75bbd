#include <stdexcept>

#include "kernels/place.h"
#include "quant/scaled_mm.h"

namespace burnish::quant {

bool has_fp8_products(c10::Device) { return false; }

bool has_block_products(c10::Device) { return false; }

bool has_int8_tensor_cores(c10::Device device) { return kernels::place_of(device).is_cuda(); }

at::Tensor scaled_mm(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool) {
  throw std::logic_error("this build has no FP8 products");
}

at::Tensor scaled_mm(const kernels::CodedBlocks&, const kernels::CodedBlocks&, const at::Tensor&) {
  throw std::logic_error("this build has no products of MXFP8 and NVFP4");
}

}  // namespace burnish::quant
