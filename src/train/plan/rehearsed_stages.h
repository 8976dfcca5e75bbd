#pragma once
#include <functional>
#include <map>
#include <optional>

#include "memory/dry_run.h"
#include "memory/profile.h"
#include "train/options/settings.h"
#include "train/plan/memory_plan.h"
#include "train/plan/savings.h"
#include "train/step/snapshot.h"
#include "train/step/trainee.h"

namespace burnish::train {

/// A tensor on the CPU of the same shape that takes no memory.
at::Tensor of_its_shape(const at::Tensor& tensor);
/// A batch whose tensors on the meta device are on the CPU in name only: they take no memory until they are moved to a device.
Batch on_host(Batch batch);

/// Goes through the stages of a run whose model is on the meta device, by the functions that the run itself uses.
class Rehearsal {
 public:
  /// Both must outlive it.
  Rehearsal(memory::DryRun& dry, Subject& subject, c10::Device device, std::optional<int64_t> limit)
      : dry_(dry), subject_(subject), device_(device), limit_(limit) {}

  /// Runs units on the values of single samples, one unit with its models after the other, and adds what they write to the values. Where a
  /// text encoder is read block by block, as many more samples are counted as are at work at once of `num_samples`.
  void encode(const pipeline::Units& units, std::vector<pipeline::Values>& samples, int64_t num_samples);
  /// Runs the schedule's ahead stage for a batch and adds what is kept of it to the batch's draws. The bytes of that.
  int64_t compute_ahead(const pipeline::Stage& ahead, Batch& batch);
  /// Loads the trainee and goes through a step, and through a second where the first has left something behind. Then computes what is
  /// saved, which is given.
  Snapshot train(const pipeline::Schedule& schedule, const Settings& settings, const KeptForBackward& kept, const Objective& objective,
                 const Batch& batch, int64_t batches_per_step, bool counts_work);

  const std::vector<StageMemory>& stages() const { return stages_; }
  /// After `train`, of a run that was not traced.
  const StepWork& work() const { return work_; }
  /// Returns what forward leaves for backward in the step, after `train`.
  int64_t activation_bytes() const;
  /// Returns the savings of a dry run that was traced, after `train`.
  Savings savings() const;

 private:
  using Encode = std::function<void(pipeline::Values& sample)>;
  void encode_by_block(const std::string& encoder, std::vector<pipeline::Values>& samples, int64_t num_samples, const Encode& run);
  /// Loads models; memory that is live afterwards is that of weights.
  void load(const std::vector<std::string>& models, int64_t begin);
  /// The world must outlive the trainee.
  Trainee load(const pipeline::Schedule& schedule, const Settings& settings, const KeptForBackward& kept, int64_t batches_per_step,
               const dist::World& world);
  /// The batch for each expert in turn: the gradients of all are there at once.
  Batch next_batch(Batch batch, int64_t phase);
  void take_step(Trainee& trainee, const Settings& settings, const Objective& objective, const Batch& batch, int64_t batches_per_step,
                 int64_t phase);
  /// Computes what is saved, which is given.
  Snapshot save(const Trainee& trainee, const Settings& settings);
  void watch_blocks(const Trainee& trainee);
  void mark(const optim::StateList& state, memory::Kind kind);
  void mark_weights(nn::Module& module);
  /// Of the step's work, outside of what is counted of memory.
  void count_bytes(const Trainee& trainee);
  void add(const std::string& name, int64_t begin);
  /// Bytes that are live, without gradients, which the next step begins by freeing.
  int64_t lasting_bytes() const;
  /// The step's blocks of memory with their kinds, and those before it.
  memory::Allocations marked() const;
  /// What computing a part again saves of what is kept, and the work that it is.
  memory::Saving saving_of(const memory::RecomputablePart& part, const memory::Allocations& blocks) const;

  memory::DryRun& dry_;
  Subject& subject_;
  c10::Device device_;
  std::optional<int64_t> limit_;
  std::map<size_t, memory::Kind> kinds_;  ///< of blocks of memory, by number
  std::vector<StageMemory> stages_;
  StepWork work_;
  int64_t step_begin_ = 0, step_end_ = 0;
  int64_t num_asked_ = 0;  ///< batches that steps have asked for
};

}  // namespace burnish::train
