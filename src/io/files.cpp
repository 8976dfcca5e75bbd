#include "io/files.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace burnish::io {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

bool is_folder(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

/// Whether a file is what git leaves in the place of a large one (git-lfs' docs/spec.md).
static bool is_lfs_pointer(int descriptor, uint64_t size) {
  constexpr std::string_view kFirstLine = "version https://git-lfs.github.com/spec/";
  constexpr uint64_t kMostBytes = 1024;
  std::array<char, kFirstLine.size()> begin;
  if (size < begin.size() || size >= kMostBytes) return false;
  return pread(descriptor, begin.data(), begin.size(), 0) == std::ssize(begin) &&
         std::string_view(begin.data(), begin.size()) == kFirstLine;
}

// Without O_NONBLOCK a pipe is opened only once someone writes into it.
InputFile::InputFile(const fs::path& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    auto reason = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    data_error("io", "cannot read {}: {}", path.string(), reason);
  }
  size_ = static_cast<uint64_t>(status.st_size);
  bool is_pointer = S_ISREG(status.st_mode) && is_lfs_pointer(descriptor_, size_);
  if (S_ISREG(status.st_mode) && !is_pointer) return;
  close(descriptor_);
  if (is_pointer) {
    data_error(
        "io",
        "{} is a pointer of git-lfs, not the file itself: run `git lfs pull` in its repository, or name a model by its id on a hub to "
        "have it fetched",
        path.string());
  }
  data_error("io", "cannot read {}: it is {}, not a regular file", path.string(),
             S_ISDIR(status.st_mode) ? "a folder" : "a pipe, a socket or a device");
}

InputFile::~InputFile() { close(descriptor_); }

std::string read_text(const fs::path& path) {
  InputFile file(path);
  std::string text;
  text.reserve(file.size());
  std::array<char, 1 << 16> part;
  while (true) {
    auto n = ::read(file.descriptor(), part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) data_error("io", "cannot read {}: {}", path.string(), std::strerror(errno));
    if (n == 0) return text;
    text.append(part.data(), static_cast<size_t>(n));
  }
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), ignored);
  temporary_ = path_;
  temporary_ += fmt::format(".partial-{}", getpid());
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create");
  flock(descriptor_, LOCK_EX | LOCK_NB);  // tells others that the file is being written; a killed process lets go of it
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) const {
  data_error("io", "cannot {} {}: {} (after {}); what stood there before is unchanged", action, path_.string(), std::strerror(errno),
             human_bytes(static_cast<double>(written_)));
}

void AtomicFile::write(const void* bytes, size_t count) {
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    auto n = ::write(descriptor_, at, std::min<size_t>(count, size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("write");
    at += n;
    count -= static_cast<size_t>(n);
    written_ += static_cast<size_t>(n);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("write");
  auto descriptor = descriptor_;
  descriptor_ = -1;
  bool renamed = rename(temporary_.c_str(), path_.c_str()) == 0;
  auto error = errno;
  close(descriptor);
  if (!renamed) {
    unlink(temporary_.c_str());
    errno = error;
    fail("write");
  }
}

void write_text_atomic(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

FolderClaim::FolderClaim(const fs::path& folder) : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ >= 0) held_ = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

FolderClaim::~FolderClaim() {
  if (descriptor_ >= 0) close(descriptor_);
}

FolderClaim::FolderClaim(FolderClaim&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), held_(other.held_) {}

bool is_locked(const fs::path& path) {
  auto descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  bool locked = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0;
  if (descriptor >= 0) close(descriptor);
  return locked;
}

void remove_partial_files(const fs::path& folder) {
  std::error_code ignored;
  for (const char* pattern : {"*.partial-*", "*/*.partial-*"}) {
    for (const auto& left : glob(folder, pattern)) {
      if (!is_locked(left)) fs::remove(left, ignored);
    }
  }
}

std::vector<fs::path> glob(const fs::path& base, const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (::glob((base / pattern).c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  return paths;
}

}  // namespace burnish::io
