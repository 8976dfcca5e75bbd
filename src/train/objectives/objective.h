#pragma once
#include "data/sampler.h"
#include "diffusion/strata.h"
#include "train/objectives/round_rule.h"
#include "train/objectives/settings.h"
#include "train/samples/open_samples.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// A batch for which draws are asked.
struct DrawRequest {
  data::Visits visits;
  std::vector<const Sample*> samples;  ///< the sample of each visit; all have equal latent shapes
  std::set<std::string> names;         ///< names of the values that are wanted; others need not be made
  data::Visit lead = {};               ///< the first visit of the whole batch, whoever runs it
  /// The strata of the times of an optimizer step, where they are stratified, and the first visit's number among all of that step.
  std::optional<diffusion::Strata> strata = {};
  int64_t first_stratum = 0;
};

/// An objective decides what a run makes of its samples: the units from a sample to its loss, what is drawn for a visit, and how losses
/// count. Each has one file, listed in objective_kind.h.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Returns the units, encoders first; they write loss [B], and the last one what `reduce` reads.
  virtual pipeline::Units units() const = 0;
  /// Returns the names of units that record no gradient although they depend on what trains.
  virtual std::set<std::string> without_gradient() const { return {}; }
  /// Returns the metadata columns that it reads of every sample.
  virtual std::vector<std::string> columns() const { return {}; }
  /// Throws a data Error for a sample that it cannot use.
  virtual void check(const Sample&) const {}
  /// Returns sentences, to be told as warnings, about samples of which it makes less than of others.
  virtual std::vector<std::string> warnings(const Samples&) const { return {}; }
  SampleNeeds needs() const {
    return {columns(), [this](const Sample& sample) { check(sample); }};
  }

  /// Counts how often the denoiser runs on the way from the sample to its loss, with gradients through all of these runs.
  virtual int64_t num_passes(const Sample&) const { return 1; }

  /// Counts the kinds of steps that it takes, of which each has a loss of its own and trains what that depends on.
  virtual int64_t num_phases() const { return 1; }
  /// Returns of which kind a step is, both counted from 0.
  virtual int64_t phase_of(int64_t /*step*/) const { return 0; }
  /// Returns what the gradients of steps of a kind are clipped to where `of_run` is what the run asks for; 0: nothing.
  virtual double max_grad_norm(int64_t /*phase*/, double of_run) const { return of_run; }

  /// Returns by what rule it draws pictures itself to learn from them; none: it learns from samples.
  virtual std::optional<RoundRule> rounds() const { return {}; }

  /// Draws what the visits need, joined along the first dimension, on the CPU; a number that units read is one for all visits, without
  /// dimensions. It is a function of the visits' keys: resumed and re-batched runs draw equal values.
  virtual pipeline::Values draws(const DrawRequest& request) const = 0;
  /// Held-out samples are judged on this many draws each, which are equal in every run.
  virtual int64_t num_held_out_draws() const { return 1; }
  virtual pipeline::Values held_out_draws(const DrawRequest& request, int64_t number) const = 0;
  /// Completes draws, wherever they come from: multiplies kLossWeight, and adds what `reduce` reads besides.
  virtual void complete(pipeline::Values& /*draws*/) const {}
  /// Says how a sample of a batch counts, for the log: `share` is where its time lies between no noise (0) and noise alone (1), and
  /// `weight` the factor on its loss. `counted` returns none where samples have no time of their own.
  struct Counted {
    double share = 0, weight = 1;
  };
  virtual std::vector<Counted> counted(const pipeline::Values& /*draws*/) const { return {}; }

  /// Returns the names of values [B] that units write beside loss; the log has their means by these names.
  virtual std::vector<std::string> logged() const { return {}; }

  /// Reduces what the units wrote of a batch to its loss: the mean of loss · kLossWeight. Runs on the device, without waiting for it.
  virtual at::Tensor reduce(const pipeline::Values& written, const pipeline::Values& draws) const;
};

/// Throws a config Error when the options do not fit the model's process. The subject's model must outlive the objective.
std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings, const Subject& subject);

/// Makes supervised fine-tuning, whose draws and weights other objectives use.
std::unique_ptr<Objective> make_sft(const ObjectiveSettings& settings, const Subject& subject);

}  // namespace burnish::train
