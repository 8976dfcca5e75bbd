#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "records/sample_losses.h"

namespace burnish::records {

/// A sample of a run, and how its losses stand beside those of the others.
struct LearnedSample {
  VisitedSample sample;
  SampleLosses losses;

  bool is_learned_badly() const { return losses.distance > kStandsOut; }
  /// Tells whether its loss is far below that of others where noise is high, so that little is seen of the picture.
  bool is_known_by_heart() const { return losses.noisy_distance < -kStandsOut; }
  bool stands_out() const { return is_learned_badly() || is_known_by_heart(); }
};

/// The samples of a run, furthest from the others first.
struct LearnedSamples {
  int64_t num_visits = 0;
  std::vector<LearnedSample> all;
};
/// Reads the run's log of visits; `all` is empty where none can be compared with another. Throws a data Error where there is no log.
LearnedSamples learned_samples(const std::filesystem::path& run);

/// Says them as {"row", "file", "caption", "visits", "difference", "distance", "noisy_visits", "noisy_difference", "noisy_distance",
/// "stands_out": "badly", "by_heart" or ""}.
nlohmann::json to_json(const LearnedSample& sample);

}  // namespace burnish::records
