#include "records/validation_losses.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "records/json_log.h"

namespace burnish::records {

std::vector<ValidationLoss> read_validation_losses(const std::filesystem::path& run) {
  LogFollower log(run / "log.jsonl");
  auto records = log.next().log;
  const auto& values = records.columns["validation_loss"];
  std::map<int64_t, double> by_step;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) by_step[records.steps[i]] = values[i];
  }
  std::vector<ValidationLoss> losses;
  for (const auto& [step, loss] : by_step) losses.push_back({step, loss});
  return losses;
}

std::optional<double> loss_at(const std::vector<ValidationLoss>& losses, int64_t step) {
  const auto after = std::ranges::lower_bound(losses, step, {}, &ValidationLoss::step);
  if (after == losses.end()) return std::nullopt;
  if (after->step == step) return after->loss;
  if (after == losses.begin()) return std::nullopt;
  const auto before = std::prev(after);
  const auto share = static_cast<double>(step - before->step) / static_cast<double>(after->step - before->step);
  return before->loss + share * (after->loss - before->loss);
}

}  // namespace burnish::records
