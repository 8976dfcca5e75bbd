#include "judging/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/count.h"
#include "base/text.h"

namespace burnish::judging {

namespace {

constexpr int64_t kLooksAbove = 3;  // that a run's own warning waits for
constexpr double kWayOfLoss = 0.1, kWayOfLikeness = 0.1, kWayOfAnswer = 0.05, kWayOfVariety = 0.1;
constexpr double kEqualMarks = 0.01;

template <auto member>
std::optional<double> score(const Judged& save) {
  return save.scores ? std::optional<double>((*save.scores).*member) : std::nullopt;
}
std::optional<double> validation(const Judged& save) { return save.validation_loss; }
std::optional<double> held_out(const Judged& save) { return save.scores ? save.scores->held_out : std::nullopt; }
std::optional<double> likeness(const Judged& save) { return held_out(save) ? std::nullopt : score<&Scores::likeness>(save); }
std::optional<double> answer(const Judged& save) { return save.scores ? save.scores->answer : std::nullopt; }
std::optional<double> variety(const Judged& save) { return save.scores ? save.scores->counted_variety : std::nullopt; }

/// The best value of a measure, and how many saves have one.
struct Best {
  double value = 0;
  int64_t count = 0;

  Best(const std::vector<Judged>& saves, const Measure& measure) {
    for (const auto& save : saves) {
      const auto other = measure.of(save);
      if (other && (count++ == 0 || (measure.is_better_low ? *other < value : *other > value))) value = *other;
    }
  }
  /// Returns how a value stands: 1 for the best, 0 for what is the whole way behind it.
  double standing(double other, const Measure& measure) const {
    const auto way = measure.way * (measure.is_better_low ? std::max(std::abs(value), 1e-12) : 1);
    return std::max(0.0, 1 - std::abs(value - other) / way);
  }
};

bool has_copies(const Judged& save) { return save.scores && save.scores->num_copies > 0; }
bool memorises(const Judged& save) { return save.scores && save.scores->memorises; }

/// Returns the step after which all saves up to the last show something. What is there once and gone later is chance.
std::optional<int64_t> begins_after(const std::vector<Judged>& saves, bool (*shows)(const Judged&)) {
  auto first = saves.end();
  for (auto save = saves.rbegin(); save != saves.rend() && (!save->scores || shows(*save)); ++save) {
    if (shows(*save)) first = std::prev(save.base());
  }
  if (first == saves.end()) return std::nullopt;
  return first == saves.begin() ? 0 : std::prev(first)->step;
}

}  // namespace

const std::vector<Measure>& measures() {
  static const std::vector<Measure> kMeasures{{"validation loss", validation, true, kWayOfLoss},
                                              {"likeness", likeness, false, kWayOfLikeness},
                                              {"likeness to held-out pictures", held_out, false, kWayOfLikeness},
                                              {"answer", answer, false, kWayOfAnswer},
                                              {"variety", variety, false, kWayOfVariety}};
  return kMeasures;
}

std::optional<Overfitting> find_overfitting(const std::vector<Judged>& saves, const std::vector<records::ValidationLoss>& losses) {
  Overfitting found{.after = INT64_MAX};
  if (!losses.empty()) {
    const auto lowest = std::ranges::min_element(losses, {}, &records::ValidationLoss::loss);
    if (losses.end() - lowest > kLooksAbove) {
      found.after = lowest->step;
      found.by_validation = true;
    }
  }
  auto see = [&](bool (*shows)(const Judged&), bool Overfitting::*by) {
    const auto after = begins_after(saves, shows);
    if (!after || *after > found.after) return;
    if (*after < found.after) found = {.after = *after};
    found.*by = true;
  };
  see(has_copies, &Overfitting::by_copies);
  see(memorises, &Overfitting::by_held_out);
  return found.after < INT64_MAX ? std::optional(found) : std::nullopt;
}

void rank(std::vector<Judged>& saves, const std::optional<Overfitting>& overfitting) {
  std::vector<Best> best;
  for (const auto& measure : measures()) best.emplace_back(saves, measure);
  for (auto& save : saves) {
    save.is_overfit = overfitting && save.step > overfitting->after;
    double sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < best.size(); ++i) {
      if (best[i].count < 2) continue;
      ++count;
      if (const auto value = measures()[i].of(save)) sum += best[i].standing(*value, measures()[i]);
    }
    save.mark = count > 0 ? sum / static_cast<double>(count) : 0;
  }
  // Marks that are next to equal are told apart by steps: they are compared in whole hundredths, so that the order has no circles.
  auto key = [](const Judged& save) {
    return std::tuple(save.is_overfit, has_copies(save), -std::llround(save.mark / kEqualMarks), save.step);
  };
  std::ranges::sort(saves, {}, key);
}

std::string why_first(const std::vector<Judged>& ranked) {
  const auto& first = ranked.front();
  std::vector<std::string> reasons;
  for (const auto& measure : measures()) {
    const Best best(ranked, measure);
    const auto value = measure.of(first);
    if (!value || best.count < 2) continue;
    const auto stands = best.standing(*value, measure);
    if (*value == best.value) reasons.push_back(fmt::format("its {} is the best of all", measure.name));
    else if (stands >= 0.5) reasons.push_back(fmt::format("its {} is {:.3f}, and {:.3f} the best", measure.name, *value, best.value));
    else reasons.push_back(fmt::format("though its {} is {:.3f}, and {:.3f} the best", measure.name, *value, best.value));
  }
  const auto num_overfit = std::ranges::count_if(ranked, &Judged::is_overfit);
  if (!first.is_overfit && num_overfit > 0) reasons.push_back("overfitting had not begun");
  if (first.scores && !has_copies(first)) reasons.push_back("no preview of it is a copy of a training picture");
  if (reasons.empty()) reasons.push_back(ranked.size() == 1 ? "it is the only one" : "nothing tells them apart");
  return join(reasons, "; ");
}

}  // namespace burnish::judging
