#pragma once
#include <optional>
#include <string>
#include <vector>

#include "adapters/attach.h"
#include "nn/linear.h"

namespace burnish::convert {

/// Returns what an adapter adds to its weight, as a matrix in fp32; none where that depends on the weight. `layer` may be on the meta
/// device.
std::optional<at::Tensor> delta_alone(const adapters::AdapterWeights& weights, const nn::LinearMap& layer);

/// Says how much a LoRA adds to the weights of a block.
struct BlockNorm {
  std::string block;        ///< "dit.blocks.3", or a component for its layers that are in no block
  int64_t num_layers = 0;   ///< that are adapted
  double norm = 0;          ///< root of the sum of squares of all that is added to its weights (Frobenius norm)
  double share = 0;         ///< of the sum of squares over the file
  int64_t num_unknown = 0;  ///< adapted layers of which it depends on the model's weights, and is not counted
};

/// Returns them in order of execution. The model is told as by convert::model_of.
std::vector<BlockNorm> norms_by_block(const std::string& lora, const std::vector<std::string>& model);

}  // namespace burnish::convert
