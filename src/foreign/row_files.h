#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "foreign/table.h"

namespace burnish::foreign {

/// A file of rows that need no code, src/foreign/NAME.rows, as it is built in.
struct RowFile {
  std::string_view name;
  std::string_view text;
};

/// Lists the files that are built in.
const std::vector<RowFile>& row_files();

/// Reads the rows of a text; a std::logic_error with `file` and the line for one that is malformed, or whose value is no JSON.
std::vector<SettingRow> read_rows(const std::string& file, std::string_view text);

/// Reads the rows of a file that is built in.
std::vector<SettingRow> rows_in(std::string_view name);

}  // namespace burnish::foreign
