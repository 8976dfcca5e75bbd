#pragma once
#include <string>
#include <vector>

#include "judging/eye.h"
#include "models/parts/clip_towers.h"

namespace burnish::judging {

/// A model by which pictures and texts are alike: a whole CLIP (Radford et al. 2021, arXiv 2103.00020; transformers' CLIPModel).
class Likeness final : public Eye {
 public:
  /// Finds its parts by file headers; both must outlive this. A data Error where there is none.
  Likeness(const models::ModelFiles& files, const models::ModelOptions& options);

  /// Tells whether the files hold one.
  static bool is_in(const models::ModelFiles& files);

  const char* name() const override { return "CLIP"; }
  at::Tensor shown(const at::Tensor& picture_HW3) const override { return models::square_of(picture_HW3, rule_); }
  /// Returns unit vectors [N, D] in fp32 of texts, which lie among those of pictures.
  at::Tensor of_texts(const std::vector<std::string>& texts);

 private:
  at::Tensor rows_of(const at::Tensor& image_N3SS) override;

  models::ClipTowers towers_;
  std::unique_ptr<tokenizers::Tokenizer> tokenizer_;
};

}  // namespace burnish::judging
