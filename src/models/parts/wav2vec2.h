#pragma once
#include <nlohmann/json_fwd.hpp>

#include "models/model/components.h"
#include "models/model/names.h"
#include "nn/layers.h"

namespace burnish::models {

/// Numbers of wav2vec 2.0. Defaults are those of its large models with a norm before each layer, as of wav2vec2-large-xlsr-53.
struct Wav2Vec2Config {
  /// The kinds of it: a norm behind every convolution and before every layer, or one behind the first convolution, over time, and behind
  /// every layer (wav2vec2-base).
  enum class Norms { before, behind } norms = Norms::before;
  int64_t width = 1024, hidden = 4096, num_layers = 24, num_heads = 16;
  /// Holds those of the convolutions over the samples.
  struct Convolutions {
    int64_t channels = 512;
    std::vector<int64_t> kernels{10, 3, 3, 3, 3, 2, 2}, strides{5, 2, 2, 2, 2, 2, 2};
    bool has_biases = true;
  } convolutions = {};
  int64_t place_kernel = 128, place_groups = 16;  ///< of the convolution that tells places
  double eps = 1e-5;

  int64_t num_states() const { return num_layers + 1; }
  /// Returns how many steps of time it makes of so many samples.
  int64_t num_steps(int64_t num_samples) const;
};
/// Reads sizes and where norms stand from shapes (our names) and the rest from config.json; without one strides are the defaults and heads
/// 64 wide. Throws a data Error for models that config.json says to be of another kind than their tensors.
Wav2Vec2Config wav2vec2_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// wav2vec 2.0 (Baevski et al. 2020, arXiv 2006.11477; transformers' Wav2Vec2Model): convolutions over samples of a sound, and a
/// transformer over what they make.
class Wav2Vec2 : public nn::Module {
 public:
  Wav2Vec2(const Wav2Vec2Config& config, const at::TensorOptions& options);
  ~Wav2Vec2() override;
  /// Takes samples at 16 kHz [B, N] as `heard` makes them -> [B, S, T, W]: the states before each layer and, behind the last norm, after
  /// all. `num_steps`: T, to which what the convolutions make is brought along straight lines whose ends meet; 0: as they make it.
  at::Tensor states(const at::Tensor& samples_BN, int64_t num_steps = 0);

 private:
  class Convolution;
  class LayerBeforeNorm;
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
