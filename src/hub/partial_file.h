#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "io/hash.h"

namespace burnish::hub {

/// A file on its way: it grows beside its target and takes the target's name when it is whole. What a broken connection or a killed process
/// leaves of it is gone on with. One process at a time has it; another waits.
class PartialFile {
 public:
  /// Opens what is there, or an empty file; a data Error when it cannot be written, one of an interruption after Ctrl-C.
  explicit PartialFile(std::filesystem::path path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }
  /// Appends what came. A data Error (disk full and the like) says how far it came.
  void append(const char* bytes, size_t count);
  /// Empties the file.
  void restart();
  /// SHA-256 of all that is in it; nothing can be appended afterwards.
  std::string sha256() { return hash_.hex(); }
  /// Gives it the target's name, in place of what stood there.
  void commit(const std::filesystem::path& target);
  /// Removes the file.
  void remove();

 private:
  bool open_locked();
  void read_what_is_there();
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
  io::Sha256 hash_;
};

}  // namespace burnish::hub
