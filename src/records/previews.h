#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace burnish::records {

/// What a preview is: a picture, PNG, or a clip, animated WebP.
enum class PreviewKind { picture, clip };

/// The path of a picture that a run draws while it trains, RUN/samples/step-000100/00.png, or of a clip, 00.webp. `number` counts those of
/// a step from 0; step 0 is before the first.
std::filesystem::path preview_path(const std::filesystem::path& run, int64_t step, int64_t number, PreviewKind kind = PreviewKind::picture);

struct Preview {
  int64_t step = 0, number = 0;
  PreviewKind kind = PreviewKind::picture;
  auto operator<=>(const Preview&) const = default;
};

/// The media type of a preview's file.
const char* media_type(PreviewKind kind);

/// The previews of a run, by step, then by number. Files of other names are no previews.
std::vector<Preview> find_previews(const std::filesystem::path& run);

}  // namespace burnish::records
