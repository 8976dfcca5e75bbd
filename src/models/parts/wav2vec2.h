#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/model/components.h"
#include "models/model/names.h"
#include "nn/layers.h"

namespace burnish::models {

/// Numbers of wav2vec 2.0. Defaults are those of its large models with a norm before each layer, as of wav2vec2-large-xlsr-53.
struct Wav2Vec2Config {
  int64_t width = 1024, hidden = 4096, num_layers = 24, num_heads = 16;
  int64_t channels = 512;                                                            ///< of the convolutions over the samples
  std::vector<int64_t> kernels{10, 3, 3, 3, 3, 2, 2}, strides{5, 2, 2, 2, 2, 2, 2};  ///< of each of them
  int64_t place_kernel = 128, place_groups = 16;                                     ///< of the convolution that tells places
  double eps = 1e-5;

  int64_t num_states() const { return num_layers + 1; }
  /// Returns how many steps of time it makes of so many samples.
  int64_t num_steps(int64_t num_samples) const;
};
/// Reads sizes from shapes (our names) and the rest from config.json; without one strides are the defaults and heads 64 wide. Throws a data
/// Error for the models whose norms stand behind their layers.
Wav2Vec2Config wav2vec2_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// wav2vec 2.0 (Baevski et al. 2020, arXiv 2006.11477; transformers' Wav2Vec2Model): convolutions over samples of a sound, and a
/// transformer over what they make.
class Wav2Vec2 : public nn::Module {
 public:
  Wav2Vec2(const Wav2Vec2Config& config, const at::TensorOptions& options);
  ~Wav2Vec2() override;
  /// Takes samples at 16 kHz [B, N] as `heard` makes them -> [B, S, T, W]: the states before each layer and, behind the last norm, after
  /// all.
  at::Tensor states(const at::Tensor& samples_BN);

 private:
  class Convolution;
  Wav2Vec2Config config_;
  std::vector<std::unique_ptr<Convolution>> convolutions_;
  nn::LayerNorm projected_norm_;
  nn::Linear projection_;
  at::Tensor place_length_, place_direction_, place_bias_;  ///< [1, 1, K], [W, W / groups, K], [W]
  std::vector<std::unique_ptr<nn::Block>> layers_;
  nn::LayerNorm norm_;
};

/// Gives sounds [B, N] mean 0 and variance 1 each, fp32 (transformers: Wav2Vec2FeatureExtractor).
at::Tensor heard(const at::Tensor& samples_BN);

/// Finds it in a file of its own, in transformers' names, alone or below a model that spells what it hears.
Source find_wav2vec2(const ModelFiles& files);
Recipe wav2vec2_recipe(const std::string& name, const Source& source, const Wav2Vec2Config& config);
ComponentNames wav2vec2_names(const std::string& name);

}  // namespace burnish::models
