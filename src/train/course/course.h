#pragma once
#include <compare>

#include "train/course/replay.h"
#include "train/course/rounds.h"
#include "train/course/settings.h"
#include "train/objectives/objective.h"

namespace burnish::train {

/// Names a batch of a run, a trained one by its number in the run, or one on which held-out samples are judged; and the part of it that
/// this process runs at once.
struct BatchId {
  bool held_out = false;
  int64_t number = 0;
  int64_t part = 0;
  auto operator<=>(const BatchId&) const = default;
};

/// The part of a batch that a process runs at once.
struct BatchPart {
  int64_t first = 0, count = 1;  ///< the visits of the batch that are in the part
  double share = 1;              ///< its share of the batch's loss; 0 for a part that only stands in where a process has nothing to do
  bool is_last = true;           ///< whether it is the last part of the batch that this process runs
  bool counts = true;            ///< whether its samples are counted here: where places run them together, the first place counts
};

/// Returns what this process runs after such a part of a batch.
inline BatchId next(const BatchId& id, const BatchPart& part) {
  return part.is_last ? BatchId{id.held_out, id.number + 1, 0} : BatchId{id.held_out, id.number, id.part + 1};
}

/// The visits of a batch, as far as this process runs it at once.
struct BatchVisits {
  BatchId id;
  BatchPart part;
  data::Visits visits;      ///< no visits for held-out samples, nor where recorded draws are replayed
  std::vector<Pick> picks;  ///< for each visit a sample in one of its ways
  data::Visit lead = {};    ///< the first visit of the whole batch
  /// The numbers of the pictures that it sees among those that the run drew for its round; none where it draws none.
  std::vector<int64_t> pictures = {};
};

/// A course decides which samples each batch has and what is drawn for it: a pure function of the batch's name, so that a run can be taken
/// up anywhere and what it will draw is known before it starts.
class Course {
 public:
  /// `held_out` may be null. All that is named here must outlive the course. `given_shares` are those of models::ReferenceNames.
  Course(const CourseSettings& settings, const diffusion::Process& process, const Objective& objective, const Samples& samples,
         const Samples* held_out, std::map<std::string, double> given_shares = {});

  int64_t num_steps() const { return num_steps_; }
  int64_t num_batches() const { return num_steps_ * settings_.batches_per_step; }
  int64_t batches_per_step() const { return settings_.batches_per_step; }
  int64_t batches_per_epoch() const { return sampler_.batches_per_epoch() * (rounds_ ? rounds_->num_batches() : 1); }
  /// Tells whether a step, counted from 1, ends an epoch whose number is a multiple of `every`: it may begin the next one too.
  bool ends_epoch(int64_t step, int64_t every = 1) const;
  /// Returns how often an epoch visits each sample of a dataset; not for a class set.
  double visits_an_epoch(size_t set) const;
  int64_t num_held_out() const;
  /// Counts the visits of all batches.
  int64_t num_visits() const { return num_batches() * settings_.visits_a_batch(); }

  /// Returns a batch's part for this process. Of N processes, process r runs the visits from s·r/N to s·(r+1)/N of the s of a batch, in
  /// parts of at most batch_size: none is left out or run twice. Where N places run a part together, each has an Nth of its share.
  BatchVisits batch(const BatchId& id) const;

  /// Returns the rounds in which the run draws pictures itself; null where it draws none.
  const Rounds* rounds() const { return rounds_ ? &*rounds_ : nullptr; }
  /// Returns the pictures that are drawn for a round, as visits that name what is drawn for them, in the order of their groups.
  BatchVisits pictures_of(int64_t round) const;
  /// Tells whether draws are recorded ones.
  bool is_replayed() const { return replay_.has_value(); }

  /// Throws a data Error when recorded draws do not fit the samples.
  void check() const;

  /// Returns the draws of these names [B, ...] on the CPU for a batch, with what the objective adds.
  pipeline::Values draws(const BatchVisits& batch, const std::set<std::string>& names) const;

 private:
  DrawRequest request(const BatchVisits& batch, const std::set<std::string>& names) const;
  /// Draws 1 or 0 for what is given at a share of visits: all of a batch have it, or none.
  double draw_given(const BatchVisits& batch, const std::string& name) const;
  /// Says which strata of its step's times a batch's visits have.
  void stratify(const BatchVisits& batch, DrawRequest& request) const;
  BatchPart part_of(int64_t num_visits, const BatchId& id) const;
  int64_t visits_of(int64_t batch) const { return rounds_ ? rounds_->visits_a_batch() : sampler_.num_visits(batch); }
  BatchVisits batch_of_round(const BatchId& id) const;
  int64_t held_out_row(const BatchId& id) const;

  CourseSettings settings_;
  const Objective& objective_;
  const Samples& samples_;
  const Samples* held_out_;
  std::map<std::string, double> given_shares_;
  std::optional<Replay> replay_;
  std::optional<Rounds> rounds_;
  data::Sampler sampler_;
  int64_t num_steps_ = 0;
};

}  // namespace burnish::train
