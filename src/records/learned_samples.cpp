#include "records/learned_samples.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace burnish::records {

LearnedSamples learned_samples(const std::filesystem::path& run) {
  const auto visits = read_visits(run);
  auto losses = compare_samples(visits.all);
  std::ranges::stable_sort(losses, std::greater(), [](const auto& sample) { return std::abs(sample.distance); });
  LearnedSamples learned{.num_visits = std::ssize(visits.all), .all = {}};
  for (const auto& of_sample : losses) {
    const auto found = std::ranges::find(visits.samples, of_sample.row, &VisitedSample::row);
    learned.all.push_back(
        {found == visits.samples.end() ? VisitedSample{.row = of_sample.row, .file = {}, .caption = {}} : *found, of_sample});
  }
  return learned;
}

nlohmann::json to_json(const LearnedSample& learned) {
  const auto& losses = learned.losses;
  return {{"row", learned.sample.row},
          {"file", learned.sample.file},
          {"caption", learned.sample.caption},
          {"visits", losses.num_visits},
          {"difference", losses.difference},
          {"distance", losses.distance},
          {"noisy_visits", losses.num_noisy},
          {"noisy_difference", losses.noisy_difference},
          {"noisy_distance", losses.noisy_distance},
          {"stands_out", learned.is_learned_badly()    ? "badly"
                         : learned.is_known_by_heart() ? "by_heart"
                                                       : ""}};
}

}  // namespace burnish::records
