#pragma once
#include "data/file_notes.h"

namespace burnish::data {

/// Hashes of file contents (io::file_hash; of a member of an archive, its SHA-256), each computed once as long as its file does not change
/// (FileNotes).
class FileHashes {
 public:
  explicit FileHashes(std::filesystem::path path) : notes_(std::move(path)) {}
  /// Returns the file's hash. A data Error when the file cannot be read.
  std::string hash(const std::filesystem::path& file);
  /// Returns the hashes of many files, which are read side by side.
  std::vector<std::string> hash(const std::vector<std::filesystem::path>& files);
  void save() { notes_.save(); }

 private:
  FileNotes notes_;
};

}  // namespace burnish::data
