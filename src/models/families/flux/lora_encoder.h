#pragma once
#include "models/families/flux/config.h"
#include "models/model/names.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::models::flux {

/// A LoRA's two matrices on one layer: the change of the weight is up · down.
struct LoraPair {
  at::Tensor down_RI, up_OR;
};

/// Makes tokens of a LoRA (DiffSynth-Studio's models/flux_lora_encoder.py, whose tensor names these are): each layer's matrices turn
/// vectors of its own into tokens, and a transformer makes a few of them all.
class LoraEncoder : public nn::Module {
 public:
  /// A layer of the transformer that the LoRA adapts, as DiffSynth-Studio calls it.
  struct Layer {
    std::string name, kind;  ///< "blocks.0.attn.a_to_qkv", "attn.a_to_qkv"
    int64_t in = 0, out = 0;
  };
  struct Config {
    std::vector<Layer> layers = {};
    int64_t width = 4096, hidden = 8192, num_blocks = 1, num_heads = 32, head_dim = 128;
    int64_t tokens_per_layer = 16, num_tokens = 1;
  };
  static Config detect(const io::Shapes& shapes, const flux::Config& transformer);
  LoraEncoder(const Config& config, const at::TensorOptions& options);
  ~LoraEncoder() override;

  /// Takes the matrices of each of the config's layers -> [1, num_tokens, width].
  at::Tensor forward(const std::vector<LoraPair>& lora);
  const Config& config() const { return config_; }

 private:
  struct LayerTokens;
  Config config_;
  std::vector<std::unique_ptr<LayerTokens>> layers_;
  std::map<std::string, std::unique_ptr<nn::Linear>> projections_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
  at::Tensor special_1SE_;
  nn::LayerNorm final_norm_;
  nn::Linear final_linear_;
};

/// Reads the matrices of a LoRA file on every layer of a LoraEncoder, in fp32, the scale alpha / rank in the first. Throws a data Error for
/// a file that is not there, or that lacks a layer in the names of kohya and of DiffSynth-Studio.
std::vector<LoraPair> read_lora_pairs(const std::string& path, const LoraEncoder::Config& config, const flux::Config& transformer);

}  // namespace burnish::models::flux
