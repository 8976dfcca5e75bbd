#pragma once
#include <c10/core/Device.h>

namespace burnish::kernels {

/// Has tensors on the meta device stand for nothing while it lives, also in a dry run: shapes that a run looks at and never holds.
class Aside {
 public:
  Aside();
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  c10::Device before_;
};

}  // namespace burnish::kernels
