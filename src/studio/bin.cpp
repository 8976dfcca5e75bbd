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

std::vector<Move> read_note(const Workspace& workspace, const fs::path& note) {
  std::vector<Move> all;
  for (const auto& pair : json_or(note, json::array())) {
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      all.push_back({workspace.root() / pair[0].get<std::string>(), workspace.root() / pair[1].get<std::string>()});
  }
  return all;
}

bool is_whole(const std::vector<Move>& all) {
  return !all.empty() && std::ranges::all_of(all, [](const Move& one) { return is_taken(one.to); });
}

}  // namespace

std::optional<std::string> move_to_bin(const Workspace& workspace, const std::vector<Move>& moves) {
  make_folder(moves.back().to.parent_path());
  if (!move_all(moves)) return std::nullopt;
  auto pairs = json::array();
  auto named = [&](const fs::path& path) { return path.lexically_relative(workspace.root()).string(); };
  for (const auto& one : moves) pairs.push_back({named(one.from), named(one.to)});
  make_folder(notes_of(workspace));
  const auto name = free_name(notes_of(workspace), moves.back().to.filename().string() + ".json", ".json");
  io::write_text_atomic(notes_of(workspace) / name, pairs.dump() + "\n");
  return fs::path(name).stem().string();
}

std::string throw_away(const Workspace& workspace, const fs::path& folder) {
  const auto bin = workspace.bin();
  const auto wish = fmt::format("{} {}", now_as_name(), folder.filename().string());
  while (true) {  // or another one has taken the name meanwhile
    if (const auto id = move_to_bin(workspace, {{folder, bin / free_name(bin, wish)}})) return *id;
  }
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
  const auto moved = is_name(id) && io::is_there(note) ? read_note(workspace, note) : std::vector<Move>();
  if (!is_whole(moved)) config_error("studio", "the bin holds nothing that is called '{}'", id);
  std::vector<Move> back;
  for (const auto& one : moved) {
    if (is_taken(one.from)) config_error("studio", "{} is there again; rename it first", one.from.string());
    make_folder(one.from.parent_path());
    back.push_back({one.to, one.from});
  }
  if (!move_all(back)) config_error("studio", "{} is there again; rename it first", moved.back().from.string());
  std::error_code ignored;
  fs::remove(note, ignored);
}

}  // namespace burnish::studio
