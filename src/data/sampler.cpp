#include "data/sampler.h"

#include <map>

#include "base/error.h"
#include "base/random_key.h"

namespace burnish::data {

Sampler::Sampler(std::vector<int64_t> rows, std::vector<Size> sizes, int64_t batch_size, int64_t repeat, uint64_t seed)
    : rows_(std::move(rows)), sizes_(std::move(sizes)), batch_size_(batch_size), repeat_(repeat), seed_(seed) {
  if (batch_size < 1) config_error("data", "batch_size must be at least 1, not {}", batch_size);
  if (repeat < 1) config_error("data", "dataset_repeat must be at least 1, not {}", repeat);
  batches_per_epoch_ = std::ssize(make_epoch(0));
}

template <class T>
static void shuffle(std::vector<T>& items, CounterRandom& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

std::vector<Visits> Sampler::make_epoch(int64_t epoch) const {
  CounterRandom random(RandomKey{seed_, static_cast<uint64_t>(epoch), 0, Purpose::shuffle}.value());
  std::vector<std::pair<size_t, Visit>> visits;
  for (int64_t occurrence = 0; occurrence < repeat_; ++occurrence) {
    for (size_t i = 0; i < rows_.size(); ++i) visits.push_back({i, {rows_[i], epoch, occurrence}});
  }
  shuffle(visits, random);
  std::map<Size, Visits> open;
  std::vector<Visits> batches;
  for (const auto& [index, visit] : visits) {
    auto& batch = open[sizes_[index]];
    batch.push_back(visit);
    if (std::ssize(batch) == batch_size_) {
      batches.push_back(std::move(batch));
      batch.clear();
    }
  }
  for (auto& [size, batch] : open) {
    if (!batch.empty()) batches.push_back(std::move(batch));
  }
  shuffle(batches, random);
  return batches;
}

Visits Sampler::batch(int64_t number) {
  auto epoch = number / batches_per_epoch_;
  if (epoch != current_epoch_) {
    current_ = make_epoch(epoch);
    current_epoch_ = epoch;
  }
  return current_[static_cast<size_t>(number % batches_per_epoch_)];
}

}  // namespace burnish::data
