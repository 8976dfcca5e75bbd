#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "io/key_map.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

/// Numbers of a T5 encoder. Defaults are T5 v1.1 XXL's.
struct T5Config {
  int64_t vocab_size = 32128;
  int64_t width = 4096;
  int64_t head_dim = 64;
  int64_t hidden = 10240;  ///< width between the layers of the MLP
  int64_t num_layers = 24;
  int64_t num_heads = 64;
  int64_t num_buckets = 32;
  int64_t max_distance = 128;
  double eps = 1e-6;
  bool gated = true;           ///< v1.1: two up projections
  bool gelu = true;            ///< tanh GELU; else ReLU
  bool bias_by_layer = false;  ///< whether each layer has a table of distances of its own, as in umT5; else the first's serves all
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none; v1.1's values then).
T5Config t5_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Returns the weights of a T5 encoder within `source`; the token table may be called `shared` or `encoder.embed_tokens`, and a decoder is
/// left out.
io::TensorSource t5_tensors(const io::TensorSource& source);

/// Returns the rules for a file that names the token table only `encoder.embed_tokens.weight`, and for one in the names of Wan.
io::KeyMap t5_keys(const io::TensorSource& tensors);

/// The encoder of T5 (Raffel et al. 2020, arXiv 1910.10683) and umT5 (Chung et al. 2023, arXiv 2304.09151), with the names of transformers'
/// T5EncoderModel and UMT5EncoderModel.
class T5Encoder : public nn::Module {
 public:
  T5Encoder(const T5Config& config, const at::TensorOptions& options);
  ~T5Encoder() override;
  /// Maps ids [B, L] int64 -> [B, L, E]. Only the first `num_tokens` are attended to, or all, padding among them.
  at::Tensor forward(const at::Tensor& ids_BL, std::optional<int64_t> num_tokens = {});

 private:
  /// Returns which row of a table of distances [L, L] a query and a key have.
  at::Tensor buckets(int64_t length) const;
  T5Config config_;
  nn::Embedding shared_;
  std::vector<std::unique_ptr<nn::Embedding>> relative_biases_;  ///< of the first layer, or of each
  std::vector<std::unique_ptr<nn::Block>> layers_;
  nn::RMSNorm final_layer_norm_;
};

}  // namespace burnish::models::text
