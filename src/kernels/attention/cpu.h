#pragma once
#include "kernels/attention/backends.h"

namespace burnish::kernels {

/// Tells whether attention_cpu takes these: bf16 on a CPU that multiplies it in vectors, and not in matrices, which ATen's kernel is
/// written for; heads of one even width; a bias, if any, that is one number a key (docs/decisions/0082).
bool attention_fits_cpu(const AttentionCall& call);

/// Computes attention by tiles of queries and keys, sums and softmax in fp32, with autograd: saves q, k, v, the result and a number a
/// query, and computes the weights again in backward. Returns the same for any number of threads.
at::Tensor attention_cpu(const AttentionCall& call);

}  // namespace burnish::kernels
