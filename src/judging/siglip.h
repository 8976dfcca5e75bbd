#pragma once
#include "judging/eye.h"

namespace burnish::judging {

/// A model by which pictures alone are alike: the vision tower of a SigLIP or SigLIP 2 of one size (Tschannen et al. 2025, arXiv
/// 2502.14786; transformers' SiglipVisionModel).
class Siglip final : public Eye {
 public:
  /// Finds it by file headers; both must outlive this. A data Error where there is none, or for pictures of another size than its own.
  Siglip(const models::ModelFiles& files, const models::ModelOptions& options);
  /// Tells whether the files hold one.
  static bool is_in(const models::ModelFiles& files);

  const char* name() const override { return "SigLIP"; }
  /// The whole picture, out of shape.
  at::Tensor shown(const at::Tensor& picture_HW3) const override { return models::squeezed(picture_HW3, rule_); }

 private:
  at::Tensor rows_of(const at::Tensor& image_N3SS) override;
};

}  // namespace burnish::judging
