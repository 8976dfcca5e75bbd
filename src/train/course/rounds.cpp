#include "train/course/rounds.h"

#include "base/permutation.h"

namespace burnish::train {

data::Visits Rounds::pictures(const data::Visits& groups) const {
  data::Visits all;
  for (const auto& group : groups) {
    for (int64_t i = 0; i < rule_.group_size; ++i) all.push_back({group.row, group.epoch, group.occurrence * rule_.group_size + i});
  }
  return all;
}

std::vector<int64_t> Rounds::seen(int64_t batch, int64_t num_pictures) const {
  std::vector<int64_t> numbers;
  for (auto i = first_of(batch); i < first_of(batch) + visits_a_batch_; ++i) {
    const auto pass = static_cast<uint64_t>(i / num_pictures);
    const RandomKey key{seed_, static_cast<uint64_t>(round_of(batch)), pass, Purpose::round};
    numbers.push_back(Permutation(key.value(), num_pictures)[i % num_pictures]);
  }
  return numbers;
}

data::Visits Rounds::visits(int64_t batch, const data::Visits& pictures) const {
  data::Visits visits;
  const auto most_passes = batches_ * visits_a_batch_;  // of a round of one picture
  auto i = first_of(batch);
  for (auto number : seen(batch, std::ssize(pictures))) {
    auto visit = pictures.at(static_cast<size_t>(number));
    visit.occurrence = visit.occurrence * most_passes + i++ / std::ssize(pictures);
    visits.push_back(visit);
  }
  return visits;
}

}  // namespace burnish::train
