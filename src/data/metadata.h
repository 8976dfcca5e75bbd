#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::data {

/// The rows of a metadata file: column name to value.
struct Metadata {
  std::vector<nlohmann::json> rows;  ///< objects
  std::vector<std::string> columns;  ///< columns of the first row, in file order for csv
  /// The reasons why rows of a folder cannot be used, by row: a caption that cannot be read, a damaged archive.
  std::map<size_t, std::string> bad = {};
};

/// The choice of text files beside the pictures of a folder that hold their captions.
struct CaptionFiles {
  std::string endings = ".txt";   ///< comma list of ENDING or ENDING=WEIGHT: how often that caption is drawn beside those of other endings
  std::string class_tokens = {};  ///< the caption of pictures that have no such file; "" where each must have one
};

/// The metadata that a folder holds (metadata.csv, metadata.jsonl or metadata.json, the first that is there); the path itself where it is
/// no folder or holds none.
std::filesystem::path metadata_in(const std::filesystem::path& path);

/// .csv, .json (a list of objects) or .jsonl (an object a line, blank lines skipped), in UTF-8 with or without a byte order mark, .parquet
/// (parquet.h), or a folder: the metadata in it, or pictures with captions (captioned_folder.h), which may also be in a .tar archive. Blank
/// csv cells are empty strings. A data Error names the file and line, and what was expected.
Metadata load_metadata(const std::filesystem::path& path, const CaptionFiles& captions = {});

/// The parsers behind it, on text; `file` is for messages.
Metadata parse_csv(std::string_view text, std::string_view file);
Metadata parse_json_list(std::string_view text, std::string_view file);
Metadata parse_json_lines(std::string_view text, std::string_view file);

}  // namespace burnish::data
