#pragma once
#include <array>
#include <filesystem>
#include <string>
#include <utility>

namespace burnish::records {

/// Holds what is asked of a run while it goes on: an empty file in RUN/ask for each, which `touch` makes as well as a page. The run takes
/// the file away when it has done so.
struct Asked {
  bool preview = false;           ///< draw the previews after this step
  bool save = false;              ///< save after this step
  bool stop_after_epoch = false;  ///< end, with everything saved, when this epoch has visited all its samples

  bool any() const { return preview || save || stop_after_epoch; }
};
/// What can be asked, by the names of the files.
inline constexpr std::array<std::pair<const char*, bool Asked::*>, 3> kAskedWords{
    {{"preview", &Asked::preview}, {"save", &Asked::save}, {"stop_after_epoch", &Asked::stop_after_epoch}}};

/// Asks something of the run in a folder, by its word. A data Error where the file cannot be made; another word
/// is a config Error.
void ask(const std::filesystem::path& run, const std::string& word);

/// Returns what is asked of the run, and not done yet.
Asked read_asked(const std::filesystem::path& run);

/// Takes away the files of what was done, or of what is no longer asked.
void take_back(const std::filesystem::path& run, const Asked& done);

}  // namespace burnish::records
