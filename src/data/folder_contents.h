#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/spelling.h"

namespace burnish::data {

/// The ends of the names of masks, behind those of their pictures, before the ending: ours, and OneTrainer's.
inline constexpr std::array<std::string_view, 2> kMaskNames{".mask", "-masklabel"};
/// And those of OneTrainer's pictures that steer a picture, which are left out.
inline constexpr std::string_view kConditionName = "-condlabel";

/// Endings of caption files, and how often each is drawn.
using Endings = std::vector<std::pair<std::string, double>>;

/// Parses a comma list of endings: ".txt" and 1 for ".txt"; ".long" and 3 for ".long=3".
Endings parse_endings(const std::string& list);

/// Returns an ending in small letters.
std::string ending_of(const std::filesystem::path& path);

/// The file beside a picture with that ending, in small or capital letters too, however its name is spelled; none where there is none.
std::optional<std::filesystem::path> file_beside(const std::filesystem::path& picture, const std::string& ending, SpelledFiles& there);

/// The name that files beside a picture have but for their endings; those of a folder of frames have its whole name.
std::filesystem::path named_by(const std::filesystem::path& picture);

/// The contents of a folder or an archive.
struct FolderContents {
  std::set<std::filesystem::path> pictures = {}, parquets = {};
  std::map<std::filesystem::path, std::string> damaged = {};                ///< archives, and what is wrong with each
  std::vector<std::filesystem::path> linked_folders = {}, dangling = {};    ///< links that lead to a folder, and to nothing
  std::map<std::string, std::set<std::filesystem::path>> passed_over = {};  ///< files that are no pictures by their endings
};

/// Looks into a folder or an archive, and says which links are left out.
FolderContents look_into(const std::filesystem::path& folder, const Endings& endings, bool with_videos, SpelledFiles& there);

/// Counts what was not taken for a picture and is not one of the files that stand beside pictures, and says it.
void say_passed_over(FolderContents& found, const Endings& captions);

/// Leaves out the files of other parts, where the hub's names say that some are to be trained (`train-00000-of-00003.parquet`).
void take_training_parts(std::set<std::filesystem::path>& parquets);

/// A picture's path without its ending, whichever system spelled it: what files that belong to it have in common.
std::string key_of(const std::filesystem::path& path);

/// The mask of `cat.png` is `cat.mask.png`, or as OneTrainer names it `cat-masklabel.png`: takes masks out of the pictures, by the key of
/// their picture. OneTrainer's `cat-condlabel.png`, which steers the picture, is taken out too, and said.
std::map<std::string, std::filesystem::path> take_masks(std::set<std::filesystem::path>& pictures);

/// A folder of masks may lie in that of the pictures, whose masks are none: takes those out.
void take_pictures_below(const std::filesystem::path& folder, std::set<std::filesystem::path>& pictures);

/// Takes layers out of the pictures, by the key of their picture and their number: those without a caption, as musubi-tuner has them.
std::map<std::string, std::map<int64_t, std::filesystem::path>> take_layers(std::set<std::filesystem::path>& pictures,
                                                                            const Endings& endings, SpelledFiles& there);

/// Throws a data Error for a folder in which there is nothing to take; `more` names what else there could have been.
[[noreturn]] void refuse_without_pictures(const std::filesystem::path& folder, const char* more);

}  // namespace burnish::data
