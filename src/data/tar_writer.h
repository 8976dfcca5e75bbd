#pragma once
#include <string>
#include <string_view>

#include "io/files.h"

namespace burnish::data {

/// Writes a tar archive (POSIX ustar), which appears under its name when it is complete.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& path) : file_(path) {}
  /// A regular file; names have at most 100 bytes. A data Error when it cannot be written.
  void add(const std::string& name, std::string_view bytes);
  void commit();

 private:
  io::AtomicFile file_;
};

}  // namespace burnish::data
