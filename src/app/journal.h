#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "records/append_file.h"

namespace burnish::app {

/// What a command has done so far of files that it writes anew, where the files alone do not tell it: a hidden file in a folder, a line a
/// file, which is there from its first file until the command ends. A command that is given again finds it and goes on.
class Journal {
 public:
  /// Opens the journal of a command in a folder, ".burnish-NAME.jsonl". One that was written under other settings, or that cannot be read,
  /// is begun anew.
  Journal(const std::filesystem::path& folder, const std::string& name, std::string settings);

  /// Whether a file was noted, and is not what it was then.
  bool has(const std::filesystem::path& file) const;
  /// Notes, ahead of writing it, what a file is; "" where there is none.
  void note(const std::filesystem::path& file);
  /// Returns how many files were noted by commands before.
  int64_t num_noted() const { return static_cast<int64_t>(noted_.size()); }
  /// Takes the journal away: all is done.
  void end();

 private:
  std::string name_of(const std::filesystem::path& file) const;
  std::filesystem::path folder_, path_;
  std::string settings_;
  std::map<std::string, std::string> noted_;  ///< hashes of files, by their names from the folder on
  std::unique_ptr<records::AppendFile> file_;
};

}  // namespace burnish::app
