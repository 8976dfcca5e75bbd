#include "data/spelling.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/typed_path.h"
#include "data/archived_files.h"
#include "data/tar.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

/// Names of these letters alone have one form.
bool is_ascii(const std::string& text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
}

std::map<std::string, std::string> members_of(const fs::path& archive) {
  std::map<std::string, std::string> names;
  try {
    for (const auto& member : read_tar(archive)) names.emplace(composed(member.name), member.name);
  } catch (const Error&) {
    return {};  // who reads a member says what is wrong
  }
  return names;
}

}  // namespace

std::string composed(const std::string& text) {
  if (is_ascii(text)) return text;
  std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> made(utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), std::free);
  return made ? std::string(reinterpret_cast<const char*>(made.get())) : text;
}

const std::map<std::string, std::string>& SpelledFiles::names_in(const fs::path& folder) {
  auto [known, is_new] = listed_.try_emplace(folder);
  if (!is_new) return known->second;
  if (!io::is_folder(folder)) return known->second = members_of(folder);
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    auto name = it->path().filename().string();
    known->second.emplace(composed(name), name);
  }
  return known->second;
}

std::optional<fs::path> SpelledFiles::find_composed(const fs::path& path) {
  fs::path found;
  auto parts = path.lexically_normal();
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    bool in_archive = !found.empty() && !io::is_folder(found);
    auto name = *part;
    for (auto rest = std::next(part); in_archive && rest != parts.end(); ++rest) name /= *rest;
    if (!in_archive && (is_ascii(name.string()) || io::is_there(found / name))) {
      found /= name;
      continue;
    }
    const auto& names = names_in(found.empty() ? "." : found);
    auto spelled = names.find(composed(name.string()));
    if (spelled == names.end()) return std::nullopt;
    found /= spelled->second;
    if (in_archive) break;
  }
  return is_file_there(found) ? std::optional(found) : std::nullopt;
}

std::optional<fs::path> SpelledFiles::find(const fs::path& base, const std::string& name) {
  const auto given = typed_path(name);
  auto path = base / given;
  if (is_file_there(path)) return path;
  auto slashes = given;
  std::ranges::replace(slashes, '\\', '/');
  if (slashes != given) {
    if (auto normal = (base / slashes).lexically_normal(); is_file_there(normal)) return normal;
  }
  if (is_ascii(path.string())) return std::nullopt;
  if (auto found = find_composed(path)) return found;
  return slashes == given ? std::nullopt : find_composed(base / slashes);
}

}  // namespace burnish::data
