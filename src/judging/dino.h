#pragma once
#include "judging/eye.h"

namespace burnish::judging {

/// A model by which pictures alone are alike: a DINOv2 (Oquab et al. 2023, arXiv 2304.07193; transformers' Dinov2Model), without registers.
class Dino final : public Eye {
 public:
  /// Finds it by file headers; both must outlive this. A data Error where there is none.
  Dino(const models::ModelFiles& files, const models::ModelOptions& options);
  /// Tells whether the files hold one.
  static bool is_in(const models::ModelFiles& files);

  const char* name() const override { return "DINOv2"; }
  at::Tensor shown(const at::Tensor& picture_HW3) const override { return models::square_of(picture_HW3, rule_); }

 private:
  at::Tensor rows_of(const at::Tensor& image_N3SS) override;
};

}  // namespace burnish::judging
