#pragma once
#include <vector>

#include "data/sampler.h"
#include "train/objectives/round_rule.h"

namespace burnish::train {

/// The rounds of a run that draws pictures itself: which it draws, and which of them each batch sees. A pure function, as the course is.
class Rounds {
 public:
  Rounds(const RoundRule& rule, int64_t batches_per_step, int64_t visits_a_batch, uint64_t seed)
      : rule_(rule), batches_(rule.num_steps * batches_per_step), visits_a_batch_(visits_a_batch), seed_(seed) {}

  int64_t num_groups() const { return rule_.num_groups; }
  int64_t visits_a_batch() const { return visits_a_batch_; }
  /// Counts the batches of a round.
  int64_t num_batches() const { return batches_; }
  /// Returns the number of the round that a batch is of.
  int64_t round_of(int64_t batch) const { return batch / batches_; }

  /// Returns the visits that name what is drawn for the pictures of a round, group by group, from visits of the samples that its groups are
  /// of.
  data::Visits pictures(const data::Visits& groups) const;
  /// Returns the numbers, among `num_pictures` of its round, of the pictures that a batch sees: all of them in a shuffled order, then all
  /// in another.
  std::vector<int64_t> seen(int64_t batch, int64_t num_pictures) const;
  /// Returns the visits of a batch, which draw noise and time anew each time that a picture is seen.
  data::Visits visits(int64_t batch, const data::Visits& pictures) const;

 private:
  int64_t first_of(int64_t batch) const { return batch % batches_ * visits_a_batch_; }

  RoundRule rule_;
  int64_t batches_, visits_a_batch_;
  uint64_t seed_;
};

}  // namespace burnish::train
