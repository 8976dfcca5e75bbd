#pragma once
#include <functional>
#include <vector>

#include "nn/block.h"

namespace burnish::nn {

inline constexpr int64_t kShared = -1;

/// Holds what a computation that goes token by token reads.
struct TokenInput {
  at::Tensor tensor;
  int64_t dim = 1;  ///< along which tokens lie; kShared where there are none, and every token reads all of it
};

/// Computes `compute` of the inputs, with autograd, for `at_once` tokens at a time: what it has in between is there for those alone,
/// forward and in backward, which computes it again. Tokens lie along `dim` of its result. The result's bits are those of all tokens at
/// once where `compute` has them so; gradients of what is shared, and of parameters that `compute` reads beside its inputs
/// (`has_parameters`), are sums over the pieces, in their order. `compute` draws nothing and writes nothing in place. Where all tokens are
/// one piece, or `at_once` is 0, it is called as it is.
at::Tensor by_tokens(const std::vector<TokenInput>& inputs, int64_t dim, int64_t at_once,
                     const std::function<at::Tensor(const Tensors& inputs)>& compute, bool has_parameters = false);

/// Counts the tokens along `dim` that take 32 MiB in fp32: what is made of them number by number takes little beside them all then.
int64_t tokens_of_one_piece(const at::Tensor& x, int64_t dim = 1);

/// A module with a part that goes token by token and is large in between, as the feed-forward layers of a transformer's block.
class GoesByTokens {
 public:
  virtual ~GoesByTokens() = default;
  int64_t tokens_at_once = 0;  ///< of each sample; 0: all
};

/// Has every such module below `root` take so many tokens of a sample at once; returns how many modules there are.
int64_t set_tokens_at_once(Module& root, int64_t count);

}  // namespace burnish::nn
