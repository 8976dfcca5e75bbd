#include "io/output_file.h"

#include <system_error>

#include "base/error.h"
#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

namespace fs = std::filesystem;

namespace {

/// Tells whether a file is the command's own; one that cannot be read says nothing of itself.
bool says_so(const fs::path& path, const IsOwn& is_own) {
  try {
    return is_own(path);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_replaces(const char* room, const fs::path& path, const IsOwn& is_own) {
  if (is_there(path) && (is_folder(path) || !says_so(path, is_own)))
    config_error(room, "the output {} is there already, and was not written by this command; name another", path.string());
}

bool is_text(const fs::path& path) { return read_text(path).find('\0') == std::string::npos; }

void check_replaces_folder(const char* room, const fs::path& folder, const IsOwn& is_own) {
  if (!is_folder(folder)) return check_replaces(room, folder, [](const fs::path&) { return false; });
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_directory(unknown) && !entry->is_symlink(unknown)) continue;
    if (says_so(entry->path(), is_own)) continue;
    config_error(room, "the folder {} would be replaced as a whole, and {} in it was not written by this command; name another folder",
                 folder.string(), entry->path().lexically_relative(folder).string());
  }
  if (error) data_error(room, "the folder {} cannot be looked into: {}", folder.string(), error.message());
}

void check_output(const char* room, const fs::path& path, std::string_view ending, const IsOwn& is_own) {
  if (!path.filename().string().ends_with(ending) || path.filename().string().size() == ending.size())
    config_error(room, "the output {} must be the name of a {} file", path.string(), ending);
  check_replaces(room, path, is_own);
  AtomicFile probe(path);  // its end removes it
}

}  // namespace burnish::io
