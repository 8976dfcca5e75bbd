#include "io/told_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::io {

/// A text is shorter than what a disk writes at once, so less than all of it means that there is no room.
static bool write_whole(int descriptor, std::string_view text) {
  auto n = write(descriptor, text.data(), text.size());
  if (n >= 0 && static_cast<size_t>(n) < text.size()) errno = ENOSPC;
  return n == std::ssize(text);
}

void tell(const std::filesystem::path& path, std::string_view text) {
  auto beside = path;
  beside += fmt::format(".partial-{}", getpid());
  auto descriptor = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode);
  bool is_there = descriptor >= 0 && write_whole(descriptor, text) && rename(beside.c_str(), path.c_str()) == 0;
  auto error = errno;
  if (descriptor >= 0) close(descriptor);
  if (is_there) return;
  unlink(beside.c_str());
  data_error("io", "cannot write {}: {}", path.string(), std::strerror(error));
}

}  // namespace burnish::io
