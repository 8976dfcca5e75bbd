#pragma once
#include "models/model/components.h"

namespace burnish::judging {

// Shape letters: N pictures or texts, D numbers that stand for one of them, S side of a picture in pixels.

/// A model by which pictures are alike.
class Eye {
 public:
  virtual ~Eye() = default;
  /// Returns its parts, which are to be loaded before anything is seen.
  virtual models::Components& components() = 0;
  /// Returns the name by which people call such models.
  virtual const char* name() const = 0;

  /// Makes what it is shown of a picture, uint8 [H, W, 3] -> fp32 [3, S, S].
  virtual at::Tensor shown(const at::Tensor& picture_HW3) const = 0;
  /// Returns unit vectors [N, D] in fp32 of pictures that `shown` made: products of two of them are cosines.
  virtual at::Tensor of_pictures(const at::Tensor& image_N3SS) = 0;
};

}  // namespace burnish::judging
