#pragma once
#include <functional>

#include "optim/parameter.h"

namespace burnish::optim {

/// The 2-norm over all gradients, a 0-dim fp64 tensor on their device (on the CPU when there are none), so that nothing waits for it. In
/// fp32 within a few thousand elements and in fp64 over them; a missing gradient counts as zero. Not finite when a gradient is not: the
/// caller decides what to do about that.
at::Tensor gradient_norm(const ParameterList& parameters);

/// Computes the bits of gradient_norm where each gradient is with the process that owns its parameter. `sum` replaces numbers, fp64 on the
/// CPU, by their sums over the processes. The result is on the CPU.
at::Tensor gradient_norm_of_owners(const ParameterList& parameters, const std::function<void(const at::Tensor&)>& sum);

/// Computes what one gradient adds to the norm, for gradients that are not there all at once, in the order of their parameters.
at::Tensor norm_part(const at::Tensor& gradient);
at::Tensor norm_of_parts(const std::vector<at::Tensor>& parts);

/// Multiplies every gradient by `factor`, in place.
void scale_gradients(const ParameterList& parameters, double factor);

/// Scales all gradients by max_norm / (norm + 1e-6) where that is below 1 (torch's clip_grad_norm_), `norm` being gradient_norm's.
/// max_norm <= 0 never clips, and a norm that is not finite leaves the gradients as they are.
void clip_gradients(const ParameterList& parameters, const at::Tensor& norm, double max_norm);

}  // namespace burnish::optim
