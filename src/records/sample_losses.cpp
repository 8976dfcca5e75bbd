#include "records/sample_losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/median.h"

namespace burnish::records {

namespace {

constexpr int64_t kTimes = 10, kMostStretches = 8;
/// Visits that a cell of times and steps has at least on average, and as many as its column's mean counts for in it.
constexpr int64_t kInACell = 20, kOfColumn = 5;
constexpr double kNoisy = 0.5, kOfNormal = 1.4826;  // a normal deviation over the median of absolute ones

struct Mean {
  double sum = 0, count = 0;
  void add(double value) { sum += value, ++count; }
  double value() const { return count > 0 ? sum / count : 0; }
};

/// The logarithms of losses that are to be expected, by time and step.
class Expected {
 public:
  Expected(const std::vector<Visit>& visits, const std::vector<double>& logs) {
    last_step_ = visits.back().step;
    num_stretches_ = std::clamp<int64_t>(std::ssize(visits) / (kTimes * kInACell), 1, kMostStretches);
    cells_.resize(static_cast<size_t>(num_stretches_));
    for (size_t i = 0; i < visits.size(); ++i) {
      columns_[time_of(visits[i])].add(logs[i]);
      cells_[stretch_of(visits[i])][time_of(visits[i])].add(logs[i]);
    }
  }
  /// Returns what is expected of a visit whose logarithm is `log`, as the others have it.
  double without(const Visit& visit, double log) const {
    auto column = columns_[time_of(visit)], cell = cells_[stretch_of(visit)][time_of(visit)];
    for (auto* mean : {&column, &cell}) mean->sum -= log, --mean->count;
    return (cell.sum + kOfColumn * column.value()) / (cell.count + kOfColumn);
  }
  bool is_alone(const Visit& visit) const { return columns_[time_of(visit)].count < 2; }

 private:
  static size_t time_of(const Visit& visit) {
    return static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(visit.time * kTimes), 0, kTimes - 1));
  }
  size_t stretch_of(const Visit& visit) const {
    return static_cast<size_t>(
        std::clamp<int64_t>((visit.step - 1) * num_stretches_ / std::max<int64_t>(last_step_, 1), 0, num_stretches_ - 1));
  }
  int64_t last_step_ = 1, num_stretches_ = 1;
  std::array<Mean, kTimes> columns_;
  std::vector<std::array<Mean, kTimes>> cells_;
};

/// Says how far each of some means lies from their median: in their own deviations, or in those of means of so few values where these are
/// larger.
std::vector<double> distances(const std::vector<Mean>& means, double deviation) {
  std::vector<double> values, absolute;
  for (const auto& mean : means) {
    if (mean.count > 0) values.push_back(mean.value());
  }
  const double middle = median(values);
  for (double value : values) absolute.push_back(std::abs(value - middle));
  const double spread = kOfNormal * median(absolute);
  std::vector<double> all;
  for (const auto& mean : means) {
    const double open = mean.count > 0 ? std::max(spread, deviation / std::sqrt(mean.count)) : 0;
    all.push_back(open > 0 ? (mean.value() - middle) / open : 0);
  }
  return all;
}

}  // namespace

std::vector<SampleLosses> compare_samples(const std::vector<Visit>& visits) {
  if (visits.empty()) return {};
  double least = std::numeric_limits<double>::max();
  for (const auto& visit : visits) {
    if (visit.loss > 0) least = std::min(least, visit.loss);
  }
  std::vector<double> logs;
  for (const auto& visit : visits) logs.push_back(std::log(std::max(visit.loss, least)));
  const Expected expected(visits, logs);
  std::map<int64_t, std::pair<Mean, Mean>> samples;  // of all visits, and of noisy ones
  std::vector<double> absolute;
  for (size_t i = 0; i < visits.size(); ++i) {
    if (expected.is_alone(visits[i])) continue;
    const double difference = logs[i] - expected.without(visits[i], logs[i]);
    auto& [all, noisy] = samples[visits[i].row];
    all.add(difference);
    if (visits[i].time >= kNoisy) noisy.add(difference);
    absolute.push_back(std::abs(difference));
  }
  const double deviation = kOfNormal * median(absolute);
  std::vector<Mean> all, noisy;
  std::vector<SampleLosses> losses;
  for (const auto& [row, means] : samples) {
    all.push_back(means.first);
    noisy.push_back(means.second);
    losses.push_back({.row = row,
                      .num_visits = static_cast<int64_t>(means.first.count),
                      .num_noisy = static_cast<int64_t>(means.second.count),
                      .difference = means.first.value(),
                      .noisy_difference = means.second.value()});
  }
  const auto of_all = distances(all, deviation), of_noisy = distances(noisy, deviation);
  for (size_t i = 0; i < losses.size(); ++i) losses[i].distance = of_all[i], losses[i].noisy_distance = of_noisy[i];
  return losses;
}

}  // namespace burnish::records
