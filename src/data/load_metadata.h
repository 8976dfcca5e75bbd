#pragma once
#include <filesystem>

#include "data/captioned_folder.h"

namespace burnish::data {

/// The metadata that a folder holds (metadata.csv, metadata.jsonl or metadata.json, the first that is there); the path itself where it is
/// no folder or holds none.
std::filesystem::path metadata_in(const std::filesystem::path& path);

/// .csv, .json (a list of objects) or .jsonl (an object a line, blank lines skipped), in UTF-8 with or without a byte order mark, .parquet
/// (parquet.h), or a folder: the metadata in it, or pictures with captions (captioned_folder.h), which may also be in a .tar archive. Blank
/// csv cells are empty strings. The class tokens, or else the trigger word, are the prompt of rows of such files without a caption or with
/// a blank one. A row that names no mask gets that of the mask folder, in the column mask, which has its picture's name, whatever the
/// ending: "more/cat.png" for more/cat.jpg of the folder, else cat.png where one mask alone is called so. A data Error names the file and
/// line, and what was expected.
Metadata load_metadata(const std::filesystem::path& path, const CaptionFiles& captions = {});

}  // namespace burnish::data
