#include "data/looked_files.h"

#include <fmt/core.h>

#include <mutex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "data/image.h"
#include "data/references.h"
#include "io/hash.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// Decodes a file: its size, and of a clip its length behind that.
std::string note_of(const fs::path& file, bool as_clip, bool only_headers) {
  if (as_clip && may_be_clip(file)) {
    auto found = look_at_clip(file);
    if (found.num_frames > 1 || is_clip_alone(file))
      return fmt::format("{} {} {} {} {} {} {}", found.size.height, found.size.width, found.num_frames, found.duration.num,
                         found.duration.den, found.usual_frame.num, found.usual_frame.den);
  }
  if (only_headers) {
    const auto size = image_size(file);
    return fmt::format("{} {}", size.height, size.width);
  }
  auto pixels_HW3 = decode_image(file);
  return fmt::format("{} {}", pixels_HW3.size(0), pixels_HW3.size(1));
}

/// Takes what note_of wrote; no size where it is something else.
void take(const std::string& note, LookedFile& file) {
  std::istringstream from(note);
  from >> file.size.height >> file.size.width >> file.clip.num_frames >> file.clip.duration.num >> file.clip.duration.den;
  if (from.fail()) file.clip.num_frames = 1;
  from >> file.clip.usual_frame.num >> file.clip.usual_frame.den;
  file.clip.size = file.size;
}

}  // namespace

// One file for all subsets, named by where their metadata is.
fs::path checks_path(const DatasetOptions& options) {
  if (options.checks_folder.empty() || options.only_headers) return {};
  std::set<std::string> metadata;
  for (const auto& subset : options.subsets) metadata.insert(fs::absolute(subset.metadata_path).lexically_normal().string());
  auto name = io::xxh64(join(std::vector<std::string>(metadata.begin(), metadata.end()), "\n"));
  const auto* kind = reads_clips(options.subsets) ? "clips" : "pictures";
  return fs::path(options.checks_folder) / fmt::format("checked-{}-{:016x}.json", kind, name);
}

LookedFiles look_at_files(const std::vector<Row>& rows, FileNotes& notes, const DatasetOptions& options) {
  LookedFiles looked;
  for (const auto& row : rows) {
    if (!row.file.empty()) looked[row.file];
    for (const auto& [name, file] : row.further) {
      if (!is_sound(file)) looked[file];
    }
  }
  Progress progress("check pictures", std::ssize(looked));
  constexpr size_t kAtOnce = 64;
  std::mutex mutex;
  std::vector<fs::path> files;
  for (auto it = looked.begin(); it != looked.end();) {
    if (interrupted()) throw Error(Exit::interrupted, "data", "interrupted while checking the pictures; nothing was trained yet");
    for (files.clear(); it != looked.end() && files.size() < kAtOnce; ++it) files.emplace_back(it->first);
    auto found_in = notes.get(files, [&](const fs::path& file) -> std::string {
      try {
        return note_of(file, reads_clips(options.subsets), options.only_headers);
      } catch (const Error& error) {
        if (error.code() == Exit::interrupted) throw;
        std::lock_guard lock(mutex);
        looked.at(file.string()).reason = without_source(error);
        return "";
      }
    });
    for (size_t i = 0; i < files.size(); ++i) {
      auto& found = looked.at(files[i].string());
      take(found_in[i], found);
      if (found.reason.empty() && (found.size.height < 1 || found.size.width < 1))
        found.reason = fmt::format("what is remembered of {} is damaged; remove {}", files[i].string(), checks_path(options).string());
    }
    progress.update(std::distance(looked.begin(), it));
  }
  return looked;
}

}  // namespace burnish::data
