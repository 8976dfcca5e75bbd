#pragma once
#include <filesystem>
#include <string>

namespace burnish::app {

/// Says of a run which of its samples stand out by the losses of their visits (records/sample_losses.h): those that were learned badly, and
/// those that are known by heart where noise is high, each furthest first and at most `most` of them. A data Error where the run has no
/// log of visits, or that holds none.
std::string text_of_learned(const std::filesystem::path& run, int64_t most);
/// Says the same of all samples as JSON: {"visits", "samples": [{"row", "file", "caption", "visits", "difference", "distance",
/// "noisy_visits", "noisy_difference", "noisy_distance", "stands_out"}]}, furthest first.
std::string json_of_learned(const std::filesystem::path& run);

}  // namespace burnish::app
