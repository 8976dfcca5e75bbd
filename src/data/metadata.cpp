#include "data/metadata.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/escapes.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish::data {

namespace {

const std::string_view kMark = "\xEF\xBB\xBF";

using CsvRecord = std::vector<CsvCell>;

/// Reads RFC 4180 records: quoted fields may hold commas, line ends and doubled quotes.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view file) : text_(text), file_(file), at_(text.starts_with(kMark) ? kMark.size() : 0) {}

  bool done() const { return at_ == text_.size(); }
  int64_t line() const { return line_; }

  CsvRecord record() {
    CsvRecord cells;
    while (true) {
      cells.push_back(cell());
      if (done()) return cells;
      const char separator = text_[at_++];
      if (separator == ',') continue;
      if (separator == '\r' && text_.substr(at_).starts_with('\n')) ++at_;
      ++line_;
      return cells;
    }
  }

 private:
  CsvCell cell() {
    CsvCell cell{.begin = at_};
    cell.value = text_.substr(at_).starts_with('"') ? quoted() : plain();
    cell.end = at_;
    return cell;
  }

  std::string plain() {
    const auto end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    const auto begin = std::exchange(at_, end);
    return std::string(text_.substr(begin, end - begin));
  }

  std::string quoted() {
    const auto opened = line_;
    std::string value;
    for (++at_; !done();) {
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c != '"') {
        value += c;
      } else if (text_.substr(at_).starts_with('"')) {
        value += text_[at_++];
      } else {
        const char next = done() ? '\n' : text_[at_];
        if (next != ',' && next != '\n' && next != '\r') data_error("data", "{} line {}: text after a closing quote", file_, line_);
        return value;
      }
    }
    data_error("data", "{} line {}: a quote that is opened here is never closed", file_, opened);
  }

  std::string_view text_, file_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

bool blank(const CsvRecord& record) { return record.size() == 1 && trim(record[0].value).empty(); }

std::string_view without_mark(std::string_view text) {
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

constexpr int kMostLevels = 100;

/// `text` as JSON; it starts at `line` of the file.
nlohmann::json parse_json(std::string_view text, std::string_view file, int64_t line) {
  // A copy or a hash of a value takes stack for each level, so hostile files are refused here.
  auto not_too_deep = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostLevels) data_error("data", "{}: values are nested deeper than {} levels", file, kMostLevels);
    return true;
  };
  try {
    return nlohmann::json::parse(text, not_too_deep);
  } catch (const nlohmann::json::parse_error& e) {
    auto before = text.substr(0, e.byte > 0 ? e.byte - 1 : 0);
    data_error("data", "{} line {}: not valid JSON{}", file, line + std::count(before.begin(), before.end(), '\n'), hint_in_json(e.what()));
  } catch (const nlohmann::json::exception&) {
    data_error("data", "{} line {}: a number that is out of range", file, line);
  }
}

nlohmann::json parse_object(std::string_view text, std::string_view file, int64_t line) {
  auto json = parse_json(text, file, line);
  if (!json.is_object()) data_error("data", "{} line {}: expected an object like {{\"image\": ..., \"prompt\": ...}}", file, line);
  return json;
}

std::vector<std::string> column_names(const CsvRecord& record, std::string_view file, int64_t line) {
  std::vector<std::string> columns;
  std::set<std::string> seen;
  for (const auto& cell : record) {
    columns.emplace_back(trim(cell.value));
    if (!seen.insert(columns.back()).second) data_error("data", "{} line {}: two columns are named '{}'", file, line, columns.back());
  }
  return columns;
}

void finish(Metadata& m, std::string_view file) {
  if (m.rows.empty()) data_error("data", "{} has no rows", file);
  if (!m.columns.empty()) return;
  for (const auto& [key, value] : m.rows[0].items()) m.columns.push_back(key);
}

}  // namespace

std::vector<std::vector<CsvCell>> csv_cells(std::string_view text, std::string_view file) {
  std::vector<CsvRecord> records;
  for (CsvReader reader(text, file); !reader.done();) {
    if (auto record = reader.record(); !blank(record)) records.push_back(std::move(record));
  }
  return records;
}

Metadata parse_csv(std::string_view text, std::string_view file) {
  CsvReader reader(text, file);
  Metadata m;
  while (!reader.done()) {
    auto line = reader.line();
    auto record = reader.record();
    if (blank(record)) continue;
    for (const auto& cell : record) {
      if (!is_utf8(cell.value)) data_error("data", "{} line {}: the text is not UTF-8; save the file in that encoding", file, line);
    }
    if (m.columns.empty()) {
      m.columns = column_names(record, file, line);
      continue;
    }
    if (record.size() != m.columns.size()) {
      data_error("data", "{} line {}: {} cells under {} columns; quote cells that hold commas", file, line, record.size(),
                 m.columns.size());
    }
    nlohmann::json row;
    for (size_t i = 0; i < record.size(); ++i) row[m.columns[i]] = record[i].value;
    m.rows.push_back(std::move(row));
  }
  finish(m, file);
  return m;
}

Metadata parse_json_list(std::string_view text, std::string_view file) {
  auto json = parse_json(without_mark(text), file, 1);
  if (!json.is_array()) data_error("data", "{} must hold a list of objects", file);
  Metadata m;
  for (size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_object()) data_error("data", "{} row {}: expected an object, found {}", file, i, json[i].type_name());
    m.rows.push_back(std::move(json[i]));
  }
  finish(m, file);
  return m;
}

Metadata parse_json_lines(std::string_view text, std::string_view file) {
  Metadata m;
  text = without_mark(text);
  for (int64_t line = 1; !text.empty(); ++line) {
    auto end = std::min(text.find('\n'), text.size());
    auto content = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!content.empty()) m.rows.push_back(parse_object(content, file, line));
  }
  finish(m, file);
  return m;
}

}  // namespace burnish::data
