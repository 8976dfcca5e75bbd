#pragma once
#include <filesystem>
#include <string_view>

namespace burnish::records {

/// A file that grows while a run goes on. What is written reaches the system before `write` returns, in one call, so that a program that is
/// killed leaves at most its last line unfinished.
class AppendFile {
 public:
  /// Opens or makes the file; folders above it are made.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends; a data Error when the disk is full and the like.
  void write(std::string_view bytes);

 private:
  [[noreturn]] void fail() const;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace burnish::records
