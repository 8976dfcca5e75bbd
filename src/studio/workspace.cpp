#include "studio/workspace.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/input_error.h"
#include "io/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;

Workspace::Workspace(const fs::path& root) : root_(fs::absolute(root).lexically_normal()) {
  for (const auto& part : {runs(), datasets(), queue(), drawings(), loras(), files(), imports(), models(), bin()}) make_folder(part);
}

std::optional<fs::path> Workspace::find(const fs::path& part, const std::string& name) {
  if (!is_name(name) || !io::is_folder(part / name)) return std::nullopt;
  return part / name;
}

std::vector<std::string> Workspace::names(const fs::path& part, bool with_dangling) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(part, error), end; entry != end; entry.increment(error)) {
    auto name = entry->path().filename().string();
    const bool is_dangling = with_dangling && !io::is_there(entry->path());
    if (is_name(name) && (is_dangling || io::is_folder(entry->path()))) found.push_back(name);
  }
  std::ranges::sort(found);
  return found;
}

bool is_taken(const fs::path& path) {
  std::error_code failed;
  return fs::exists(fs::symlink_status(path, failed));
}

bool move_new(const fs::path& from, const fs::path& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  const bool is_unknown = errno == EINVAL || errno == ENOSYS;  // file systems that cannot refuse to replace
  if (is_unknown && is_taken(to)) return false;
  if (is_unknown && std::rename(from.c_str(), to.c_str()) == 0) return true;
  data_error("studio", "{} cannot be moved to {}: {}", from.string(), to.string(), std::strerror(errno));
}

bool move_all(const std::vector<Move>& moves) {
  if (std::ranges::any_of(moves, [](const Move& one) { return is_taken(one.to); })) return false;
  size_t num_moved = 0;
  auto move_back = [&] {
    std::error_code ignored;
    while (num_moved-- > 0) fs::rename(moves[num_moved].to, moves[num_moved].from, ignored);
  };
  try {
    for (const auto& [from, to] : moves) {
      if (!move_new(from, to)) return move_back(), false;
      ++num_moved;
    }
  } catch (const Error&) {
    move_back();
    throw;
  }
  return true;
}

nlohmann::json json_or(const fs::path& path, nlohmann::json otherwise) {
  auto found = nlohmann::json::parse(io::is_there(path) ? io::read_text(path) : "", nullptr, /*allow_exceptions=*/false);
  return found.type() == otherwise.type() ? found : otherwise;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) data_error("studio", "{} cannot be made: {}", folder.string(), error.message());
}

bool is_name(const std::string& text) {
  constexpr size_t kMostBytes = 100;
  if (text.empty() || text.size() > kMostBytes || text.front() == '.') return false;
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/' || c == '\\'; });
}

double seconds_since_1970(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? 0 : std::chrono::duration<double>(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
}

std::string free_name(const fs::path& folder, const std::string& wish, const std::string& ending) {
  const auto dot = ending.empty() ? wish.size() : wish.size() - ending.size();
  auto name = wish;
  for (int number = 2; is_taken(folder / name); ++number) name = fmt::format("{}-{}{}", wish.substr(0, dot), number, ending);
  return name;
}

}  // namespace burnish::studio
