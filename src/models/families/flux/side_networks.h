#pragma once
#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"

// Small components that FLUX.1 can be given beside its own: what they make of pictures and numbers is read by the transformer.
namespace burnish::models::flux {

/// Makes keys and values for every block's attention out of pictures' features (IP-Adapter, Ye et al. 2023, arXiv 2308.06721; tensors of
/// InstantX's FLUX.1-dev-IP-Adapter, whose two dictionaries are "image_proj" and "ip_adapter").
class IpAdapter : public nn::Module {
 public:
  struct Config {
    int64_t num_features = 1152, hidden = 2304;  ///< width of a picture's features; width between the two layers that make tokens of them
    int64_t num_tokens = 128, token_width = 4096;
    int64_t num_blocks = 57, num_heads = 24, width = 3072;  ///< numbers of the transformer
  };
  static Config detect(const io::Shapes& shapes, int64_t num_heads);
  IpAdapter(const Config& config, const at::TensorOptions& options);

  /// Makes tokens of features [B, N, F] of N pictures -> [B, N·num_tokens, token_width].
  at::Tensor tokens(const at::Tensor& features_BNF) const;
  /// Makes {keys, values [B, H, tokens, D/H]} for a block.
  nn::Tensors keys_and_values(int64_t block, const at::Tensor& tokens_BTC) const;
  const Config& config() const { return config_; }

 private:
  Config config_;
  nn::Linear up_, down_;
  nn::LayerNorm norm_;
  std::vector<std::unique_ptr<nn::Linear>> keys_, values_;
};

/// Makes text tokens of a number (AttriCtrl: DiffSynth-Studio's models/flux_value_control.py).
class ValueEncoder : public nn::Module {
 public:
  struct Config {
    int64_t width = 4096, num_tokens = 32;
  };
  static Config detect(const io::Shapes& shapes);
  ValueEncoder(const Config& config, const at::TensorOptions& options);
  /// Takes value [B], mostly in [0, 1] -> [B, num_tokens, width].
  at::Tensor forward(const at::Tensor& value_B) const;

 private:
  nn::Linear in_, out_;
  at::Tensor positions_TE_;
};

/// Makes text tokens of a picture's tokens (FLUX.1 Redux; tensors of its image_embedder).
class Redux : public nn::Module {
 public:
  struct Config {
    int64_t num_features = 1152, hidden = 12288, width = 4096;
  };
  static Config detect(const io::Shapes& shapes);
  Redux(const Config& config, const at::TensorOptions& options);
  /// Maps tokens [B, L, F] -> [B, L, width].
  at::Tensor forward(const at::Tensor& tokens_BLF) const;

 private:
  nn::Linear up_, down_;
};

/// Makes text tokens for a ControlNet of what is known of a face (InfiniteYou, Jiang et al. 2025, arXiv 2503.16418; tensors of its
/// image_proj_model.bin, whose dictionary is "image_proj"): a few learned tokens attend to it.
class FaceProjector : public nn::Module {
 public:
  struct Config {
    int64_t num_features = 512, dim = 1280, hidden = 5120, inner = 1280;  ///< widths of the face; of the tokens, their MLPs and attention
    int64_t num_blocks = 4, num_tokens = 8, width = 4096;
  };
  static Config detect(const io::Shapes& shapes);
  FaceProjector(const Config& config, const at::TensorOptions& options);
  ~FaceProjector() override;
  /// Takes face [B, F], by ArcFace -> [B, num_tokens, width].
  at::Tensor forward(const at::Tensor& face_BF) const;
  const Config& config() const { return config_; }

 private:
  Config config_;
  at::Tensor latents_1TD_;
  nn::Linear in_, out_;
  nn::LayerNorm norm_;
  std::vector<std::unique_ptr<nn::Block>> blocks_;
};

}  // namespace burnish::models::flux
