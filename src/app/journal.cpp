#include "app/journal.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::app {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string hash_of(const fs::path& file) { return io::is_there(file) ? fmt::format("{:016x}", io::xxh64(io::read_text(file))) : ""; }

/// The text under a key; "" where something else stands there.
std::string text_in(const json& value, const char* key) {
  const auto found = value.find(key);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string line_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

Journal::Journal(const fs::path& folder, const std::string& name, std::string settings)
    : folder_(fs::weakly_canonical(folder)), path_(folder_ / fmt::format(".burnish-{}.jsonl", name)), settings_(std::move(settings)) {
  if (!io::is_there(path_)) return;
  bool is_first = true;
  for (const auto& line : split_list(io::read_text(path_), '\n')) {
    const auto value = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_object()) break;  // where it was cut off
    if (std::exchange(is_first, false)) {
      if (text_in(value, "settings") != settings_) break;
    } else {
      noted_[text_in(value, "file")] = text_in(value, "was");
    }
  }
}

std::string Journal::name_of(const fs::path& file) const { return fs::weakly_canonical(file).lexically_relative(folder_).string(); }

bool Journal::has(const fs::path& file) const {
  const auto noted = noted_.find(name_of(file));
  return noted != noted_.end() && hash_of(file) != noted->second;
}

void Journal::note(const fs::path& file) {
  const auto was = hash_of(file);
  if (!file_) {
    // What was read is written again, without a line that was cut off.
    auto text = line_of({{"settings", settings_}});
    for (const auto& [name, hash] : noted_) text += line_of({{"file", name}, {"was", hash}});
    fs::create_directories(folder_);
    io::write_text_atomic(path_, text);
    file_ = std::make_unique<records::AppendFile>(path_);
  }
  file_->write(line_of({{"file", name_of(file)}, {"was", was}}));
}

void Journal::end() {
  file_.reset();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

}  // namespace burnish::app
