#pragma once
#include "judging/eye.h"

namespace burnish::judging {

/// A model by which pictures alone are alike: a DINOv3 (Siméoni et al. 2025, arXiv 2508.10104; transformers' DINOv3ViTModel), a transformer
/// over patches whose places are turned into queries and keys. It sees the whole picture, squeezed into a square.
class Dino3 final : public Eye {
 public:
  /// Finds it by file headers; both must outlive this. A data Error where there is none.
  Dino3(const models::ModelFiles& files, const models::ModelOptions& options);
  /// Tells whether the files hold one.
  static bool is_in(const models::ModelFiles& files);

  const char* name() const override { return "DINOv3"; }
  at::Tensor shown(const at::Tensor& picture_HW3) const override { return models::squeezed(picture_HW3, rule_); }

 private:
  at::Tensor rows_of(const at::Tensor& image_N3SS) override;
};

}  // namespace burnish::judging
