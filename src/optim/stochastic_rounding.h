#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace burnish::optim {

/// Rounds fp32 `from` to bf16 into `to`: up or down with probabilities proportional to nearness, so the expected value is exact.
/// The draws are a function of the key and the shape alone. `from` is overwritten; both tensors have one shape and device.
void round_stochastically(at::Tensor& from, const at::Tensor& to, uint64_t key);

}  // namespace burnish::optim
