#include "data/load_metadata.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/archive_path.h"
#include "data/parquet.h"
#include "io/files.h"

namespace burnish::data {

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
  for (const char* key : {"prompt", "caption", "text"}) {
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

Metadata load_metadata(const std::filesystem::path& given, const CaptionFiles& captions) {
  auto path = metadata_in(given);
  if (path != given && captions.endings != CaptionFiles().endings)
    warn("caption_extension {} has no effect: {} says the captions; move that file away, or name the pictures' folder without it",
         captions.endings, path.string());
  bool is_folder = io::is_folder(path) || path.extension() == ".tar";
  return with_captions(is_folder ? load_captioned_folder(path, captions) : read_file(path), captions, is_folder);
}

}  // namespace burnish::data
