#include "app/learned_samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/input_error.h"
#include "base/shortened.h"
#include "records/learned_samples.h"

namespace burnish::app {

namespace {

using records::LearnedSample;
using records::SampleLosses;

/// Says a difference of logarithms as a share of the loss: "+35 %".
std::string percent(double difference) { return fmt::format("{:+.0f} %", 100 * (std::exp(difference) - 1)); }

/// Reads what a run learned. A data Error where its visits cannot be compared yet.
records::LearnedSamples compared(const std::filesystem::path& run) {
  auto learned = records::learned_samples(run);
  if (learned.all.empty())
    data_error("data", "{} has {}, and none at the noise of another to be compared with; train some epochs first", run.string(),
               count_of(learned.num_visits, "visit"));
  return learned;
}

std::string line_of(const LearnedSample& learned, double difference, int64_t num_visits) {
  constexpr size_t kShown = 60;  // of a caption
  const auto& named = learned.sample;
  return fmt::format("{:>8}  {:>9}  {}  \"{}\"\n", percent(difference), count_of(num_visits, "visit"),
                     named.file.empty() ? fmt::format("row {}", named.row) : named.file, shortened(named.caption, kShown));
}

std::string lines_of(const std::vector<LearnedSample>& samples, int64_t most, double SampleLosses::*difference,
                     int64_t SampleLosses::*count) {
  std::string text;
  for (int64_t i = 0; i < std::min<int64_t>(most, std::ssize(samples)); ++i) {
    const auto& sample = samples[static_cast<size_t>(i)];
    text += line_of(sample, sample.losses.*difference, sample.losses.*count);
  }
  if (std::ssize(samples) > most) text += fmt::format("          and {} more\n", std::ssize(samples) - most);
  return samples.empty() ? "          none\n" : text;
}

}  // namespace

std::string text_of_learned(const std::filesystem::path& run, int64_t most) {
  const auto learned = compared(run);
  std::vector<LearnedSample> badly, by_heart;
  std::ranges::copy_if(learned.all, std::back_inserter(badly), &LearnedSample::is_learned_badly);
  std::ranges::copy_if(learned.all, std::back_inserter(by_heart), &LearnedSample::is_known_by_heart);
  std::ranges::sort(by_heart, {}, [](const auto& sample) { return sample.losses.noisy_distance; });
  return fmt::format(
      "{}, {}; a loss is compared with those of other samples at like noise and steps\n\n"
      "learned badly: wrong captions, damaged pictures, and pictures that are none of the set are among these\n{}\n"
      "known by heart: the loss is low where little is seen of the picture, as of pictures that are there twice\n{}",
      count_of(std::ssize(learned.all), "sample"), count_of(learned.num_visits, "visit"),
      lines_of(badly, most, &SampleLosses::difference, &SampleLosses::num_visits),
      lines_of(by_heart, most, &SampleLosses::noisy_difference, &SampleLosses::num_noisy));
}

std::string json_of_learned(const std::filesystem::path& run) {
  const auto learned = compared(run);
  auto list = nlohmann::json::array();
  for (const auto& sample : learned.all) list.push_back(to_json(sample));
  return nlohmann::json{{"visits", learned.num_visits}, {"samples", list}}.dump(2) + "\n";
}

}  // namespace burnish::app
