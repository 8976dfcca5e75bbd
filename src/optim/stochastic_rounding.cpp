#include "optim/stochastic_rounding.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

namespace burnish::optim {

void round_stochastically(at::Tensor& from, const at::Tensor& to, uint64_t key) {
  // A clone of the device's own generator, so that one code path serves CPU and CUDA and no global state moves.
  at::Generator generator = at::globalContext().defaultGenerator(from.device()).clone();
  generator.set_current_seed((key ^ (key >> 32)) & 0xffffffffULL);
  const at::Tensor below = at::randint(0, 1 << 16, from.sizes(), generator, from.options().dtype(at::kInt));
  // bf16 is the upper half of fp32: adding 16 random bits carries into it as often as the lower half is large.
  at::Tensor bits = from.view(at::kInt);
  bits.add_(below).bitwise_and_(static_cast<int64_t>(-65536));
  to.copy_(from);
}

}  // namespace burnish::optim
