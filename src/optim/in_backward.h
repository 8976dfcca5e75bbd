#pragma once
#include "optim/optimizer.h"

namespace burnish::optim {

/// A step of an optimizer inside backward: while it lives, each parameter is updated as soon as its gradient is there, and the gradient is
/// freed at once, so that gradients are never all there together. Numbers are those of Optimizer::step.
class InBackward {
 public:
  /// `max_norm` above 0 clips every gradient by its own norm, since that of all together is not known yet (sd-scripts,
  /// fused_backward_pass). std::logic_error for an optimizer that needs all gradients, or for parameters that have gradients already.
  InBackward(Optimizer& optimizer, double lr, double max_norm);
  ~InBackward();
  InBackward(const InBackward&) = delete;
  InBackward& operator=(const InBackward&) = delete;

  /// Ends the step after backward. Returns the norm over all gradients, as gradient_norm gives it, before any was clipped.
  at::Tensor finish();

 private:
  class Hook;
  void update(size_t index);

  Optimizer& optimizer_;
  double max_norm_;
  std::vector<at::Tensor> parts_;  ///< what each parameter adds to the norm
};

}  // namespace burnish::optim
