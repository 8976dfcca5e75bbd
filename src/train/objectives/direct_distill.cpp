// Direct distillation as an objective: the student takes all steps from the noise that the teacher's picture began with.
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>

#include "base/input_error.h"
#include "train/objectives/distill.h"
#include "train/objectives/objective.h"

namespace burnish::train {

namespace {

class DirectDistill final : public Objective {
 public:
  DirectDistill(const ObjectiveSettings& settings, models::Model& model) : settings_(settings), model_(model) {}

  pipeline::Units units() const override { return distill_units(model_, spacing_of(settings_.own)); }
  std::vector<std::string> columns() const override { return kTrajectoryColumns; }
  void check(const Sample& sample) const override { trajectory_of(sample.row.cells, sample.number); }

  int64_t num_passes(const Sample& sample) const override { return trajectory_of(sample.row.cells, sample.number).num_steps; }

  pipeline::Values draws(const DrawRequest& request) const override {
    std::map<std::string, std::vector<at::Tensor>> starts;
    const auto num_steps = num_passes(*request.samples.at(0));
    for (const auto* sample : request.samples) {
      auto trajectory = trajectory_of(sample->row.cells, sample->number);
      if (trajectory.num_steps != num_steps)
        data_error("train", "a batch of direct_distill holds rows of {} and of {} num_inference_steps; set batch_size to 1", num_steps,
                   trajectory.num_steps);
      for (const auto& stream : model_.latent_space().streams)
        starts[stream.value("start_noise")].push_back(
            start_noise(trajectory, shape_of(*sample, stream.name), settings_.dtype, stream.name));
    }
    pipeline::Values draws{{"num_inference_steps", at::scalar_tensor(num_steps, at::kLong)}};
    for (const auto& [name, of_samples] : starts) draws[name] = at::cat(of_samples);
    return draws;
  }

  /// Held-out samples have their trajectory's own noise and times.
  pipeline::Values held_out_draws(const DrawRequest& request, int64_t /*number*/) const override { return draws(request); }

 private:
  ObjectiveSettings settings_;
  models::Model& model_;
};

void check_distillation(const RunForObjective& run) {
  if (run.augments)
    config_error("train",
                 "direct_distill learns the teacher's picture as it is; take random_crop, random_flip and other changes of pictures out");
  if (run.draws_latents) config_error("train", "direct_distill compares with the teacher's picture; set latents to mean");
  if (run.replays) config_error("train", "direct_distill draws nothing that could be replayed; take replay out");
  if (run.loss_type != "l2") config_error("train", "direct_distill compares latents by their square; take loss_type {} out", run.loss_type);
}

std::string distillation_fingerprint(const models::OptionValues& own) {
  const auto spacing = spacing_of(own);
  return spacing == "default" ? "" : spacing;
}

std::unique_ptr<Objective> make_distillation(const ObjectiveSettings& settings, const Subject& subject) {
  return std::make_unique<DirectDistill>(settings, *subject);
}

}  // namespace

const ObjectiveKind& direct_distill() {
  static const ObjectiveKind kind{.word = "direct_distill",
                                  .columns = kTrajectoryColumns,
                                  .drawn = {{"start_noise", /*is_noise=*/true}, {"num_inference_steps"}},
                                  .imports_diffsynth = true,
                                  .options = {spacing_option()},
                                  .check = check_distillation,
                                  .fingerprint = distillation_fingerprint,
                                  .make = make_distillation};
  return kind;
}

}  // namespace burnish::train
