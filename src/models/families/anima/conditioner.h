#pragma once
#include <memory>
#include <vector>

#include "models/families/anima/blocks.h"

namespace burnish::models::anima {

/// Makes of the text encoder's states and of T5's tokens of a text what the transformer reads of it (parameter names are those of
/// diffusers' AnimaTextConditioner).
class Conditioner : public nn::Module {
 public:
  Conditioner(const ConditionerConfig& config, const at::TensorOptions& options);

  struct Inputs {
    at::Tensor ids_BT, mask_BT;      ///< T5's tokens, int64; 1 where there is one and 0 behind them
    at::Tensor source_BSE, mask_BS;  ///< states of the text encoder, and where there are any
  };
  /// Computes a row for each token, zeros behind them: [B, T, D].
  at::Tensor forward(const Inputs& in) const;

 private:
  int64_t head_dim_;
  nn::Embedding embed_;
  std::vector<std::unique_ptr<ConditionerBlock>> blocks_;
  nn::Linear out_;
  nn::RMSNorm norm_;
};

}  // namespace burnish::models::anima
