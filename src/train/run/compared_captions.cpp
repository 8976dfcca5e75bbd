#include "train/run/compared_captions.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/median.h"
#include "base/progress.h"
#include "base/text.h"
#include "train/run/untrained.h"
#include "train/step/step.h"

namespace burnish::train {

namespace {

/// Captions that differ, in the order in which samples have them first.
std::vector<std::string> different_captions(const Samples& samples) {
  std::vector<std::string> captions;
  for (const auto& sample : samples.list) {
    if (is_asked_about(samples, sample) && !contains(captions, sample.row.prompt)) captions.push_back(sample.row.prompt);
  }
  return captions;
}

/// Takes the caption itself, then others, which lie evenly among the captions behind it.
std::vector<std::string> with_others(const std::vector<std::string>& captions, const std::string& own, int64_t num_others) {
  const auto count = std::ssize(captions);
  const auto place = std::ranges::find(captions, own) - captions.begin();
  num_others = std::min(num_others, count - 1);
  std::vector<std::string> taken{own};
  for (int64_t i = 0; i < num_others; ++i)
    taken.push_back(captions[static_cast<size_t>((place + 1 + i * (count - 1) / num_others) % count)]);
  return taken;
}

/// Computes the mean logarithm of the losses of the sample at this place in the list, under each of its captions.
std::vector<double> losses_of_captions(Untrained& by, int64_t place, int64_t row, size_t num_captions) {
  std::vector<double> sums(num_captions);
  for (int64_t draw = 0; draw < by.num_draws(); ++draw) {
    const auto batch = by.batch(place, draw);
    std::vector<std::string> names;
    for (const auto& [name, slot] : by.kept().by_row.at(row).front()) {
      if (batch.samples.at(0).contains(name)) names.push_back(name);
    }
    for (size_t i = 0; i < num_captions; ++i) {
      auto under = batch;
      for (auto& [name, value] : by.kept().values({row, static_cast<int64_t>(i)}, names)) under.samples[0][name] = value;
      const auto loss = losses_of(by.trainee(), std::move(under)).item<double>();
      sums[i] += std::log(std::max(loss, 1e-30)) / static_cast<double>(by.num_draws());
    }
  }
  return sums;
}

void sort_and_find_usual(ComparedCaptions& compared) {
  std::vector<double> differences;
  for (const auto& sample : compared.samples) differences.push_back(sample.difference());
  compared.usual = median(differences);
  std::ranges::stable_sort(compared.samples, [](const auto& a, const auto& b) { return a.difference() > b.difference(); });
}

}  // namespace

ComparedCaptions compare_captions(const TrainOptions& options, int64_t num_others) {
  std::map<int64_t, std::vector<std::string>> by_row;
  auto picks_of = [&](const Samples& samples) {
    const auto captions = different_captions(samples);
    if (captions.size() < 3)
      data_error("train", "captions are compared with those of other samples, and {} here; three are the least that say something",
                 captions.size() == 1 ? "all are equal" : "only two differ");
    std::vector<Pick> picks;
    for (const auto& sample : samples.list) {
      auto& tried = by_row[sample.number] =
          is_asked_about(samples, sample) ? with_others(captions, sample.row.prompt, num_others) : std::vector{sample.row.prompt};
      for (const auto& caption : tried) picks.push_back({.row = sample.number, .caption = caption});
    }
    return picks;
  };
  Untrained by(options, {.is = "captions are compared", .picks = picks_of});
  const auto& samples = by.samples();
  at::NoGradGuard no_grad;
  ComparedCaptions compared;
  Progress progress("compare captions", std::ssize(samples.list));
  for (int64_t i = 0; i < std::ssize(samples.list); ++i) {
    if (interrupted()) throw Error(Exit::interrupted, "train", "interrupted while comparing captions");
    const auto& sample = samples.list[static_cast<size_t>(i)];
    if (is_asked_about(samples, sample)) {
      const auto losses = losses_of_captions(by, i, sample.number, by_row.at(sample.number).size());
      double others = 0;
      for (size_t k = 1; k < losses.size(); ++k) others += losses[k] / static_cast<double>(losses.size() - 1);
      compared.samples.push_back({sample.number, sample.row.file, sample.row.prompt, losses.front(), others});
    }
    progress.update(i + 1);
  }
  sort_and_find_usual(compared);
  return compared;
}

}  // namespace burnish::train
