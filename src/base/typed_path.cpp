#include "base/typed_path.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/home.h"

namespace burnish {

namespace {

namespace fs = std::filesystem;

bool is_separator(char c) { return c == '/' || c == '\\'; }

bool begins_with_drive(std::string_view name) {
  return name.size() > 2 && std::isalpha(static_cast<unsigned char>(name[0])) && name[1] == ':' && is_separator(name[2]);
}

std::string with_slashes(std::string_view name) {
  std::string path(name);
  std::ranges::replace(path, '\\', '/');
  return path;
}

/// The folder of Windows' drives where Linux runs below Windows, as /etc/wsl.conf says or /mnt; "" on every other system. The kernel tells.
fs::path drives_of_windows() {
  std::string release, line;
  std::getline(std::ifstream("/proc/sys/kernel/osrelease") >> std::ws, release);
  std::ranges::transform(release, release.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (release.find("microsoft") == release.npos) return {};
  for (std::ifstream settings("/etc/wsl.conf"); std::getline(settings, line);) {
    std::erase_if(line, [](unsigned char c) { return std::isspace(c) || c == '"'; });
    if (line.starts_with("root=/")) return line.substr(5);
  }
  return "/mnt";
}

}  // namespace

bool is_path_of_windows(std::string_view name) { return begins_with_drive(name) || (name.size() > 2 && name.starts_with("\\\\")); }

std::string windows_path_below(const fs::path& drives, std::string_view name) {
  if (begins_with_drive(name)) {
    const auto drive = drives / std::string(1, static_cast<char>(std::tolower(static_cast<unsigned char>(name[0]))));
    std::error_code failed;
    return fs::is_directory(drive, failed) ? drive.string() + with_slashes(name.substr(2)) : "";
  }
  for (std::string_view share : {"\\\\wsl$\\", "\\\\wsl.localhost\\"}) {
    if (!name.starts_with(share)) continue;
    const auto end = name.find('\\', share.size());
    return end == name.npos ? "/" : with_slashes(name.substr(end));
  }
  return "";
}

std::string typed_path(const std::string& text) {
  static const fs::path kDrives = drives_of_windows();
  if (!is_path_of_windows(text)) return with_home(text);
  const auto found = kDrives.empty() ? "" : windows_path_below(kDrives, text);
  return found.empty() ? text : found;
}

}  // namespace burnish
