#include "studio/caption_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/metadata.h"
#include "io/files.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using Row = nlohmann::ordered_json;

namespace {

std::string quoted(const std::string& value) {
  if (value.find_first_of(",\"\r\n") == std::string::npos) return value;
  std::string text = "\"";
  for (char c : value) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

/// The first of some columns that is there; "" for none.
template <typename Columns, typename IsThere>
std::string first_of(const Columns& columns, IsThere is_there) {
  const auto found = std::ranges::find_if(columns, is_there);
  return found == columns.end() ? "" : *found;
}

}  // namespace

CaptionTable::CaptionTable(fs::path path) : path_(std::move(path)), text_(io::read_text(path_)) {}

std::optional<CaptionTable> CaptionTable::of(const fs::path& dataset) {
  for (const char* name : {"metadata.csv", "metadata.jsonl"}) {
    if (!io::is_there(dataset / name)) continue;
    try {
      CaptionTable table(dataset / name);
      const bool is_known = table.path_.extension() == ".csv" ? table.read_csv() : table.read_lines();
      return is_known ? std::optional(std::move(table)) : std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool CaptionTable::read_csv() {
  const auto rows = data::csv_cells(text_, path_.string());
  if (rows.empty()) return false;
  for (const auto& cell : rows[0]) columns_.emplace_back(trim(cell.value));
  auto place_of = [&](const std::string& column) { return static_cast<size_t>(std::ranges::find(columns_, column) - columns_.begin()); };
  auto is_there = [&](const char* column) { return place_of(column) < columns_.size(); };
  picture_column_ = first_of(data::kFileColumns, is_there);
  caption_column_ = first_of(data::kCaptionColumns, is_there);
  if (picture_column_.empty() || caption_column_.empty()) return false;
  const auto picture = place_of(picture_column_), caption = place_of(caption_column_);
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() <= std::max(picture, caption)) continue;
    const auto& cell = rows[i][caption];
    places_[rows[i][picture].value] = {cell.begin, cell.end, cell.value};
  }
  return true;
}

bool CaptionTable::read_lines() {
  for (size_t begin = 0; begin < text_.size();) {
    const auto end = std::min(text_.find('\n', begin), text_.size());
    const auto row = Row::parse(text_.substr(begin, end - begin), nullptr, /*allow_exceptions=*/false);
    auto has_text = [&](const char* column) { return row.is_object() && row.contains(column) && row[column].is_string(); };
    if (picture_column_.empty()) picture_column_ = first_of(data::kFileColumns, has_text);
    if (caption_column_.empty()) caption_column_ = first_of(data::kCaptionColumns, has_text);
    if (has_text(picture_column_.c_str()))
      places_[row[picture_column_]] = {begin, end, has_text(caption_column_.c_str()) ? row[caption_column_].get<std::string>() : ""};
    begin = end + 1;
  }
  return !picture_column_.empty() && !caption_column_.empty();
}

std::optional<std::string> CaptionTable::caption(const std::string& picture) const {
  if (const auto changed = set_.find(picture); changed != set_.end()) return changed->second;
  const auto place = places_.find(picture);
  return place == places_.end() ? std::nullopt : std::optional(place->second.caption);
}

void CaptionTable::set(const std::string& picture, const std::string& caption) { set_[picture] = caption; }

/// Returns what takes the place of a caption: a cell, or the line of an object.
std::string CaptionTable::encoded(const std::string& picture, const std::string& caption, const Place& place) const {
  if (!columns_.empty()) return quoted(caption);
  auto row = Row::parse(text_.substr(place.begin, place.end - place.begin));
  row[picture_column_] = picture;
  row[caption_column_] = caption;
  return row.dump();
}

std::string CaptionTable::row_of(const std::string& picture, const std::string& caption) const {
  if (columns_.empty()) return Row{{picture_column_, picture}, {caption_column_, caption}}.dump();
  std::string row;
  for (const auto& column : columns_)
    row += (row.empty() && &column == columns_.data() ? "" : ",") + (column == picture_column_   ? quoted(picture)
                                                                     : column == caption_column_ ? quoted(caption)
                                                                                                 : "");
  return row;
}

void CaptionTable::save() {
  if (set_.empty()) return;
  std::vector<std::pair<Place, std::string>> changes;
  std::string added;
  for (const auto& [picture, caption] : set_) {
    const auto place = places_.find(picture);
    if (place == places_.end()) added += row_of(picture, caption) + "\n";
    else changes.emplace_back(place->second, encoded(picture, caption, place->second));
  }
  std::ranges::sort(changes, [](const auto& a, const auto& b) { return a.first.begin > b.first.begin; });
  auto text = text_;  // from its end on, so that places before a change stay where they are
  for (const auto& [place, value] : changes) text.replace(place.begin, place.end - place.begin, value);
  if (!added.empty() && !text.empty() && text.back() != '\n') text += '\n';
  io::write_text_atomic(path_, text + added);
  set_.clear();
}

}  // namespace burnish::studio
