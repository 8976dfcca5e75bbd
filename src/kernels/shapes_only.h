#pragma once
#include <c10/core/Device.h>

namespace burnish::kernels {

/// While it lives, a dry run does not count tensors on the meta device: a run looks at their shapes and never holds them.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

 private:
  c10::Device before_;
};

}  // namespace burnish::kernels
