#include "data/load_metadata.h"

#include <map>

#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/archive_path.h"
#include "data/clip.h"
#include "data/frame_files.h"
#include "data/parquet.h"
#include "data/spelling.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

std::filesystem::path metadata_in(const std::filesystem::path& path) {
  if (!io::is_folder(path)) return path;
  // The hub's folders of pictures have a folder for each part of a dataset.
  for (const auto& folder : {path, path / "train"}) {
    for (const char* name : {"metadata.csv", "metadata.jsonl", "metadata.json"}) {
      if (io::is_there(folder / name)) return folder / name;
    }
  }
  return path;
}

namespace {

/// Whether a row of a metadata file says nothing that its picture shows; in a folder a blank caption was written as one.
bool lacks_caption(const nlohmann::json& row, bool blank_counts) {
  for (const char* key : kCaptionColumns) {
    auto it = row.find(key);
    if (it == row.end()) continue;
    return it->is_null() || (!blank_counts && it->is_string() && trim(it->get<std::string>()).empty());
  }
  return true;
}

Metadata with_captions(Metadata metadata, const CaptionFiles& captions, bool blank_counts) {
  const auto& for_all = captions.class_tokens.empty() ? captions.trigger_word : captions.class_tokens;
  for (size_t i = 0; !for_all.empty() && i < metadata.rows.size(); ++i) {
    if (!metadata.bad.contains(i) && lacks_caption(metadata.rows[i], blank_counts)) metadata.rows[i]["prompt"] = for_all;
  }
  return metadata;
}

std::string without_ending(fs::path path) { return composed(path.replace_extension().generic_string()); }

/// The pictures and clips of a folder of masks by their names without endings, seen from the folder; and by the last part of these, where
/// one alone has it ("" for others).
std::map<std::string, std::string> masks_in(const fs::path& folder) {
  if (!io::is_folder(folder))
    data_error("data", "mask_folder {} is no folder; name the one that has masks under their pictures' names", folder.string());
  std::map<std::string, std::string> masks, alone;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, failed), end; !failed && it != end;
       it.increment(failed)) {
    const auto& path = it->path();
    if (!it->is_regular_file() || !(is_picture_name(path) || is_video(path))) continue;
    const auto file = fs::absolute(path).string();
    masks[without_ending(path.lexically_relative(folder))] = file;
    auto [named, is_first] = alone.try_emplace(without_ending(path.filename()), file);
    if (!is_first) named->second.clear();
  }
  masks.merge(alone);
  return masks;
}

/// The file of a row, as metadata names it; "" where nothing does.
std::string named_file(const nlohmann::json& row) {
  for (const char* key : kFileColumns) {
    auto it = row.find(key);
    if (it != row.end() && it->is_array() && !it->empty()) it = it->begin();
    if (it != row.end() && it->is_string()) return it->get<std::string>();
  }
  return "";
}

Metadata with_masks(Metadata metadata, const fs::path& data, const fs::path& folder) {
  const auto masks = masks_in(folder);
  const auto root = io::is_folder(data) ? fs::canonical(data) : data.parent_path();
  for (auto& row : metadata.rows) {
    if (auto named = row.find("mask"); named != row.end() && *named != nlohmann::json() && *named != "") continue;
    const fs::path file = named_file(row);
    const auto seen = file.is_absolute() ? file.lexically_relative(root) : file;
    for (const auto& name : {without_ending(seen), without_ending(file.filename())}) {
      auto mask = masks.find(name);
      if (mask == masks.end() || mask->second.empty()) continue;
      row["mask"] = mask->second;
      break;
    }
  }
  return metadata;
}

Metadata read_file(const std::filesystem::path& path) {
  if (is_parquet(path)) return load_parquet(path);
  auto text = io::read_text(path);
  auto kind = path.extension().string();
  if (kind == ".csv") return parse_csv(text, path.string());
  if (kind == ".json") return parse_json_list(text, path.string());
  if (kind == ".jsonl") return parse_json_lines(text, path.string());
  data_error("data", "metadata {} must be a .csv, .json, .jsonl or .parquet file, or a folder or .tar archive of pictures with captions",
             path.string());
}

}  // namespace

namespace {

/// Tells whether a row's file is a clip and never a picture; names are seen from the metadata, where they are not whole.
bool is_of_clip(const nlohmann::json& row, const fs::path& metadata) {
  const auto file = named_file(row);
  return !file.empty() && is_clip_alone(metadata.parent_path() / file);
}

/// Leaves the rows of what a dataset takes.
Metadata of_media(Metadata all, Media media, const fs::path& path) {
  if (media == Media::all) return all;
  Metadata taken{.rows = {}, .columns = std::move(all.columns)};
  for (size_t i = 0; i < all.rows.size(); ++i) {
    if (is_of_clip(all.rows[i], path) != (media == Media::clips)) continue;
    if (const auto bad = all.bad.find(i); bad != all.bad.end()) taken.bad[taken.rows.size()] = bad->second;
    taken.rows.push_back(std::move(all.rows[i]));
  }
  const auto [asked, found] = media == Media::clips ? std::pair("clips", "pictures") : std::pair("pictures", "clips");
  if (taken.rows.empty())
    data_error("data", "{} holds {} alone, and media {} asks for {}; name a folder that has some, or take media out", path.string(), found,
               asked, asked);
  return taken;
}

}  // namespace

Metadata load_metadata(const std::filesystem::path& given, const CaptionFiles& captions) {
  auto path = metadata_in(given);
  if (path != given && captions.endings != CaptionFiles().endings)
    warn("caption_extension {} has no effect: {} says the captions; move that file away, or name the pictures' folder without it",
         captions.endings, path.string());
  bool is_folder = io::is_folder(path) || path.extension() == ".tar";
  auto metadata = with_captions(is_folder ? load_captioned_folder(path, captions) : read_file(path), captions, is_folder);
  metadata = of_media(std::move(metadata), captions.media, path);
  return captions.mask_folder.empty() ? metadata : with_masks(std::move(metadata), path, captions.mask_folder);
}

}  // namespace burnish::data
