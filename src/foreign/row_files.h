#pragma once
#include <map>
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

/// Conditions by the names that headings have for them.
using Conditions = std::map<std::string_view, Condition>;

/// Reads the rows of a text; a std::logic_error with `file` and the line for one that is malformed, whose value is no JSON, or whose
/// condition has another name than these.
std::vector<SettingRow> read_rows(const std::string& file, std::string_view text, const Conditions& conditions = {});

/// Reads the rows of a file that is built in.
std::vector<SettingRow> rows_in(std::string_view name, const Conditions& conditions = {});

}  // namespace burnish::foreign
