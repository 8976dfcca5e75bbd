#pragma once
#include <string>
#include <vector>

#include "judging/square.h"
#include "models/model/components.h"
#include "models/parts/clip_towers.h"

namespace burnish::judging {

// Shape letters: N pictures or texts, D numbers that stand for one of them, S side of a picture in pixels.

/// A model by which pictures and texts are alike: a whole CLIP (Radford et al. 2021, arXiv 2103.00020; transformers' CLIPModel).
class Likeness {
 public:
  /// Finds its parts by file headers; both must outlive this. A data Error where there is none.
  Likeness(const models::ModelFiles& files, const models::ModelOptions& options);

  /// Tells whether the files hold one.
  static bool is_in(const models::ModelFiles& files);

  /// Returns its parts, which are to be loaded before anything is seen.
  models::Components& components() { return components_; }
  static const char* name() { return "CLIP"; }

  at::Tensor shown(const at::Tensor& picture_HW3) const { return square_of(picture_HW3, rule_); }
  /// Returns unit vectors [N, D] in fp32: products of two of them are cosines, of pictures that `shown` made and of texts alike.
  at::Tensor of_pictures(const at::Tensor& image_N3SS);
  at::Tensor of_texts(const std::vector<std::string>& texts);

 private:
  const models::ModelOptions& options_;
  models::Components components_;
  models::ClipTowers towers_;
  SquareRule rule_;
  std::unique_ptr<tokenizers::Tokenizer> tokenizer_;
};

}  // namespace burnish::judging
