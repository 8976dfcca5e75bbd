#include "tagging/tags.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "data/metadata.h"
#include "io/files.h"

namespace burnish::tagging {

namespace {

using Cells = std::vector<data::CsvCell>;

size_t column_of(const Cells& head, const std::string& name, const std::string& file) {
  const auto found = std::ranges::find(head, name, &data::CsvCell::value);
  if (found == head.end())
    data_error("tagging",
               "{} has no column '{}' in its first line; the selected_tags.csv of a WD tagger was expected, which has tag_id, name, "
               "category and count",
               file, name);
  return static_cast<size_t>(found - head.begin());
}

Category category_of(const std::string& text, const std::string& tag, const std::string& file) {
  const auto number = parse_number<int64_t>(text);
  for (auto known : {Category::general, Category::character, Category::rating}) {
    if (number == static_cast<int64_t>(known)) return known;
  }
  data_error("tagging", "{} has the tag '{}' in category '{}'; 0 (general), 4 (character) and 9 (rating) are known", file, tag, text);
}

/// A tag as lists of what is not written name it, whatever its spelling.
std::string plain(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
  return name;
}

std::string written(const std::string& name, const TagRule& rule) {
  if (rule.keeps_underscores || is_face(name)) return name;
  auto text = name;
  std::ranges::replace(text, '_', ' ');
  return text;
}

}  // namespace

const char* name_of(Category category) {
  switch (category) {
    case Category::character: return "character";
    case Category::rating: return "rating";
    case Category::general: break;
  }
  return "general";
}

std::vector<TagName> read_tag_names(const std::filesystem::path& file) {
  const auto rows = data::csv_cells(io::read_text(file), file.string());
  if (rows.empty()) data_error("tagging", "{} is empty; the selected_tags.csv of a WD tagger was expected", file.string());
  const auto name = column_of(rows[0], "name", file.string()), category = column_of(rows[0], "category", file.string());
  std::vector<TagName> names;
  for (size_t row = 1; row < rows.size(); ++row) {
    if (rows[row].size() <= std::max(name, category))
      data_error("tagging", "row {} of {} has {} cells, and its first line {}", row, file.string(), rows[row].size(), rows[0].size());
    const auto& tag = rows[row][name].value;
    names.push_back({tag, category_of(rows[row][category].value, tag, file.string())});
  }
  return names;
}

bool is_face(const std::string& name) {
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<signed char>(c) < 0; };
  return std::ranges::adjacent_find(name, [&](char a, char b) { return is_word(a) && is_word(b); }) == name.end();
}

std::vector<Tag> tags_of(const at::Tensor& likelihoods_T, const std::vector<TagName>& names, const TagRule& rule) {
  const auto likely = likelihoods_T.to(at::kCPU, at::kDouble).contiguous();
  const auto* values = likely.const_data_ptr<double>();
  std::vector<std::string> without;
  for (const auto& name : rule.without) without.push_back(plain(name));
  std::vector<Tag> tags;
  std::optional<Tag> rating;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [name, category] = names[i];
    if (contains(without, plain(name))) continue;
    const Tag tag{written(name, rule), category, values[i]};
    if (category == Category::rating) {
      if (!rating || tag.likelihood > rating->likelihood) rating = tag;
    } else if (tag.likelihood > (category == Category::character ? rule.character : rule.general)) {
      tags.push_back(tag);
    }
  }
  if (rule.is_alphabetical) {
    std::ranges::stable_sort(tags, {}, &Tag::name);
  } else {
    std::ranges::stable_sort(tags, [](const Tag& a, const Tag& b) {
      const bool a_first = a.category == Category::character, b_first = b.category == Category::character;
      return a_first != b_first ? a_first : a.likelihood > b.likelihood;
    });
  }
  if (rule.with_rating && rating) tags.push_back(*rating);
  return tags;
}

std::string caption_of(const std::vector<Tag>& tags, const TagRule& rule, const std::string& before) {
  std::vector<std::string> parts;
  auto add = [&](const std::string& text) {
    if (!text.empty() && !contains(parts, text)) parts.push_back(text);
  };
  const auto there = rule.is_added ? split_list(before) : std::vector<std::string>();
  if (!contains(there, rule.trigger)) add(rule.trigger);
  for (const auto& part : split_list(rule.prefix)) add(part);
  for (const auto& part : there) add(part);
  for (const auto& tag : tags) add(tag.name);
  return join(parts);
}

}  // namespace burnish::tagging
