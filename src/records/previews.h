#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace burnish::records {

/// The path of a picture that a run draws while it trains: RUN/samples/step-000100/00.png. `number` counts the pictures of a step from 0;
/// step 0 is before the first.
std::filesystem::path preview_path(const std::filesystem::path& run, int64_t step, int64_t number);

struct Preview {
  int64_t step = 0, number = 0;
  auto operator<=>(const Preview&) const = default;
};

/// The pictures of a run, by step, then by number. Files of other names are no previews.
std::vector<Preview> find_previews(const std::filesystem::path& run);

}  // namespace burnish::records
