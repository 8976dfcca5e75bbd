#pragma once
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

enum class Gelu { exact, tanh, quick };  ///< quick: x·sigmoid(1.702 x)

/// A layer of the towers of CLIP and SigLIP: {tokens [B,L,E]} -> {tokens}, self-attention and MLP, each behind a layer norm.
class ClipLayer : public nn::Block {
 public:
  struct Sizes {
    int64_t width, hidden, num_heads;
    double eps;
    Gelu gelu;
    bool causal;  ///< whether a token sees those before it alone, as in the tower of texts
  };
  ClipLayer(const Sizes& sizes, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  Sizes sizes_;
  nn::LayerNorm norm1_, norm2_;
  nn::Linear q_, k_, v_, out_, fc1_, fc2_;
};

}  // namespace burnish::models::text
