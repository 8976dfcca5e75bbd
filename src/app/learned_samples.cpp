#include "app/learned_samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/input_error.h"
#include "base/shortened.h"
#include "records/sample_losses.h"

namespace burnish::app {

namespace {

using records::SampleLosses;

/// The samples of a run with their losses, furthest from the others first.
struct Learned {
  records::Visits visits;
  std::vector<SampleLosses> losses;

  explicit Learned(const std::filesystem::path& run) : visits(records::read_visits(run)), losses(records::compare_samples(visits.all)) {
    if (losses.empty())
      data_error("data", "{} logged no visit of a sample with a loss above 0; it has to train some steps first", run.string());
    std::ranges::sort(losses, std::greater(), [](const auto& sample) { return std::abs(sample.distance); });
  }
  records::VisitedSample sample(int64_t row) const {
    const auto found = std::ranges::find(visits.samples, row, &records::VisitedSample::row);
    return found == visits.samples.end() ? records::VisitedSample{.row = row, .file = {}, .caption = {}} : *found;
  }
};

bool is_learned_badly(const SampleLosses& sample) { return sample.distance > records::kStandsOut; }
bool is_known_by_heart(const SampleLosses& sample) { return sample.noisy_distance < -records::kStandsOut; }

/// Says a difference of logarithms as a share of the loss: "+35 %".
std::string percent(double difference) { return fmt::format("{:+.0f} %", 100 * (std::exp(difference) - 1)); }

std::string line_of(const Learned& learned, const SampleLosses& sample, double difference, int64_t num_visits) {
  constexpr size_t kShown = 60;  // of a caption
  const auto named = learned.sample(sample.row);
  return fmt::format("{:>8}  {:>9}  {}  \"{}\"\n", percent(difference), count_of(num_visits, "visit"),
                     named.file.empty() ? fmt::format("row {}", named.row) : named.file, shortened(named.caption, kShown));
}

std::string lines_of(const Learned& learned, std::vector<SampleLosses> samples, int64_t most, double SampleLosses::*difference,
                     int64_t SampleLosses::*count) {
  std::string text;
  for (int64_t i = 0; i < std::min<int64_t>(most, std::ssize(samples)); ++i) {
    const auto& sample = samples[static_cast<size_t>(i)];
    text += line_of(learned, sample, sample.*difference, sample.*count);
  }
  if (std::ssize(samples) > most) text += fmt::format("          and {} more\n", std::ssize(samples) - most);
  return samples.empty() ? "          none\n" : text;
}

}  // namespace

std::string text_of_learned(const std::filesystem::path& run, int64_t most) {
  const Learned learned(run);
  std::vector<SampleLosses> badly, by_heart;
  std::ranges::copy_if(learned.losses, std::back_inserter(badly), is_learned_badly);
  std::ranges::copy_if(learned.losses, std::back_inserter(by_heart), is_known_by_heart);
  std::ranges::sort(by_heart, {}, &SampleLosses::noisy_distance);
  return fmt::format(
      "{}, {}; a loss is compared with those of other samples at like noise and steps\n\n"
      "learned badly: wrong captions, damaged pictures, and pictures that are none of the set are among these\n{}\n"
      "known by heart: the loss is low where little is seen of the picture, as of pictures that are there twice\n{}",
      count_of(std::ssize(learned.losses), "sample"), count_of(std::ssize(learned.visits.all), "visit"),
      lines_of(learned, badly, most, &SampleLosses::difference, &SampleLosses::num_visits),
      lines_of(learned, by_heart, most, &SampleLosses::noisy_difference, &SampleLosses::num_noisy));
}

std::string json_of_learned(const std::filesystem::path& run) {
  const Learned learned(run);
  auto list = nlohmann::json::array();
  for (const auto& sample : learned.losses) {
    const auto named = learned.sample(sample.row);
    list.push_back({{"row", sample.row},
                    {"file", named.file},
                    {"caption", named.caption},
                    {"visits", sample.num_visits},
                    {"difference", sample.difference},
                    {"distance", sample.distance},
                    {"noisy_visits", sample.num_noisy},
                    {"noisy_difference", sample.noisy_difference},
                    {"noisy_distance", sample.noisy_distance},
                    {"stands_out", is_learned_badly(sample)    ? "badly"
                                   : is_known_by_heart(sample) ? "by_heart"
                                                               : ""}});
  }
  return nlohmann::json{{"visits", learned.visits.all.size()}, {"samples", list}}.dump(2) + "\n";
}

}  // namespace burnish::app
