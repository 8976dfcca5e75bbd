#pragma once
#include <cstdint>
#include <vector>

#include "optim/parameter.h"

namespace burnish::optim {

/// Gradients that stay in one place from step to step, where backward adds to them: what was recorded of a step goes on writing where it
/// wrote when it was recorded. Watches the parameters' backward for as long as it lives.
class GradientsInPlace {
 public:
  explicit GradientsInPlace(const ParameterList& parameters);
  ~GradientsInPlace();
  GradientsInPlace(const GradientsInPlace&) = delete;
  GradientsInPlace& operator=(const GradientsInPlace&) = delete;

  /// A step begins: zeros wherever a gradient has been before.
  void begin();
  /// The number of times that a gradient has come since the step began, by parameter; the caller adds those that came in a recording, which
  /// is not watched.
  std::vector<int64_t> num_came;
  /// The step's gradients are all there: a parameter whose own has not come has none.
  void finish();

 private:
  class Hook;
  std::vector<at::Tensor> parameters_, places_;
};

}  // namespace burnish::optim
