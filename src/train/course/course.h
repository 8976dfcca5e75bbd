#pragma once
#include <compare>

#include "train/course/replay.h"
#include "train/course/settings.h"
#include "train/objectives/objective.h"

namespace burnish::train {

/// Names a batch of a run: one that is trained, by its place in the run, or one on which held-out samples are judged; and what of it this
/// process runs at once.
struct BatchId {
  bool held_out = false;
  int64_t number = 0;
  int64_t part = 0;
  auto operator<=>(const BatchId&) const = default;
};

/// What of a batch a process runs at once.
struct BatchPart {
  int64_t first = 0, count = 1;  ///< of the batch's visits
  double share = 1;              ///< of the batch's loss; 0 for what only stands in where a process has nothing to do
  bool is_last = true;           ///< of what this process runs of the batch
  bool counts = true;            ///< whether its samples are counted here: of places that run them together, by the first
};

/// What this process runs after such a part of a batch.
inline BatchId next(const BatchId& id, const BatchPart& part) {
  return part.is_last ? BatchId{id.held_out, id.number + 1, 0} : BatchId{id.held_out, id.number, id.part + 1};
}

/// A batch by what is visited in it, as far as this process runs it at once.
struct BatchVisits {
  BatchId id;
  BatchPart part;
  data::Visits visits;      ///< none of held-out samples, nor where recorded draws are replayed
  std::vector<Pick> picks;  ///< a sample in one of its ways for each
  data::Visit lead = {};    ///< the first of the whole batch
};

/// Which samples each batch has and what is drawn for it: a pure function of the batch's name, so that a run can be taken up anywhere and
/// what it will draw is known before it starts.
class Course {
 public:
  /// `held_out` may be null. All that is named here must outlive the course.
  Course(const CourseSettings& settings, const diffusion::Process& process, const Objective& objective, const Samples& samples,
         const Samples* held_out);

  int64_t num_steps() const { return num_steps_; }
  int64_t num_batches() const { return num_steps_ * settings_.batches_per_step; }
  int64_t batches_per_step() const { return settings_.batches_per_step; }
  int64_t batches_per_epoch() const { return sampler_.batches_per_epoch(); }
  /// How often each sample of a dataset is; not of a class set.
  double visits_an_epoch(size_t set) const;
  int64_t num_held_out() const;
  /// How often the samples of all batches are visited.
  int64_t num_visits() const { return num_batches() * settings_.visits_a_batch(); }

  /// Of N processes, process r runs the visits from s·r/N to s·(r+1)/N of the s of a batch, in parts of at most batch_size: none is left
  /// out or run twice. Of what N places run together, each has an Nth of the share.
  BatchVisits batch(const BatchId& id) const;

  /// A data Error when recorded draws do not fit the samples.
  void check() const;

  /// The draws of these names [B, ...] on the CPU for a batch, with what the objective adds.
  pipeline::Values draws(const BatchVisits& batch, const std::set<std::string>& names) const;

 private:
  DrawRequest request(const BatchVisits& batch, const std::set<std::string>& names) const;
  BatchPart part_of(int64_t num_visits, const BatchId& id) const;
  int64_t held_out_row(const BatchId& id) const;

  CourseSettings settings_;
  const Objective& objective_;
  const Samples& samples_;
  const Samples* held_out_;
  std::optional<Replay> replay_;
  data::Sampler sampler_;
  int64_t num_steps_ = 0;
};

}  // namespace burnish::train
