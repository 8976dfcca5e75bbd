#include "studio/looks.h"

#include <fmt/core.h>

#include <sstream>
#include <system_error>

#include "base/error.h"
#include "data/animation.h"
#include "data/clip.h"
#include "data/survey.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kSide = 512;          // at which pictures are compared
constexpr size_t kMostOfATask = 64;     // after which another dataset has its turn
constexpr const char* kProblem = "! ";  // begins the note of what cannot be decoded

std::string note_of(const fs::path& file, Thumbnails& thumbnails) {
  try {
    data::ClipLook clip{.size = {}, .num_frames = 0, .duration = {}};
    const bool moves = data::is_video(file) || (data::may_be_clip(file) && data::is_animation(io::read_text(file)));
    if (moves) clip = data::look_at_clip(file);
    const auto pixels_HW3 = thumbnails.decoded(file, kSide);
    return fmt::format("{} {} {} {} {} {}", data::look_of(pixels_HW3), data::sharpness_of(pixels_HW3), clip.size.height, clip.size.width,
                       clip.num_frames, static_cast<double>(clip.duration.num) / static_cast<double>(clip.duration.den));
  } catch (const Error& wrong) {
    return kProblem + without_source(wrong);
  }
}

/// Returns what note_of wrote; nothing of what it did not write.
std::optional<Look> read(const std::string& note) {
  Look look;
  if (note.starts_with(kProblem)) return Look{.problem = note.substr(2)};
  std::istringstream from(note);
  from >> look.bits >> look.sharpness >> look.size.height >> look.size.width >> look.num_frames >> look.seconds;
  return from.fail() ? std::nullopt : std::optional(look);
}

std::string identity_of(const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error).time_since_epoch().count();
  return fmt::format("{} {}", time, fs::file_size(file, error));
}

}  // namespace

Looks::Looks(fs::path folder, Thumbnails& thumbnails) : folder_(std::move(folder)), thumbnails_(thumbnails), worker_([this] { work(); }) {}

Looks::~Looks() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

std::vector<std::optional<Look>> Looks::of(const fs::path& dataset, const std::vector<fs::path>& files) {
  std::vector<std::string> identities;
  for (const auto& file : files) identities.push_back(identity_of(file));
  std::vector<std::optional<Look>> found;
  std::lock_guard lock(mutex_);
  Task task{dataset, {}};
  for (size_t i = 0; i < files.size(); ++i) {
    auto& seen = seen_[files[i].string()];
    if (seen.identity != identities[i]) {
      seen = {identities[i]};
      task.files.push_back(files[i]);
    }
    found.push_back(seen.look);
    if (task.files.size() < kMostOfATask && i + 1 < files.size()) continue;
    if (!task.files.empty()) tasks_.push_back(task);
    task.files.clear();
  }
  changed_.notify_all();
  return found;
}

void Looks::work() {
  std::optional<fs::path> dataset;
  std::optional<data::FileNotes> notes;
  std::unique_lock lock(mutex_);
  while (!stops_) {
    if (tasks_.empty() && notes) {
      lock.unlock();
      notes->save();
      notes.reset();
      lock.lock();
      continue;
    }
    changed_.wait(lock, [this] { return stops_ || !tasks_.empty(); });
    if (stops_) break;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (!notes || dataset != task.dataset) {
      if (notes) notes->save();
      notes.emplace(notes_of(task.dataset));
      dataset = task.dataset;
    }
    look_at(task, *notes);
    lock.lock();
  }
  if (notes) notes->save();
}

fs::path Looks::notes_of(const fs::path& dataset) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  return folder_ / fmt::format("looks-{}.json", io::sha256(dataset.string()).substr(0, 16));
}

void Looks::look_at(const Task& task, data::FileNotes& notes) {
  std::vector<std::string> texts;
  try {
    texts = notes.get(task.files, [this](const fs::path& file) { return note_of(file, thumbnails_); });
  } catch (const std::exception&) {  // one of them has gone, or memory is short: those that are still there are asked for again
    texts.clear();
  }
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < task.files.size(); ++i) {
    const auto look = i < texts.size() ? read(texts[i]) : std::nullopt;
    if (look) seen_[task.files[i].string()].look = look;
    else seen_.erase(task.files[i].string());
  }
}

}  // namespace burnish::studio
