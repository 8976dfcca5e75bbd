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

#include "base/input_error.h"
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

/// Tells whether a file is what git leaves in the place of a large one (git-lfs' docs/spec.md).
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
    data_error("io",
               "{} is a pointer of git-lfs, not the file itself: run `git lfs pull` in its repository; a model is also fetched when it is "
               "named by "
               "its id on a hub",
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

/// Tells whether the open file is the one at that path.
static bool is_at(int descriptor, const fs::path& path) {
  struct stat open_one {
  }, there{};
  return fstat(descriptor, &open_one) == 0 && stat(path.c_str(), &there) == 0 && open_one.st_ino == there.st_ino &&
         open_one.st_dev == there.st_dev;
}

/// Where a path leads to by links, also where nothing is there yet.
static fs::path followed(fs::path path) {
  constexpr int kMostLinks = 40;  // as the system has it
  std::error_code failed;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, failed); ++i) path = path.parent_path() / fs::read_symlink(path, failed);
  return path;
}

AtomicFile::AtomicFile(fs::path path) : path_(followed(std::move(path))) {
  struct stat there {};
  bool is_file = stat(path_.c_str(), &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode);  // a folder fails by itself
  if (is_file) {
    open_beside();
    return;
  }
  if (!S_ISCHR(there.st_mode) && !S_ISFIFO(there.st_mode))
    data_error("io", "cannot write {}: it is a socket or a disk, not a file; name another", path_.string());
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail("open");
}

void AtomicFile::open_beside() {
  std::error_code ignored;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), ignored);
  temporary_ = path_;
  temporary_ += fmt::format(".partial-{}", getpid());
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode);
    if (descriptor_ < 0) fail("create");
    // Tells others that the file is being written; a killed process lets go of it. Who clears the folder may take it for one that is left.
    bool is_cleared = flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!is_cleared && is_at(descriptor_, temporary_)) return;
    close(std::exchange(descriptor_, -1));
    usleep(1000);
  }
  errno = EAGAIN;
  fail("create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
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

void AtomicFile::write_at(uint64_t offset, const void* bytes, size_t count) {
  if (lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0) fail("write");
  write(bytes, count);
}

void AtomicFile::commit() {
  if (temporary_.empty()) {
    if (close(std::exchange(descriptor_, -1)) != 0) fail("write");
    return;
  }
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

AtomicFolder::AtomicFolder(fs::path path) : path_(std::move(path)) {
  while (!path_.has_filename() && path_.has_relative_path()) path_ = path_.parent_path();  // "folder/"
  temporary_ = path_;
  temporary_ += fmt::format(".partial-{}", getpid());
  std::error_code error;
  fs::create_directories(temporary_, error);
  if (error) data_error("io", "cannot create the folder {}: {}", path_.string(), error.message());
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  std::error_code error;
  auto before = path_;
  before += fmt::format(".replaced-{}", getpid());
  bool replaces = fs::exists(path_, error);
  if (replaces) fs::rename(path_, before, error);
  if (!error) fs::rename(temporary_, path_, error);
  if (error) data_error("io", "cannot bring {} into its place: {}", path_.string(), error.message());
  committed_ = true;
  if (replaces) fs::remove_all(before, error);
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

/// Holds the lock while it removes, so that whoever begins to write the file just then sees that it is gone.
static void remove_unless_locked(const fs::path& path) {
  auto descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  close(descriptor);
}

void remove_partial_files(const fs::path& folder) {
  for (const char* pattern : {"*.partial-*", "*/*.partial-*"}) {
    for (const auto& left : glob(folder, pattern)) remove_unless_locked(left);
  }
}

void check_space(const fs::path& path, uint64_t num_bytes) {
  auto place = fs::absolute(path);
  std::error_code error;
  while (!fs::exists(place, error) && place.has_relative_path()) place = place.parent_path();
  auto space = fs::space(place, error);
  if (!error && space.available < num_bytes)
    data_error("io", "{} will take {}, and there are {} free; make room, or write it elsewhere", path.string(),
               human_bytes(static_cast<double>(num_bytes)), human_bytes(static_cast<double>(space.available)));
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
