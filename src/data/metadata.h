#pragma once
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::data {

/// The columns that name a row's file where nothing else is said, and those that hold its caption: the first that is there counts.
inline constexpr std::array kFileColumns{"image", "video", "file_name"};
inline constexpr std::array kCaptionColumns{"prompt", "caption", "text"};

/// A cell of a .csv file: its value, and where it stands in the text, quotes included.
struct CsvCell {
  size_t begin = 0, end = 0;
  std::string value = {};
};
/// Reads the cells of a text by RFC 4180: quoted ones may hold commas, line ends and doubled quotes. Lines of blanks are left out. `file`
/// is for messages: a data Error names it and the line.
std::vector<std::vector<CsvCell>> csv_cells(std::string_view text, std::string_view file);

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
