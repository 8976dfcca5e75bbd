#include "studio/workspace.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <system_error>

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

std::vector<std::string> Workspace::names(const fs::path& part) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(part, error), end; entry != end; entry.increment(error)) {
    auto name = entry->path().filename().string();
    if (is_name(name) && io::is_folder(entry->path())) found.push_back(name);
  }
  std::ranges::sort(found);
  return found;
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
  for (int number = 2; io::is_there(folder / name); ++number) name = fmt::format("{}-{}{}", wish.substr(0, dot), number, ending);
  return name;
}

}  // namespace burnish::studio
