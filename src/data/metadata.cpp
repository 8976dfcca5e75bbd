#include "data/metadata.h"

#include <algorithm>
#include <set>

#include "base/escapes.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish::data {

namespace {

/// Reads RFC 4180 records: quoted fields may hold commas, line ends and doubled quotes.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  bool done() const { return text_.empty(); }
  int64_t line() const { return line_; }

  std::vector<std::string> record() {
    std::vector<std::string> fields;
    while (true) {
      fields.push_back(field());
      if (text_.empty()) return fields;
      char separator = text_.front();
      text_.remove_prefix(1);
      if (separator == ',') continue;
      if (separator == '\r' && text_.starts_with('\n')) text_.remove_prefix(1);
      ++line_;
      return fields;
    }
  }

 private:
  std::string field() {
    if (!text_.starts_with('"')) {
      auto end = std::min(text_.find_first_of(",\r\n"), text_.size());
      std::string value(text_.substr(0, end));
      text_.remove_prefix(end);
      return value;
    }
    auto opened = line_;
    text_.remove_prefix(1);
    std::string value;
    while (!text_.empty()) {
      char c = text_.front();
      text_.remove_prefix(1);
      if (c == '\n') ++line_;
      if (c != '"') {
        value += c;
      } else if (text_.starts_with('"')) {
        value += '"';
        text_.remove_prefix(1);
      } else {
        auto next = text_.empty() ? '\n' : text_.front();
        if (next != ',' && next != '\n' && next != '\r') data_error("data", "{} line {}: text after a closing quote", file_, line_);
        return value;
      }
    }
    data_error("data", "{} line {}: a quote that is opened here is never closed", file_, opened);
  }

  std::string_view text_, file_;
  int64_t line_ = 1;
};

bool blank(const std::vector<std::string>& record) { return record.size() == 1 && trim(record[0]).empty(); }

std::string_view without_mark(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
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

std::vector<std::string> column_names(const std::vector<std::string>& record, std::string_view file, int64_t line) {
  std::vector<std::string> columns;
  std::set<std::string> seen;
  for (const auto& cell : record) {
    columns.emplace_back(trim(cell));
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

Metadata parse_csv(std::string_view text, std::string_view file) {
  CsvReader reader(without_mark(text), file);
  Metadata m;
  while (!reader.done()) {
    auto line = reader.line();
    auto record = reader.record();
    if (blank(record)) continue;
    for (const auto& cell : record) {
      if (!is_utf8(cell)) data_error("data", "{} line {}: the text is not UTF-8; save the file in that encoding", file, line);
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
    for (size_t i = 0; i < record.size(); ++i) row[m.columns[i]] = record[i];
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
