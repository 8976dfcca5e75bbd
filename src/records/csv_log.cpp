#include "records/csv_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "io/files.h"

namespace burnish::records {

namespace {

constexpr std::string_view kLineEnd = "\r\n";

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string text = "\"";
  for (char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string row;
  for (const auto& cell : cells) row += (&cell == cells.data() ? "" : ",") + quoted(cell);
  return row.append(kLineEnd);
}

std::string number(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

/// Takes one row from the front of `text`; no cells when the text ends before the row does.
std::vector<std::string> take_row(std::string_view& text) {
  std::vector<std::string> cells(1);
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      bool doubled = inside && i + 1 < text.size() && text[i + 1] == '"';
      if (doubled) cells.back() += text[i++];
      else inside = !inside;
    } else if (!inside && text[i] == ',') {
      cells.emplace_back();
    } else if (!inside && text.substr(i).starts_with(kLineEnd)) {
      text.remove_prefix(i + kLineEnd.size());
      return cells;
    } else {
      cells.back() += text[i];
    }
  }
  text = {};
  return {};
}

/// The columns of the file at `path`, whose rows of later steps are dropped.
std::vector<std::string> cut_table(const std::filesystem::path& path, int64_t last_step) {
  auto text = io::is_there(path) ? io::read_text(path) : "";
  std::string_view rest = text;
  auto columns = take_row(rest);
  bool is_ours = columns.size() >= 2 && columns[0] == "step" && columns[1] == "time";
  std::string kept = is_ours ? row_of(columns) : "";
  size_t num_kept = 0;
  while (is_ours && !rest.empty()) {
    auto cells = take_row(rest);
    const auto step = cells.size() == columns.size() ? parse_number<int64_t>(cells[0]) : std::nullopt;
    if (!step || *step > last_step) continue;
    kept += row_of(cells);
    ++num_kept;
  }
  // Nothing kept: the run starts anew, and its first record chooses the columns.
  io::write_text_atomic(path, num_kept > 0 ? kept : "");
  return num_kept > 0 ? columns : std::vector<std::string>{};
}

}  // namespace

CsvLog::CsvLog(const std::filesystem::path& path, int64_t last_step) : columns_(cut_table(path, last_step)), file_(path) {}

void CsvLog::write(const Record& record) {
  std::string text;
  if (columns_.empty()) {
    columns_ = {"step", "time"};
    for (const auto& [name, value] : record.values) columns_.push_back(name);
    text = row_of(columns_);
  }
  std::vector<std::string> cells(columns_.size());
  cells[0] = std::to_string(record.step);
  cells[1] = number(record.time);
  for (const auto& [name, value] : record.values) {
    auto column = std::find(columns_.begin() + 2, columns_.end(), name);
    if (column != columns_.end()) cells[static_cast<size_t>(column - columns_.begin())] = number(value);
  }
  file_.write(text + row_of(cells));
}

}  // namespace burnish::records
