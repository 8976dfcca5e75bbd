#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::io {

/// True when something is there; false also for names that no file can have (too long, say).
bool is_there(const std::filesystem::path& path);

/// Whether it is a folder; false also for what cannot be looked at (links in a loop, say).
bool is_folder(const std::filesystem::path& path);

/// A file that is opened for reading. Only regular files are: a pipe may never say anything, and a device never end.
class InputFile {
 public:
  /// A data Error for what is not there, may not be read, or is no regular file, and for a pointer that git-lfs left in a file's place.
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
/// Destroying it without `commit` removes what was written; the file that stood there before is untouched.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes; a data Error (disk full and the like) says how much was asked for.
  void write(const void* bytes, size_t count);
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  size_t written_ = 0;
};

/// `text` as the whole content of `path`, atomically.
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

/// Whether a process holds the file `path` with flock.
bool is_locked(const std::filesystem::path& path);

/// Files below `base` that match a shell pattern (`*`, `?`, `[...]`; `*` does not cross folders), sorted.
std::vector<std::filesystem::path> glob(const std::filesystem::path& base, const std::string& pattern);

}  // namespace burnish::io
