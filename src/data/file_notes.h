#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace burnish::data {

/// Notes on files, remembered in JSON so that an unchanged file is looked at once. A file counts as unchanged when path, size, inode and
/// both of its times are; what was modified in the last seconds is not remembered, since a second change might leave these times as they
/// are.
class FileNotes {
 public:
  /// Remembers in `path`; "" remembers for this object's life. A damaged file of notes is started anew.
  explicit FileNotes(std::filesystem::path path);
  /// The note of every file; `make` writes those that are not known, side by side. An empty one is not remembered. A data Error when a file
  /// is not there.
  std::vector<std::string> get(const std::vector<std::filesystem::path>& files,
                               const std::function<std::string(const std::filesystem::path& file)>& make);
  /// Writes what is new; a folder that cannot be written to costs only time, so it is no error.
  void save();

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> known_;  ///< "path|size|inode|times" -> note
  bool changed_ = false;
};

}  // namespace burnish::data
