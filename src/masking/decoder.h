#pragma once
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::masking {

// Shape letters: C width of what texts are embedded as, L patches of a picture and one more, P texts, R width of the decoder, S side of the
// scores in pixels, W width of the tower of pictures.

/// Numbers of CLIPSeg's decoder. Defaults are those of clipseg-rd64-refined.
struct DecoderConfig {
  int64_t width = 768, condition = 512, reduced = 64, hidden = 2048, num_heads = 4, patch = 16;
  /// The layers of the image encoder whose states are read: numbers from 0, ascending.
  std::vector<int64_t> layers = {3, 6, 9};
  int64_t conditional_layer = 0;  ///< the layer of the decoder before which a text comes in
  bool is_refined = true;         ///< whether pixels are made in three steps, not in one
  double eps = 1e-5;
};
/// Reads sizes from shapes (our names) and the rest from config.json of the whole model.
DecoderConfig decoder_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// CLIPSeg's decoder (Lüddecke and Ecker 2022, arXiv 2112.10003; names of transformers' CLIPSegDecoder).
class Decoder : public nn::Module {
 public:
  Decoder(const DecoderConfig& config, const at::TensorOptions& options);
  ~Decoder() override;
  /// Takes states [1, L, W] of each of the config's layers, and texts [P, C] -> how much each pixel shows what a text names, as logits
  /// [P, S, S].
  at::Tensor forward(const std::vector<at::Tensor>& states_1LW, const at::Tensor& texts_PC) const;
  const DecoderConfig& config() const { return config_; }

 private:
  struct Layer;
  struct Deconvolution;
  at::Tensor pixels(const at::Tensor& grid_PRhw) const;

  DecoderConfig config_;
  nn::Linear film_mul_, film_add_;
  std::vector<std::unique_ptr<nn::Linear>> reduces_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<nn::Conv2d> smooth_;                          ///< where pixels are made in three steps
  std::vector<std::unique_ptr<Deconvolution>> deconvolutions_;  ///< one, or the last two of the three steps
};

}  // namespace burnish::masking
