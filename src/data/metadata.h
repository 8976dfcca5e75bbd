#pragma once
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

/// The rows of a text in UTF-8, with or without a byte order mark; blank csv cells are empty strings, and JSON is a list of objects or an
/// object a line, blank lines skipped. `file` is for messages: a data Error names it and the line, and what was expected.
Metadata parse_csv(std::string_view text, std::string_view file);
Metadata parse_json_list(std::string_view text, std::string_view file);
Metadata parse_json_lines(std::string_view text, std::string_view file);

}  // namespace burnish::data
