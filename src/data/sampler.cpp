#include "data/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/permutation.h"

namespace burnish::data {

namespace {

/// So many that no count of visits or batches over a run's epochs overflows.
constexpr int64_t kMostVisits = 1'000'000'000'000;

/// Rows keep their order, which needs no shuffling: each has its turn in every epoch.
constexpr uint64_t kInOrder = ~uint64_t{0};

/// Visits an epoch of `num_rows` rows of a dataset.
int64_t count_visits(int64_t num_rows, double num_repeats) {
  if (!(num_repeats > 0)) config_error("data", "the repeats of a dataset must be more than 0, not {}", num_repeats);
  auto visits = std::max(1.0, std::round(static_cast<double>(num_rows) * num_repeats));
  if (visits > static_cast<double>(kMostVisits))
    config_error("data", "{:.6g} repeats make of {} samples more than {} visits an epoch; give a smaller dataset_repeat, or num_epochs",
                 num_repeats, num_rows, kMostVisits);
  return static_cast<int64_t>(visits);
}

}  // namespace

Sampler::Sampler(const std::vector<SampledRow>& rows, const std::vector<SampledSet>& sets, int64_t batch_size, uint64_t seed)
    : batch_size_(batch_size), seed_(seed) {
  if (batch_size < 1) config_error("data", "batch_size must be at least 1, not {}", batch_size);
  std::vector<std::vector<SampledRow>> by_set(sets.size());
  std::vector<SampledRow> class_set;
  for (const auto& row : rows) (sets.at(row.set).of_class_set ? class_set : by_set[row.set]).push_back(row);

  ByKey by_key;
  int64_t total = 0;
  for (size_t set = 0; set < sets.size(); ++set) {
    if (by_set[set].empty()) continue;
    auto visits = count_visits(std::ssize(by_set[set]), sets[set].num_repeats);
    bool whole = visits % std::ssize(by_set[set]) == 0;
    share_out(std::move(by_set[set]), visits, whole ? kInOrder : set + 1, by_key);
    total += visits;
  }
  if (total > kMostVisits) config_error("data", "the datasets make more than {} visits an epoch; give smaller repeats", kMostVisits);
  share_out(std::move(class_set), total, 0, by_key);
  for (auto& [key_of_bucket, bucket] : by_key) {
    if (bucket.num_visits == 0) continue;
    bucket.first_batch = batches_per_epoch_;
    bucket.num_batches = bucket.num_visits / batch_size + (bucket.num_visits % batch_size > 0);
    batches_per_epoch_ += bucket.num_batches;
    buckets_.push_back(std::move(bucket));
  }
}

/// The key of the order of an epoch's batches (index 0), or of the visits of the bucket that the index is behind.
uint64_t Sampler::key(int64_t epoch, size_t index) const {
  return RandomKey{seed_, static_cast<uint64_t>(epoch), index, Purpose::shuffle}.value();
}

/// Of N visits the i-th goes to the size of row i·M/N of the M rows, ordered by size: every epoch has as many of each size, and so as many
/// batches. `shuffle` names how the turns of a size are shuffled.
void Sampler::share_out(std::vector<SampledRow> rows, int64_t num_visits, uint64_t shuffle, ByKey& by_key) const {
  std::ranges::stable_sort(rows, {}, &SampledRow::key);
  auto num_rows = std::ssize(rows);
  // The smallest i with i·M/N of at least `row`, in parts that do not overflow.
  auto visits_before = [&](int64_t row) {
    return row * (num_visits / num_rows) + (row * (num_visits % num_rows) + num_rows - 1) / num_rows;
  };
  for (int64_t first = 0, last = 0; first < num_rows; first = last) {
    auto key = rows[static_cast<size_t>(first)].key();
    while (last < num_rows && rows[static_cast<size_t>(last)].key() == key) ++last;
    auto& bucket = by_key[key];
    auto& turns = bucket.turns.emplace_back();
    turns.num_visits = visits_before(last) - visits_before(first);
    bucket.num_visits += turns.num_visits;
    Permutation order(RandomKey{seed_, static_cast<uint64_t>(first), shuffle, Purpose::class_turns}.value(), last - first);
    for (int64_t i = 0; i < last - first; ++i)
      turns.rows.push_back(rows[static_cast<size_t>(first + (shuffle == kInOrder ? i : order[i]))].row);
  }
}

Visit Sampler::visit(const Bucket& bucket, int64_t epoch, int64_t index) const {
  auto turns = bucket.turns.begin();
  for (; index >= turns->num_visits; ++turns) index -= turns->num_visits;
  auto num_rows = std::ssize(turns->rows);
  return {turns->rows[static_cast<size_t>((epoch * turns->num_visits + index) % num_rows)], epoch, index / num_rows};
}

Sampler::Range Sampler::range(int64_t number) const {
  auto place = Permutation(key(number / batches_per_epoch_, 0), batches_per_epoch_)[number % batches_per_epoch_];
  auto bucket = std::prev(std::ranges::upper_bound(buckets_, place, {}, &Bucket::first_batch));
  auto at_least = bucket->num_visits / bucket->num_batches, longer = bucket->num_visits % bucket->num_batches;
  auto first_of = [&](int64_t batch) { return batch * at_least + std::min(batch, longer); };
  place -= bucket->first_batch;
  return {static_cast<size_t>(bucket - buckets_.begin()), first_of(place), first_of(place + 1)};
}

int64_t Sampler::num_visits(int64_t number) const {
  auto [bucket, first, last] = range(number);
  return last - first;
}

Visits Sampler::batch(int64_t number) const {
  auto epoch = number / batches_per_epoch_;
  auto [index, first, last] = range(number);
  const auto& bucket = buckets_[index];
  Permutation order(key(epoch, index + 1), bucket.num_visits);
  Visits visits;
  for (auto i = first; i < last; ++i) visits.push_back(visit(bucket, epoch, order[i]));
  return visits;
}

}  // namespace burnish::data
