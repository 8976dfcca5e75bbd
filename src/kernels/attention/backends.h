#pragma once
#include <ATen/core/Tensor.h>

// Inside of attention: which of ATen's kernels computes it on a GPU.
namespace burnish::kernels {

struct AttentionCall {
  const at::Tensor &q, &k, &v;
  const at::Tensor& bias;  ///< may be undefined
  bool causal;
  double scale;
};

/// Computes attention by ATen's own choice of a kernel, which is among those that it is allowed.
at::Tensor attention_of_aten(const AttentionCall& call);

/// Has ATen take the kernel that is fastest for such a call, if it is on a GPU. The first call of its shapes tries them, each forward and
/// backward, and waits for the device; while a graph is recorded nothing is tried.
void prefer_fastest_attention(const AttentionCall& call);

}  // namespace burnish::kernels
