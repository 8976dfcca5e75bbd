#pragma once
#include "models/model/components.h"
#include "models/parts/square.h"

namespace burnish::judging {

// Shape letters: N pictures or texts, D numbers that stand for one of them, S side of a picture in pixels.

/// A model by which pictures are alike.
class Eye {
 public:
  /// Both must outlive it.
  Eye(const models::ModelFiles& files, const models::ModelOptions& options) : options_(options), components_(files, options) {}
  virtual ~Eye() = default;
  /// Returns its parts, which are to be loaded before anything is seen.
  models::Components& components() { return components_; }
  /// Returns the name by which people call such models.
  virtual const char* name() const = 0;

  /// Makes what it is shown of a picture, uint8 [H, W, 3] -> fp32 [3, S, S].
  virtual at::Tensor shown(const at::Tensor& picture_HW3) const = 0;
  /// Returns unit vectors [N, D] in fp32 of pictures that `shown` made: products of two of them are cosines.
  at::Tensor of_pictures(const at::Tensor& image_N3SS);

 protected:
  /// Returns rows [N, D] of any length for pictures on its device and in its dtype.
  virtual at::Tensor rows_of(const at::Tensor& image_N3SS) = 0;
  /// Returns unit vectors in fp32 on the CPU.
  static at::Tensor unit(const at::Tensor& rows_ND);

  const models::ModelOptions& options_;
  models::Components components_;
  models::SquareRule rule_;
};

}  // namespace burnish::judging
