#include "studio/bin.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/input_error.h"
#include "io/files.h"
#include "studio/workspace.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string now_as_name() {
  auto now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}.{:02}.{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

fs::path notes_of(const Workspace& workspace) { return workspace.bin() / ".moved"; }

void move_path(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  fs::rename(from, to, error);
  if (error) data_error("studio", "{} cannot be moved to {}: {}", from.string(), to.string(), error.message());
}

/// Moves all, or none.
void rename_all(const std::vector<Moved>& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    try {
      move_path(all[i].from, all[i].to);
    } catch (...) {
      for (std::error_code ignored; i-- > 0;) fs::rename(all[i].to, all[i].from, ignored);
      throw;
    }
  }
}

std::vector<Moved> read_note(const Workspace& workspace, const fs::path& note) {
  std::vector<Moved> all;
  for (const auto& pair : json_or(note, json::array())) {
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      all.push_back({workspace.root() / pair[0].get<std::string>(), workspace.root() / pair[1].get<std::string>()});
  }
  return all;
}

bool is_whole(const std::vector<Moved>& all) {
  return !all.empty() && std::ranges::all_of(all, [](const Moved& one) { return io::is_there(one.to); });
}

}  // namespace

std::string move_to_bin(const Workspace& workspace, const std::vector<Moved>& moved) {
  rename_all(moved);
  auto pairs = json::array();
  auto named = [&](const fs::path& path) { return path.lexically_relative(workspace.root()).string(); };
  for (const auto& one : moved) pairs.push_back({named(one.from), named(one.to)});
  make_folder(notes_of(workspace));
  const auto name = free_name(notes_of(workspace), moved.back().to.filename().string() + ".json", ".json");
  io::write_text_atomic(notes_of(workspace) / name, pairs.dump() + "\n");
  return fs::path(name).stem().string();
}

std::string throw_away(const Workspace& workspace, const fs::path& folder) {
  const auto bin = workspace.bin();
  return move_to_bin(workspace, {{folder, bin / free_name(bin, fmt::format("{} {}", now_as_name(), folder.filename().string()))}});
}

json list_bin(const Workspace& workspace) {
  std::vector<json> all;
  for (const auto& note : io::glob(notes_of(workspace), "*.json")) {
    const auto moved = read_note(workspace, note);
    if (!is_whole(moved)) continue;
    all.push_back({{"id", note.stem().string()},
                   {"from", moved.back().from.lexically_relative(workspace.root()).string()},
                   {"when", seconds_since_1970(note)}});
  }
  std::ranges::stable_sort(all, [](const json& a, const json& b) { return a["when"].get<double>() > b["when"].get<double>(); });
  return all;
}

void bring_back(const Workspace& workspace, const std::string& id) {
  const auto note = notes_of(workspace) / (id + ".json");
  const auto moved = is_name(id) && io::is_there(note) ? read_note(workspace, note) : std::vector<Moved>();
  if (!is_whole(moved)) config_error("studio", "the bin holds nothing that is called '{}'", id);
  std::vector<Moved> back;
  for (const auto& one : moved) {
    if (io::is_there(one.from)) config_error("studio", "{} is there again; rename it first", one.from.string());
    back.push_back({one.to, one.from});
  }
  rename_all(back);
  std::error_code ignored;
  fs::remove(note, ignored);
}

}  // namespace burnish::studio
