#include "records/previews.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/number.h"

namespace burnish::records {

namespace fs = std::filesystem;

namespace {

const char* ending_of(PreviewKind kind) {
  switch (kind) {
    case PreviewKind::png: return ".png";
    case PreviewKind::webp: return ".webp";
    case PreviewKind::mp4: return ".mp4";
    case PreviewKind::webm: return ".webm";
    case PreviewKind::frames: break;
  }
  return "";
}

std::optional<int64_t> number_in(std::string_view text, std::string_view before, std::string_view after) {
  if (!text.starts_with(before) || !text.ends_with(after) || text.size() < before.size() + after.size()) return std::nullopt;
  return parse_number<int64_t>(text.substr(before.size(), text.size() - before.size() - after.size()));
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) paths.push_back(it->path());
  return paths;
}

}  // namespace

fs::path preview_path(const fs::path& run, int64_t step, int64_t number, PreviewKind kind) {
  return run / "samples" / fmt::format("step-{:06}", step) / fmt::format("{:02}{}", number, ending_of(kind));
}

const char* media_type(PreviewKind kind) {
  switch (kind) {
    case PreviewKind::webp: return "image/webp";
    case PreviewKind::mp4: return "video/mp4";
    case PreviewKind::webm: return "video/webm";
    case PreviewKind::png:
    case PreviewKind::frames: break;
  }
  return "image/png";
}

std::vector<fs::path> preview_frames(const fs::path& folder) {
  auto files = entries(folder);
  std::erase_if(files, [](const fs::path& file) { return !number_in(file.filename().native(), "", ".png"); });
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Preview> find_previews(const fs::path& run) {
  std::vector<Preview> found;
  for (const auto& folder : entries(run / "samples")) {
    auto step = number_in(folder.filename().native(), "step-", "");
    if (!step) continue;
    for (const auto& file : entries(folder)) {
      for (auto kind : kPreviewKinds) {
        auto number = number_in(file.filename().native(), "", ending_of(kind));
        if (!number || preview_path(run, *step, *number, kind) != file) continue;
        std::error_code ignored;
        if (kind != PreviewKind::frames || fs::is_directory(file, ignored)) found.push_back({*step, *number, kind});
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace burnish::records
