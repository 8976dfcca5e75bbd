#include "judging/scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/median.h>

#include <algorithm>

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

}  // namespace

double copy_from(const at::Tensor& training_ND) {
  if (training_ND.size(0) < 2) return kCopyOfOne;
  auto alike = at::matmul(training_ND, training_ND.t());
  alike.fill_diagonal_(-1);
  return (std::get<0>(alike.max(1)).median().item<double>() + 1) / 2;
}

Scores scores_of(const Drawn& drawn, const at::Tensor& training_ND, double copies_from, const Drawn* before) {
  Scores s;
  const auto alike_NT = at::matmul(drawn.pictures_ND, training_ND.t());
  s.likeness = alike_NT.mean().item<double>();
  const auto [largest_N, rows_N] = alike_NT.max(1);
  const auto preview = largest_N.argmax().item<int64_t>();
  s.nearest = largest_N[preview].item<double>();
  s.nearest_preview = drawn.numbers.at(static_cast<size_t>(preview));
  s.nearest_row = rows_N[preview].item<int64_t>();
  s.num_copies = (largest_N > copies_from).sum().item<int64_t>();
  if (drawn.prompts_ND.defined()) s.answer = (drawn.answers_ND * drawn.prompts_ND).sum(-1).mean().item<double>();
  s.variety = variety_of(drawn.pictures_ND);
  s.counted_variety = s.variety;
  if (const auto most = variety_of(training_ND); most && s.variety) s.counted_variety = std::min(*most, *s.variety);
  s.drift = drift_of(drawn, before);
  return s;
}

}  // namespace burnish::judging
