#include "data/file_notes.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "data/archive_path.h"
#include "data/frame_files.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kSettledSeconds = 2;

struct Identity {
  std::string text;
  bool settled;
};

Identity identity_of_file(const fs::path& file) {
  struct stat s {};
  if (stat(file_behind(file).c_str(), &s) != 0) data_error("data", "cannot read {}: no such file", file.string());
  auto text = fmt::format("{}|{}|{}|{}.{:09}|{}.{:09}", fs::absolute(file).lexically_normal().string(), s.st_size, s.st_ino,
                          s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_ctim.tv_sec, s.st_ctim.tv_nsec);
  return {text, std::max(s.st_mtim.tv_sec, s.st_ctim.tv_sec) + kSettledSeconds < std::time(nullptr)};
}

/// A file that is written anew changes nothing of its folder.
Identity identity_of_frames(const fs::path& folder) {
  Identity all{fs::absolute(folder).lexically_normal().string(), true};
  std::string texts;
  for (const auto& file : frame_files(folder)) {
    auto one = identity_of_file(file);
    texts += one.text + "\n";
    all.settled = all.settled && one.settled;
  }
  all.text += fmt::format("|{:016x}", io::xxh64(texts));
  return all;
}

Identity identity(const fs::path& file) { return io::is_folder(file) ? identity_of_frames(file) : identity_of_file(file); }

}  // namespace

FileNotes::FileNotes(fs::path path) : path_(std::move(path)) {
  if (path_.empty() || !io::is_there(path_)) return;
  auto json = nlohmann::json::parse(io::read_text(path_), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) known_[key] = value.get<std::string>();
  }
}

std::vector<std::string> FileNotes::get(const std::vector<fs::path>& files, const std::function<std::string(const fs::path& file)>& make) {
  std::vector<Identity> identities;
  std::vector<std::string> notes(files.size());
  std::vector<size_t> fresh;
  for (size_t i = 0; i < files.size(); ++i) {
    identities.push_back(identity(files[i]));
    auto it = known_.find(identities[i].text);
    if (it != known_.end()) notes[i] = it->second;
    else fresh.push_back(i);
  }
  auto make_range = [&](int64_t from, int64_t to) {
    for (auto i = from; i < to; ++i) notes[fresh[static_cast<size_t>(i)]] = make(files[fresh[static_cast<size_t>(i)]]);
  };
  // What is made of a single file may itself use all threads.
  if (fresh.size() == 1) make_range(0, 1);
  else at::parallel_for(0, std::ssize(fresh), 1, make_range);
  for (auto i : fresh) {
    if (notes[i].empty() || !identities[i].settled || identity(files[i]).text != identities[i].text) continue;
    known_[identities[i].text] = notes[i];
    changed_ = true;
  }
  return notes;
}

void FileNotes::save() {
  if (path_.empty() || !changed_) return;
  try {
    io::write_text_atomic(path_, nlohmann::json(known_).dump(0, ' ', false, nlohmann::json::error_handler_t::replace));
    changed_ = false;
  } catch (const Error&) {
  }
}

}  // namespace burnish::data
