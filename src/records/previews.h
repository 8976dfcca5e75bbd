#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace burnish::records {

/// What a preview lies in: a picture's PNG, a picture's or a clip's WebP, a clip's MP4 or WebM, or a folder of its frames, 00000.png and so
/// on.
enum class PreviewKind { png, webp, mp4, webm, frames };
constexpr PreviewKind kPreviewKinds[] = {PreviewKind::png, PreviewKind::webp, PreviewKind::mp4, PreviewKind::webm, PreviewKind::frames};

/// The path of what a run draws while it trains, RUN/samples/step-000100/00.png: with the ending of its kind, and without one of a folder.
/// `number` counts those of a step from 0; step 0 is before the first.
std::filesystem::path preview_path(const std::filesystem::path& run, int64_t step, int64_t number, PreviewKind kind = PreviewKind::png);

struct Preview {
  int64_t step = 0, number = 0;
  PreviewKind kind = PreviewKind::png;
  auto operator<=>(const Preview&) const = default;
};

/// The media type of a preview's file; of a folder, of the files in it.
const char* media_type(PreviewKind kind);

/// The files of a preview in a folder, in order.
std::vector<std::filesystem::path> preview_frames(const std::filesystem::path& folder);

/// The previews of a run, by step, then by number. Files of other names are no previews.
std::vector<Preview> find_previews(const std::filesystem::path& run);

}  // namespace burnish::records
