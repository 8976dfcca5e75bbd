#include "data/load_metadata.h"

#include "base/error.h"
#include "base/log.h"
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

Metadata load_metadata(const std::filesystem::path& given, const CaptionFiles& captions) {
  auto path = metadata_in(given);
  if (path != given && captions.endings != CaptionFiles().endings)
    warn("caption_extension {} has no effect: {} says the captions; move that file away, or name the pictures' folder without it",
         captions.endings, path.string());
  if (io::is_folder(path) || path.extension() == ".tar") return load_captioned_folder(path, captions);
  if (is_parquet(path)) return load_parquet(path);
  auto text = io::read_text(path);
  auto kind = path.extension().string();
  if (kind == ".csv") return parse_csv(text, path.string());
  if (kind == ".json") return parse_json_list(text, path.string());
  if (kind == ".jsonl") return parse_json_lines(text, path.string());
  data_error("data", "metadata {} must be a .csv, .json, .jsonl or .parquet file, or a folder or .tar archive of pictures with captions",
             path.string());
}

}  // namespace burnish::data
