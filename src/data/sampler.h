#pragma once
#include <bit>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "base/extent.h"

namespace burnish::data {

/// A visit of a row: its position in the run names its random draws.
struct Visit {
  int64_t row = 0;
  int64_t epoch = 0;
  int64_t occurrence = 0;  ///< number of the row's repeat within the epoch
};
using Visits = std::vector<Visit>;

/// A row that the sampler visits.
struct SampledRow {
  int64_t row = 0;
  Extent extent;
  size_t set = 0;                           ///< number of the run's dataset that it is of
  std::vector<Extent> references = {};      ///< extents of its reference pictures
  std::vector<int64_t> further_sizes = {};  ///< sizes of what else a batch joins of its rows
  double strength = 1;                      ///< the strength of what is learned at which it is seen

  /// A key of what rows of one batch have in common: their extent, those of their references, further sizes, and their strength, of which 1
  /// comes before the others by their bits.
  using Key = std::tuple<Extent, std::vector<Extent>, std::vector<int64_t>, std::pair<bool, int64_t>>;
  Key key() const { return {extent, references, further_sizes, {strength != 1, std::bit_cast<int64_t>(strength)}}; }
};

/// The rule of how often an epoch visits the rows of a dataset.
struct SampledSet {
  double num_repeats = 1;  ///< not that of a class set
  bool of_class_set = false;
};

/// Shuffled batches of equally sized rows, whose reference pictures are as many and of equal sizes as well. A batch depends on (seed, its
/// number) alone, so a run can be taken up at any batch; it is computed when it is asked for, so that an epoch of 10^12 visits takes
/// neither time nor memory before its first batch. The visits of each size are shuffled, cut into as few batches as hold them, all equally
/// long but for one sample, and the batches of all sizes are shuffled.
///
/// Of N rows of a dataset an epoch makes N·num_repeats visits, rounded. Sizes share them as they share the rows, and the rows of a size
/// take turns, over the ends of epochs as well: none is visited twice more often than another, and none again in an epoch before all of
/// its size were.
///
/// Rows of class sets are mixed in, as many visits an epoch as the other rows have together, as in sd-scripts (library/train_util.py,
/// DreamBoothDataset), which takes the same first rows in every epoch; here they take turns as well.
class Sampler {
 public:
  /// Throws a config Error for numbers that make no visits, and for more than 10^12 visits an epoch.
  Sampler(const std::vector<SampledRow>& rows, const std::vector<SampledSet>& sets, int64_t batch_size, uint64_t seed);

  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  /// Counts the visits of batch `number`.
  int64_t num_visits(int64_t number) const;
  /// Batch `number`, counted from 0 over all epochs.
  Visits batch(int64_t number) const;

 private:
  /// Rows of one dataset and size, or of all class sets and one size, that share an epoch's visits.
  struct Turns {
    std::vector<int64_t> rows;  ///< rows in the order of their turns
    int64_t num_visits = 0;     ///< an epoch
  };
  /// The rows that are visited at one size.
  struct Bucket {
    std::vector<Turns> turns;
    int64_t num_visits = 0, num_batches = 0;  ///< an epoch
    int64_t first_batch = 0;                  ///< number of its first batch among an epoch's before they are shuffled
  };
  using ByKey = std::map<SampledRow::Key, Bucket>;
  void share_out(std::vector<SampledRow> rows, int64_t num_visits, uint64_t shuffle, ByKey& by_key) const;
  uint64_t key(int64_t epoch, size_t index) const;
  Visit visit(const Bucket& bucket, int64_t epoch, int64_t index) const;
  /// Shuffled visits of a bucket that are a batch.
  struct Range {
    size_t bucket = 0;
    int64_t first = 0, last = 0;
  };
  Range range(int64_t number) const;

  int64_t batch_size_;
  uint64_t seed_;
  std::vector<Bucket> buckets_;  ///< buckets by size
  int64_t batches_per_epoch_ = 0;
};

}  // namespace burnish::data
