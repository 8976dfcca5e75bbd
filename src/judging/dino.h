#pragma once
#include "judging/square.h"
#include "models/model/components.h"

namespace burnish::judging {

/// A model by which pictures alone are alike: a DINOv2 (Oquab et al. 2023, arXiv 2304.07193; transformers' Dinov2Model), without registers.
class Dino {
 public:
  /// Finds it by file headers; both must outlive this. A data Error where there is none.
  Dino(const models::ModelFiles& files, const models::ModelOptions& options);
  /// Tells whether the files hold one.
  static bool is_in(const models::ModelFiles& files);

  /// Returns its one part, which is to be loaded before anything is seen.
  models::Components& components() { return components_; }
  static const char* name() { return "DINOv2"; }

  at::Tensor shown(const at::Tensor& picture_HW3) const { return square_of(picture_HW3, rule_); }
  /// Returns unit vectors [N, D] in fp32 of pictures that `shown` made.
  at::Tensor of_pictures(const at::Tensor& image_N3SS);

 private:
  const models::ModelOptions& options_;
  models::Components components_;
  SquareRule rule_;
};

}  // namespace burnish::judging
