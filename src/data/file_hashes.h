#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace burnish::data {

/// Hashes of file contents (io::file_hash), remembered in a JSON file so that an unchanged file is read once. A file counts as
/// unchanged when path, size, inode and both of its times are; what was modified in the last seconds is not remembered, since a second
/// change might leave the same times.
class FileHashes {
 public:
  /// Remembers in `path`; "" remembers for this object's life. A damaged file of hashes is started anew.
  explicit FileHashes(std::filesystem::path path);
  /// A data Error when the file cannot be read.
  std::string hash(const std::filesystem::path& file);
  /// The same for many files, side by side.
  std::vector<std::string> hash(const std::vector<std::filesystem::path>& files);
  /// Writes what is new; a folder that cannot be written to costs only time, so it is no error.
  void save();

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> known_;  ///< "path|size|inode|times" -> hash
  bool changed_ = false;
};

}  // namespace burnish::data
