#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace burnish::data {

/// A text in Unicode's normal form C, in which a letter and its accent are one character; bytes that are no UTF-8 stay as they are.
std::string composed(const std::string& text);

/// Finds files by names that were written on another system. Folders and archives that had to be listed for it are remembered.
class SpelledFiles {
 public:
  /// Finds a file, or a member of an archive, by a name that starts from `base`: as it is written; else with / for each \ of Windows; else
  /// as a name that differs in the normal form of Unicode alone (macOS takes letters and accents apart). None where there is none.
  std::optional<std::filesystem::path> find(const std::filesystem::path& base, const std::string& given);

 private:
  std::optional<std::filesystem::path> find_composed(const std::filesystem::path& path);
  const std::map<std::string, std::string>& names_in(const std::filesystem::path& folder);
  std::map<std::filesystem::path, std::map<std::string, std::string>> listed_;  ///< names as they are, by their normal form
};

}  // namespace burnish::data
