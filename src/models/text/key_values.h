#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace burnish::models::text {

// Shape letters: B texts, H heads of keys and values, N further tokens, L all tokens, D numbers of a head.

/// The keys and values of the tokens that a decoder has read of a batch of texts, layer by layer: what it reads next needs no more of them.
class KeyValues {
 public:
  /// Makes room for so many tokens of a text; memory is taken layer by layer, with the first keys.
  explicit KeyValues(int64_t room) : room_(room) {}

  /// Adds those of further tokens [B, H, N, D] to a layer's, and returns all of the layer's, views [B, H, L, D].
  std::pair<at::Tensor, at::Tensor> append(size_t layer, const at::Tensor& keys_BHND, const at::Tensor& values_BHND);
  /// Returns the tokens of a text that were read, with those before its first one.
  int64_t length() const { return layers_.empty() ? 0 : layers_.front().length; }
  /// Returns 0 for a token that counts, in `options`, and minus infinity for what stands before a text's first one, [B, 1, 1, L], with room
  /// for `more` tokens; undefined where all texts are equally long.
  at::Tensor bias(int64_t more, const at::TensorOptions& options) const;

  /// Joins batches of texts, in their order, into one with room for so many tokens: shorter ones begin later.
  static KeyValues joined(const std::vector<KeyValues>& batches, int64_t room);

 private:
  struct Layer {
    at::Tensor keys, values;  ///< [B, H, room, D]
    int64_t length = 0;
  };
  int64_t num_texts() const { return layers_.at(0).keys.size(0); }

  int64_t room_;
  std::vector<Layer> layers_;
  std::vector<int64_t> first_;  ///< of each text, where it begins; empty: all at 0
};

}  // namespace burnish::models::text
