#pragma once
#include "nn/by_tokens.h"
#include "nn/linear.h"

namespace burnish::models {

/// Computes down(SiLU(gate x) · up x), or with GELU or its approximation by tanh in place of SiLU, without biases (Shazeer 2020, arXiv
/// 2002.05202).
class GatedMlp : public nn::Module, public nn::GoesByTokens {
 public:
  /// The names of its layers.
  struct Names {
    const char *gate, *up, *down;
  };
  enum class Gate { silu, gelu, gelu_tanh };
  GatedMlp(int64_t width, int64_t hidden, const at::TensorOptions& options, const Names& names, Gate gate = Gate::silu);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Gate kind_;
  nn::Linear gate_, up_, down_;
};

}  // namespace burnish::models
