#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::captioning {

// Shape letters: B inputs, L tokens of an input, E their width, R texts that are written (as many of each input), T tokens of a text so
// far, H heads, D their width, V tokens of the vocabulary.

/// Numbers of a BART. Defaults are those of Florence-2-base.
struct BartConfig {
  int64_t vocab_size = 51289, width = 768, hidden = 3072;
  int64_t num_encoder_layers = 6, num_decoder_layers = 6, num_encoder_heads = 12, num_decoder_heads = 12;
  int64_t num_places = 1024;  ///< tokens that an input, or a text, has at most
  bool scales_embedding = false;
};
/// Reads sizes from shapes (our names), and the rest from config.json's text_config, null for none.
BartConfig bart_config(const nlohmann::json& text_json, const io::Shapes& shapes);

/// Keys and values that a decoder has read: of inputs, and of the tokens of each text.
struct BartPast {
  struct Layer {
    at::Tensor input_keys, input_values;  ///< [B, H, L, D]
    at::Tensor keys = {}, values = {};    ///< [R, H, T, D]; undefined before the first token
  };
  std::vector<Layer> layers;
  int64_t num_tokens = 0;

  /// Goes on with these texts, of which one may be named several times, and with these inputs.
  void keep(const std::vector<int64_t>& texts, const std::vector<int64_t>& inputs);
};

/// BART (Lewis et al. 2019, arXiv 1910.13461; names of transformers' BartModel), whose head is its table of tokens.
class Bart : public nn::Module {
 public:
  Bart(const BartConfig& config, const at::TensorOptions& options);
  ~Bart() override;

  /// Takes ids [B, L] int64 -> [B, L, E].
  at::Tensor embed(const at::Tensor& ids_BL) const;
  /// Reads inputs [B, L, E] -> their states [B, L, E].
  at::Tensor encode(const at::Tensor& embedded_BLE);
  /// Begins texts about these states.
  BartPast begin(const at::Tensor& states_BLE) const;
  /// Reads one further token [R] of each text; texts of one input stand side by side. Returns the scores of the next one, fp32 [R, V].
  at::Tensor scores(const at::Tensor& ids_R, BartPast& past);

 private:
  struct Attention;
  struct Layer;
  struct Half;
  BartConfig config_;
  nn::Embedding shared_;
  std::unique_ptr<Half> encoder_, decoder_;
};

}  // namespace burnish::captioning
