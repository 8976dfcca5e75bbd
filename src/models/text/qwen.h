#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "io/key_map.h"
#include "models/text/key_values.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

/// How the frequencies of rotated pairs are stretched for texts that are `factor` times as long as those of the first training (YaRN: Peng
/// et al. 2023, arXiv 2309.00071). It acts at every length. Defaults are Ministral-3's.
struct Yarn {
  double factor = 16;
  double first_length = 16384;           ///< tokens of a text in the first training
  double beta_fast = 32, beta_slow = 1;  ///< pairs that turn so often within it stay as they are, and are slowed down by `factor`
  double magnitude = 1;                  ///< what cos and sin are multiplied by
};

/// Numbers of a Qwen text encoder, or of one of its kin. Defaults are Qwen3-4B's.
struct QwenConfig {
  int64_t vocab_size = 151936;
  int64_t width = 2560;
  int64_t hidden = 9728;  ///< width between the layers of the MLP
  int64_t num_layers = 36;
  int64_t num_heads = 32;
  int64_t num_kv_heads = 8;  ///< heads of keys and values, each for num_heads / num_kv_heads queries
  int64_t head_dim = 128;
  double eps = 1e-6;
  double rope_theta = 1e6;
  bool qkv_bias = false;  ///< whether query, key and value have biases: Qwen2 and Qwen2.5
  bool qk_norm = true;    ///< whether every head's query and key have an RMS norm: Qwen3, not Mistral
  std::optional<Yarn> yarn = {};
  bool has_norm = true;  ///< whether there is a norm behind all layers; of encoders that were cut off there is none
  /// The numbers of a head's rotated pairs that turn with the place in time, with the row and with the column (Qwen2.5-VL), and again in
  /// this order as often as there are numbers (Qwen3-VL, where they take turns pair by pair). Without pictures all three are the place in
  /// the text.
  std::vector<int64_t> sections = {16, 24, 24};
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none; Qwen3's values then, which are also Qwen2.5-VL's).
/// Heads are as wide as the query norm, or else as config.json says, or 128.
QwenConfig qwen_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Reads the text part of Qwen3-VL, whose tensors are those of Qwen3: what config.json does not say is Qwen3-VL's.
QwenConfig qwen3_vl_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of the text parts of Qwen3-VL-2B, 4B and 8B.
QwenConfig qwen3_vl_2b();
QwenConfig qwen3_vl_4b();
QwenConfig qwen3_vl_8b();

/// Reads Mistral's encoders, whose layers are Qwen's without norms of queries and keys: what config.json does not say is Ministral-3's.
QwenConfig ministral3_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of Ministral-3-3B.
QwenConfig ministral3_3b();

/// Reads Mistral-Small-3's: what config.json does not say is of that, and of a file that ends behind the layers that are read there is no
/// norm.
QwenConfig mistral_small_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of Mistral-Small-3.2-24B.
QwenConfig mistral_small_24b();

/// Returns the weights of a Qwen model within `source`, under our names, which are transformers' below "model.", or, where models also see,
/// below "model.language_model.", "language_model.model." or "language_model."; what sees and the head that predicts tokens are left out.
io::TensorSource qwen_tensors(const io::TensorSource& source);

/// Returns the rules between the names that transformers writes, below "model." or another prefix, and ours.
io::KeyMap transformers_qwen_keys();
io::KeyMap qwen_keys_below(const std::string& prefix);

/// The tokens of a text that stand for a picture: they begin at `first`. Where the texts of a batch have pictures of their own, tensors
/// begin with a dimension B.
struct SeenPicture {
  int64_t first = 0;
  at::Tensor tokens_RCE;       ///< the token of each row and column
  nn::Tensors added_RCE = {};  ///< what is added to these tokens behind the first layers, one after the other: Qwen3-VL
  /// Of what follows another picture as a later frame of its clip, how far behind the first it lies in time; rows and columns are the
  /// first's.
  std::optional<int64_t> time = {};
  int64_t rows() const { return tokens_RCE.size(-3); }
  int64_t columns() const { return tokens_RCE.size(-2); }
  int64_t num_tokens() const { return rows() * columns(); }
};

/// Returns the picture that begins at a token of a text, of what a vision tower made of it: its tokens [R, C, E], or [K, R, C, E], the
/// tokens and what is added to them.
SeenPicture seen_at(int64_t first, const at::Tensor& seen);

/// What of a batch of texts is read, and as what.
struct QwenReading {
  std::vector<int64_t> after;              ///< states after so many layers, which ascend
  std::vector<SeenPicture> pictures = {};  ///< in their order, in every text of the batch
  int64_t first_token = 0;                 ///< the first token that is seen; what stands before it fills up, and sees nothing
  std::optional<int64_t> num_tokens = {};  ///< tokens that are seen, from that one on; none: all
  /// Place in time, row and column of every token [3, L], or of those of each text [B, 3, L]; undefined: as they follow from pictures.
  at::Tensor places_3L = {};
  bool norms_last = true;     ///< whether the state after all layers is behind the final norm
  KeyValues* past = nullptr;  ///< what was read of the texts before, to which these tokens are added; null: they are all
};

/// Returns place in time, row and column of every token of a text [3, L], fp64.
at::Tensor places_of(int64_t length, const std::vector<SeenPicture>& pictures, const at::TensorOptions& options);

class QwenLayer;

/// The decoder of Qwen2, Qwen2.5, Qwen3, Qwen3-VL, Mistral and Ministral-3 as an encoder of texts (Yang et al. 2025, arXiv 2505.09388;
/// names of transformers' Qwen3Model).
class QwenEncoder : public nn::Module {
 public:
  QwenEncoder(const QwenConfig& config, const at::TensorOptions& options);
  ~QwenEncoder() override;
  /// Maps ids [B, L] int64 -> [B, L, E] for each of `after`: states after so many layers, after all of them with the final norm
  /// (transformers: hidden_states[after]). Layers behind the last are not run. A token sees those before it alone, so what stands
  /// behind a text changes nothing of it; where `num_tokens` is given it sees these tokens only, as transformers' attention_mask has it. A
  /// picture's tokens share one place in time; the text behind it goes on after its longer side (transformers:
  /// Qwen2_5_VLModel.get_rope_index). States are those before what pictures add behind a layer. With a past, tokens are all of a text or
  /// one of each further on, and nothing is differentiated.
  nn::Tensors forward(const at::Tensor& ids_BL, const QwenReading& reading);
  nn::Tensors forward(const at::Tensor& ids_BL, const std::vector<int64_t>& after, const std::vector<SeenPicture>& pictures = {},
                      std::optional<int64_t> num_tokens = {});
  /// Returns the table of tokens [V, E].
  const at::Tensor& table() const { return embed_tokens_.weight; }

 private:
  at::Tensor angles(const at::Tensor& places_3L) const;
  double magnitude() const { return config_.yarn ? config_.yarn->magnitude : 1; }

  QwenConfig config_;
  nn::Embedding embed_tokens_;
  std::vector<std::unique_ptr<QwenLayer>> layers_;
  std::unique_ptr<nn::RMSNorm> norm_;
};

}  // namespace burnish::models::text
