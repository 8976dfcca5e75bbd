#pragma once
#include "io/key_map.h"
#include "models/text/key_values.h"
#include "models/text/qwen_config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

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
  /// The distance in time behind the first frame, for a picture that is a later frame of the same clip; its rows and columns are the
  /// first's.
  std::optional<int64_t> time = {};
  bool is_in_line = false;  ///< whether its tokens have the places of a text's, one after the other, and none in a plane
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
class QwenNorm;

/// The decoder of Qwen2, Qwen2.5, Qwen3, Qwen3-VL, Qwen3.5, Mistral, Ministral-3 and Llama 3 as an encoder of texts (Yang et al. 2025,
/// arXiv 2505.09388; names of transformers' Qwen3Model and Qwen3_5TextModel).
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
  double magnitude() const;

  QwenConfig config_;
  nn::Embedding embed_tokens_;
  std::vector<std::unique_ptr<QwenLayer>> layers_;
  std::unique_ptr<QwenNorm> norm_;
};

}  // namespace burnish::models::text
