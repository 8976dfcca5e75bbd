#include "data/captioned_folder.h"

#include <map>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "data/archive_path.h"
#include "data/archived_files.h"
#include "data/caption_places.h"
#include "data/folder_contents.h"
#include "data/parquet.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr int kMostRepeats = 10000;

/// Fewer need no word: nobody means a year by them.
constexpr int kRepeatsToSay = 100;

/// The 10 of `10_cat`, or 1; 0 leaves the folder out, as in sd-scripts.
int repeats_of(const fs::path& folder) {
  auto name = folder.filename().string();
  auto digits = name.substr(0, name.find('_'));
  const auto repeats = digits.size() < name.size() ? parse_number<int>(digits) : std::nullopt;
  if (!repeats) return 1;
  if (*repeats < 0 || *repeats > kMostRepeats)
    data_error("data", "the folder {} asks for {} repeats of its pictures; a name like 10_cat begins with 0 to {}", folder.string(), digits,
               kMostRepeats);
  return *repeats;
}

/// The object in the JSON file of a picture; null where there is none.
nlohmann::json object_beside(const fs::path& picture, SpelledFiles& there) {
  auto file = file_beside(picture, ".json", there);
  if (!file) return nullptr;
  auto json = nlohmann::json::parse(read_caption(*file), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json();
}

/// The captions of a picture as its row has them; null where there is none.
nlohmann::json captions_beside(const fs::path& picture, const nlohmann::json& object, const Endings& endings, SpelledFiles& there) {
  nlohmann::json list;
  for (const auto& [ending, weight] : endings) {
    if (auto file = file_beside(picture, ending, there)) list.push_back({{"text", read_caption(*file)}, {"weight", weight}});
  }
  if (!list.is_null()) return list.size() == 1 ? list[0]["text"] : list;
  for (const char* key : kCaptionColumns) {
    if (object.is_object() && object.contains(key)) return object[key];
  }
  return nullptr;
}

/// What the name of a picture's folder says it shows, as sd-scripts reads it: "sks dog" of "3_sks dog". "" where the name says nothing.
std::string words_of_folder(const fs::path& picture) {
  if (file_behind(picture) != picture && picture.parent_path() == file_behind(picture)) return "";  // 00000_of_00010.tar
  auto name = picture.parent_path().filename().string();
  auto end = name.find('_');
  bool has_count = end != name.npos && end > 0 && name.find_first_not_of("0123456789") == end;
  return has_count ? std::string(trim(name.substr(end + 1))) : "";
}

/// The fields of its JSON file, its path and its captions.
nlohmann::json row_of(const fs::path& picture, const CaptionFiles& captions, const Endings& endings, SpelledFiles& there) {
  auto row = object_beside(named_by(picture), there);
  auto prompt = captions_beside(named_by(picture), row, endings, there);
  auto text_file = named_by(picture).replace_extension(endings.front().first).filename().string();
  auto for_all = captions.class_tokens.empty() ? words_of_folder(picture) : captions.class_tokens;
  if (for_all.empty()) for_all = captions.trigger_word;
  if (prompt.is_null() && for_all.empty())
    data_error(
        "data",
        "{} has no caption; it is looked for in {}, as the prompt, caption or text of the object in its .json file, and in the name of "
        "a folder like 3_sks dog; class_tokens 'a dog' is the caption of all that have none (class_prompt in a class set), and a "
        "trigger_word begins every caption, or is one",
        picture.string(), text_file);
  row["image"] = picture.string();
  row["prompt"] = prompt.is_null() ? nlohmann::json(for_all) : prompt;
  return row;
}

/// How many rows a picture gives by the folder it is in; what is unusual of that is said once a folder.
int repeats_by_folder(const fs::path& picture, const fs::path& root, std::set<fs::path>& said) {
  auto folder = picture.parent_path();
  if (folder == root || folder == file_behind(picture)) return 1;  // 00000_of_00010.tar is no count
  auto repeats = repeats_of(folder);
  auto name = folder.filename().string();
  bool is_number = name.find_first_not_of("0123456789") == name.npos;
  bool is_usual = repeats > 0 && repeats < kRepeatsToSay && !is_number;
  if (is_usual || !said.insert(folder).second) return repeats;
  if (repeats == 0) {
    info("the folder {} is left out: its name asks for no visits of its pictures", folder.string());
  } else if (is_number) {
    info(
        "the folder {} is named by a number alone, which is no count: each of its pictures is visited once an epoch ({}_cat would ask for "
        "{})",
        folder.string(), name, name);
  } else {
    warn("the name of the folder {} asks for {} visits an epoch of each of its pictures; rename it if that is no count", folder.string(),
         repeats);
  }
  return repeats;
}

void add_parquet(const fs::path& file, Metadata& m, FolderContents& found) {
  try {
    auto read = load_parquet(file);
    m.rows.insert(m.rows.end(), read.rows.begin(), read.rows.end());
    for (const auto& column : read.columns) {
      if (!contains(m.columns, column)) m.columns.push_back(column);
    }
  } catch (const Error& error) {
    if (error.code() != Exit::data) throw;
    found.damaged[file] = without_source(error);
  }
}

}  // namespace

Metadata load_captioned_folder(const fs::path& folder, const CaptionFiles& captions) {
  if (!io::is_there(folder))
    data_error("data", "the archive {} does not exist; name one that does, or a folder of pictures", folder.string());
  auto root = fs::canonical(folder);
  auto endings = parse_endings(captions.endings);
  SpelledFiles there;
  auto found = look_into(root, endings, captions.with_videos, there);
  take_training_parts(found.parquets);
  if (found.pictures.empty() && found.parquets.empty() && found.damaged.empty()) refuse_without_pictures(folder, " and no Parquet file");
  say_passed_over(found, endings);
  if (!captions.mask_folder.empty()) take_pictures_below(fs::weakly_canonical(captions.mask_folder), found.pictures);
  auto masks = take_masks(found.pictures);
  auto layers = captions.with_layers ? take_layers(found.pictures, endings, there) : std::map<std::string, std::map<int64_t, fs::path>>{};
  Metadata m{.rows = {}, .columns = {"image", "prompt"}};
  std::set<fs::path> said;
  for (const auto& picture : found.pictures) {
    auto repeats = static_cast<size_t>(repeats_by_folder(picture, root, said));
    if (repeats == 0) continue;
    try {
      auto row = row_of(picture, captions, endings, there);
      if (auto mask = masks.find(key_of(picture)); mask != masks.end()) row["mask"] = mask->second.string();
      if (auto behind = layers.find(key_of(picture)); behind != layers.end()) {
        row["image"] = {picture.string()};
        for (const auto& [number, layer] : behind->second) row["image"].push_back(layer.string());
      }
      m.rows.insert(m.rows.end(), repeats, row);
    } catch (const Error& error) {
      m.bad[m.rows.size()] = without_source(error);
      m.rows.push_back({{"image", picture.string()}});
    }
  }
  for (const auto& file : found.parquets) add_parquet(file, m, found);
  for (const auto& [archive, reason] : found.damaged) {
    m.bad[m.rows.size()] = reason;
    m.rows.push_back({{"image", archive.string()}});
  }
  if (m.rows.empty())
    data_error("data", "all pictures of {} are in folders like 0_none, which are left out; rename one to 1_none", folder.string());
  return m;
}

}  // namespace burnish::data
