#pragma once
#include "train/course/feed.h"
#include "train/step/trainee.h"

namespace burnish::train {

// An optimizer step has two halves. Neither has a file, a clock or a log in it, and neither waits for the device: their results are
// tensors, so that they run on the meta device as they are. Between the two the caller may look at the norm and drop the gradients.

/// The results of a step's batches, fp64 on the device where they were computed.
struct Gradients {
  at::Tensor loss;                           ///< the mean over the batches
  at::Tensor norm;                           ///< norm of all gradients together
  std::vector<at::Tensor> losses_B;          ///< losses of the samples of each part of a batch, not weighted
  std::map<std::string, at::Tensor> logged;  ///< means over the batches of values that the objective has logged
  int64_t num_samples = 0;
};

/// Runs one batch with what is loaded, and returns the loss of each sample [B], as the last unit has it.
at::Tensor losses_of(const Trainee& trainee, Batch batch);

/// Runs one batch with what is loaded as far as these values, without gradients, and returns all that it comes to.
pipeline::Values values_of(const Trainee& trainee, Batch batch, const std::set<std::string>& names);

/// Leaves in every trained parameter the gradient of the mean loss over `num_batches` batches, whose parts `next` gives one after the
/// other. Where several processes train, gradients and norm are those of all together, and the other results are this process's share.
/// Everything else of the trainee stays as it is, so that the step can be tried again. Throws a config Error for a loss that depends on
/// nothing that trains.
Gradients compute_gradients(Trainee& trainee, const Objective& objective, int64_t num_batches, const std::function<Batch()>& next);

/// Takes both halves at once for one batch, with each parameter updated inside backward and its gradient freed at once.
/// `settings.max_grad_norm` clips every gradient by its own norm; the result has the norm of all gradients before any was clipped.
Gradients update_in_backward(Trainee& trainee, const Objective& objective, Batch batch, const StepSettings& settings, double learning_rate);

/// Clips the gradients, updates parameters and averages with them, and moves the trainee's progress on by `num_batches`.
void update(Trainee& trainee, const Gradients& gradients, const StepSettings& settings, double learning_rate, int64_t num_batches);

}  // namespace burnish::train
