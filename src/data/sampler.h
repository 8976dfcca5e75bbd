#pragma once
#include <cstdint>
#include <vector>

#include "data/image.h"

namespace burnish::data {

/// One visit of a row: its position in the run names its random draws.
struct Visit {
  int64_t row = 0;
  int64_t epoch = 0;
  int64_t occurrence = 0;  ///< which repeat of the row within the epoch
};
using Visits = std::vector<Visit>;

/// Shuffled batches of equally sized rows. The order depends on (seed, epoch) alone, so a run can be taken up at any batch.
/// Every row occurs `repeat` times an epoch; the last batch of a size may be short.
class Sampler {
 public:
  Sampler(std::vector<int64_t> rows, std::vector<Size> sizes, int64_t batch_size, int64_t repeat, uint64_t seed);

  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  /// Batch `number`, counted from 0 over all epochs.
  Visits batch(int64_t number);

 private:
  std::vector<Visits> make_epoch(int64_t epoch) const;
  std::vector<int64_t> rows_;
  std::vector<Size> sizes_;
  int64_t batch_size_, repeat_;
  uint64_t seed_;
  int64_t batches_per_epoch_ = 0;
  int64_t current_epoch_ = -1;
  std::vector<Visits> current_;
};

}  // namespace burnish::data
