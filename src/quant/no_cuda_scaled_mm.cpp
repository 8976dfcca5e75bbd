#include <stdexcept>

#include "quant/scaled_mm.h"

namespace burnish::quant {

bool has_fp8_products(c10::Device) { return false; }

at::Tensor scaled_mm(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, bool) {
  throw std::logic_error("this build has no FP8 products");
}

}  // namespace burnish::quant
