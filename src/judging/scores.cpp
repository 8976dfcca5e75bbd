#include "judging/scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/median.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <cmath>

namespace burnish::judging {

namespace {

constexpr double kCopyOfOne = 0.9;

std::optional<double> drift_of(const Drawn& drawn, const Drawn* before) {
  if (before == nullptr) return std::nullopt;
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < drawn.numbers.size(); ++i) {
    const auto found = std::ranges::find(before->numbers, drawn.numbers[i]);
    if (found == before->numbers.end()) continue;
    const auto same = before->pictures_ND[found - before->numbers.begin()];
    sum += 1 - drawn.pictures_ND[static_cast<int64_t>(i)].dot(same).item<double>();
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

std::optional<double> variety_of(const at::Tensor& pictures_ND) {
  const auto count = pictures_ND.size(0);
  if (count < 2) return std::nullopt;
  const auto alike = at::matmul(pictures_ND, pictures_ND.t());
  return 1 - (alike.sum() - alike.diagonal().sum()).item<double>() / static_cast<double>(count * (count - 1));
}

/// Computes how much nearer each picture's nearest training picture is than its nearest held-out one.
std::vector<double> memories_of(const at::Tensor& pictures_ND, const Beside& beside) {
  const auto count = std::min(beside.training_ND.size(0), beside.held_out_ND.size(0));
  const auto to_training = at::matmul(pictures_ND, beside.training_ND.t()), to_held_out = at::matmul(pictures_ND, beside.held_out_ND.t());
  std::vector<double> memories;
  for (int64_t i = 0; i < pictures_ND.size(0); ++i)
    memories.push_back(mean_largest_of(to_training[i], count) - mean_largest_of(to_held_out[i], count));
  return memories;
}

/// Tells whether differences are above `least` in the mean, and further from nothing than two of its standard errors.
bool are_above(const std::vector<double>& differences, double least) {
  const auto count = static_cast<double>(differences.size());
  if (differences.size() < 3) return false;  // two say next to nothing of their spread
  double sum = 0, squares = 0;
  for (auto one : differences) sum += one;
  const auto mean = sum / count;
  for (auto one : differences) squares += (one - mean) * (one - mean);
  const auto error = std::sqrt(squares / (count - 1) / count);
  return mean > least && mean > 2 * error;
}

void compare_with_held_out(const Drawn& drawn, const Beside& beside, const Drawn* before, Scores& s) {
  if (!beside.held_out_ND.defined()) return;
  s.held_out = at::matmul(drawn.pictures_ND, beside.held_out_ND.t()).mean().item<double>();
  auto memories = memories_of(drawn.pictures_ND, beside);
  double sum = 0;
  for (auto one : memories) sum += one;
  s.memory = sum / static_cast<double>(memories.size());
  // A prompt may ask for what lies nearer to one of the sets, as it did before training.
  if (before != nullptr) {
    const auto at_start = memories_of(before->pictures_ND, beside);
    for (size_t i = 0; i < memories.size(); ++i) {
      const auto found = std::ranges::find(before->numbers, drawn.numbers[i]);
      if (found != before->numbers.end()) memories[i] -= at_start[static_cast<size_t>(found - before->numbers.begin())];
    }
  }
  constexpr double kLeastMemory = 0.02;
  s.memorises = are_above(memories, kLeastMemory);
}

}  // namespace

double copy_from(const at::Tensor& training_ND) {
  if (training_ND.size(0) < 2) return kCopyOfOne;
  auto alike = at::matmul(training_ND, training_ND.t());
  alike.fill_diagonal_(-1);
  return (std::get<0>(alike.max(1)).median().item<double>() + 1) / 2;
}

double mean_largest_of(const at::Tensor& numbers_N, int64_t count) {
  const auto sorted = std::get<0>(at::sort(numbers_N.to(at::kDouble))).contiguous();
  const auto total = sorted.size(0);
  const auto* numbers = sorted.const_data_ptr<double>();
  // The k-th by size, from 1 on, is the largest of C(k - 1, count - 1) choices out of C(total, count).
  double mean = 0, share = static_cast<double>(count) / static_cast<double>(total);
  for (auto k = total; k >= count; --k) {
    mean += share * numbers[k - 1];
    if (k > 1) share *= static_cast<double>(k - count) / static_cast<double>(k - 1);
  }
  return mean;
}

Scores scores_of(const Drawn& drawn, const Beside& beside, const Drawn* before) {
  const auto& training_ND = beside.training_ND;
  Scores s;
  const auto alike_NT = at::matmul(drawn.pictures_ND, training_ND.t());
  s.likeness = alike_NT.mean().item<double>();
  const auto [largest_N, rows_N] = alike_NT.max(1);
  const auto preview = largest_N.argmax().item<int64_t>();
  s.nearest = largest_N[preview].item<double>();
  s.nearest_preview = drawn.numbers.at(static_cast<size_t>(preview));
  s.nearest_row = rows_N[preview].item<int64_t>();
  s.num_copies = (largest_N > beside.copies_from).sum().item<int64_t>();
  if (drawn.prompts_ND.defined()) s.answer = (drawn.answers_ND * drawn.prompts_ND).sum(-1).mean().item<double>();
  s.variety = variety_of(drawn.pictures_ND);
  s.counted_variety = s.variety;
  if (const auto most = variety_of(training_ND); most && s.variety) s.counted_variety = std::min(*most, *s.variety);
  s.drift = drift_of(drawn, before);
  compare_with_held_out(drawn, beside, before, s);
  return s;
}

}  // namespace burnish::judging
