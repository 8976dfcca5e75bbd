#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace burnish::studio {

/// The folder that a studio works in. What lies in it is plain files that other programs read too; its parts are called by the names of
/// their folders, so that no path comes from a browser:
///
///   datasets/NAME  pictures or clips with captions
///   runs/NAME      folders of runs, also of those that a terminal started
///   queue/         settings of jobs and where they stand (queue.h)
///   drawings/NAME  grids of pictures (drawings.h)
///   loras/         LoRAs from elsewhere to draw with
///   files/         files to look at, and what they are converted into
///   imports/NAME   settings of other programs, and what was made of them
///   models/        models, which are found by their names
///   prompts/       prompts of previews that were typed on a page (prompts.h)
///   bin/           what was deleted, by when and what
class Workspace {
 public:
  /// Makes what is missing of it. A data Error where that cannot be done.
  explicit Workspace(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path runs() const { return root_ / "runs"; }
  std::filesystem::path datasets() const { return root_ / "datasets"; }
  std::filesystem::path queue() const { return root_ / "queue"; }
  std::filesystem::path drawings() const { return root_ / "drawings"; }
  std::filesystem::path loras() const { return root_ / "loras"; }
  std::filesystem::path files() const { return root_ / "files"; }
  std::filesystem::path models() const { return root_ / "models"; }
  std::filesystem::path prompts() const { return root_ / "prompts"; }
  std::filesystem::path imports() const { return root_ / "imports"; }
  std::filesystem::path bin() const { return root_ / "bin"; }

  /// The folder of this name in one of the above; nothing where there is none, and for what is no name.
  static std::optional<std::filesystem::path> find(const std::filesystem::path& part, const std::string& name);
  /// Names of the folders in one of the above, sorted; with those of links that lead to nothing, where these are asked for.
  static std::vector<std::string> names(const std::filesystem::path& part, bool with_dangling = false);

 private:
  std::filesystem::path root_;
};

/// Reads a file of JSON; `otherwise` where there is none, or one that holds no value of its type.
nlohmann::json json_or(const std::filesystem::path& path, nlohmann::json otherwise);

/// Makes a folder, and those it lies in. A data Error where that cannot be done.
void make_folder(const std::filesystem::path& folder);

/// Moves a file or folder to a name that nothing has; false where something has it. A data Error where it cannot be moved.
bool move_new(const std::filesystem::path& from, const std::filesystem::path& to);

/// A file or folder on its way to another name.
struct Move {
  std::filesystem::path from, to;
};

/// Moves files and folders to names that nothing has, all of them or none; false where something has one of these names. A data Error where
/// one cannot be moved.
bool move_all(const std::vector<Move>& moves);

/// Tells whether something has this name, a link that leads to nothing too.
bool is_taken(const std::filesystem::path& path);

/// Tells whether it can be the name of a file in a folder of the workspace: not empty, not hidden, at most 100 bytes of UTF-8 without
/// slashes and control characters.
bool is_name(const std::string& text);

/// When a file or folder was changed last, in seconds since 1970; 0 where there is none.
double seconds_since_1970(const std::filesystem::path& path);

/// A name like the wish that nothing in the folder has: "cat", "cat-2"; with an ending, which the wish has, "cat-2.png".
std::string free_name(const std::filesystem::path& folder, const std::string& wish, const std::string& ending = "");

}  // namespace burnish::studio
