#pragma once
#include <optional>

#include "models/blocks/mmdit.h"

namespace burnish::models::sd3 {

/// A block of two streams with one attention, whose tokens do not turn: {image [B,I,D], text [B,T,D], modulation of image and text, still
/// [T+I,P], and where tokens are shared out a bias [1,1,1,T+I] that is minus infinity on the text} -> {image, text}, of the last block
/// {image}. The modulation has six parts of D of each stream, three more of the image where its tokens attend to themselves too, and two
/// of a text that is not read behind the block. `still` is ones: the cosines of places that all are 0.
class JointBlock : public nn::Block, public nn::SharesTokens {
 public:
  struct Kind {
    bool is_dual = false;    ///< whether image tokens attend to themselves alone, beside attending to all
    bool ends_text = false;  ///< whether nothing reads the text behind it
  };
  JointBlock(const mmdit::Widths& widths, const Kind& kind, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  /// The attention of the image to itself, of what a norm has made of its tokens.
  struct Dual {
    Dual(const mmdit::Widths& widths, const at::TensorOptions& options);
    mmdit::StreamQkv qkv;
    nn::Linear out;
  };
  /// The layers of a text that is read behind the block.
  struct TextEnd {
    TextEnd(const mmdit::Widths& widths, const at::TensorOptions& options);
    nn::Linear out;
    mmdit::FeedForward mlp;
  };
  at::Tensor attend_jointly(const nn::Tensors& of_text, const nn::Tensors& of_image, const at::Tensor& still_LP) const;
  at::Tensor attend_to_image(const nn::Tensors& of_image, int64_t num_text, const at::Tensor& still_LP, const at::Tensor& bias) const;

  mmdit::StreamQkv image_qkv_, text_qkv_;
  nn::Linear to_out_;
  mmdit::FeedForward image_mlp_;
  std::optional<Dual> dual_;
  std::optional<TextEnd> text_end_;
};

}  // namespace burnish::models::sd3
