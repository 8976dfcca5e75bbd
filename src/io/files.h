#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::io {

/// Permissions that a new file asks for; the umask takes away what the user does not want to give.
inline constexpr unsigned kFileMode = 0666;

/// True when something is there; false also for names that no file can have (too long, say).
bool is_there(const std::filesystem::path& path);

/// Tells whether it is a folder; false also for what cannot be looked at (links in a loop, say).
bool is_folder(const std::filesystem::path& path);

/// A file that is opened for reading. Only regular files are: a pipe may never say anything, and a device never end.
class InputFile {
 public:
  /// Opens a file. A data Error for what is not there, may not be read, or is no regular file, and for a pointer that git-lfs left instead.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const { return descriptor_; }
  uint64_t size() const { return size_; }

 private:
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// The whole file; a data Error when it cannot be read.
std::string read_text(const std::filesystem::path& path);

/// A file that appears under its name only when it is complete: written beside the target, synced, then renamed over it.
/// Destroying it without `commit` removes what was written; the file that stood there before is untouched. A link is followed: what it
/// leads to is replaced. A device that takes characters, or a pipe, is written to as it is; a data Error refuses what else is no file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes; a data Error (disk full and the like) says how much was asked for.
  void write(const void* bytes, size_t count);
  /// Writes bytes at a place of the file, which may lie beyond its end.
  void write_at(uint64_t offset, const void* bytes, size_t count);
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;
  void open_beside();
  std::filesystem::path path_, temporary_;  ///< the latter "" where the target itself is written to
  int descriptor_ = -1;
  size_t written_ = 0;
};

/// A folder that appears under its name only when it is complete: filled beside the target, then renamed. Destroying it without `commit`
/// removes what was written.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The place where the files are written until `commit`.
  const std::filesystem::path& place() const { return temporary_; }
  /// Moves the files to their place, and then removes the file or folder that stood there before.
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  bool committed_ = false;
};

/// Writes `text` as the whole content of `path`, atomically.
void write_text_atomic(const std::filesystem::path& path, std::string_view text);

/// Holds a folder for this process until it is destroyed or the process ends. Nothing is written for it.
class FolderClaim {
 public:
  explicit FolderClaim(const std::filesystem::path& folder);
  ~FolderClaim();
  FolderClaim(FolderClaim&& other) noexcept;
  FolderClaim& operator=(FolderClaim&&) = delete;

  /// False when another process holds the folder. File systems without locks refuse nobody.
  bool held() const { return held_; }

 private:
  int descriptor_ = -1;
  bool held_ = true;
};

/// Removes, in `folder` and the folders in it, what killed processes left of an AtomicFile; what is being written stays.
void remove_partial_files(const std::filesystem::path& folder);

/// Tells whether a process holds the file `path` with flock.
bool is_locked(const std::filesystem::path& path);

/// Throws a data Error when the file system that `path` is to lie in has fewer free bytes than `num_bytes`.
void check_space(const std::filesystem::path& path, uint64_t num_bytes);

/// Files below `base` that match a shell pattern (`*`, `?`, `[...]`; `*` does not cross folders), sorted.
std::vector<std::filesystem::path> glob(const std::filesystem::path& base, const std::string& pattern);

}  // namespace burnish::io
