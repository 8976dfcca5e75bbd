#include "data/caption_cells.h"

#include <cmath>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "data/metadata.h"

namespace burnish::data {

namespace {

double positive_weight(const nlohmann::json& caption) {
  auto weight = caption.find("weight");
  if (weight == caption.end()) return 1;
  auto number = weight->is_number() ? weight->get<double>() : 0;
  if (!(number > 0 && std::isfinite(number)))
    data_error("data", "the weight of a caption is {}, and must be a number above 0", weight->dump());
  return number;
}

/// A text, nothing, or a list of texts or of {text, weight}.
Captions captions_in(const nlohmann::json& value, const std::string& key) {
  if (value.is_null()) return {{""}};
  if (value.is_string()) return {{value.get<std::string>()}};
  Captions captions;
  for (const auto& item : value.is_array() ? value : nlohmann::json::array()) {
    auto text = item.is_object() ? item.value("text", nlohmann::json()) : item;
    if (!text.is_string()) data_error("data", "a caption in the list '{}' is no text, nor an object with text and weight", key);
    captions.push_back({text.get<std::string>(), item.is_object() ? positive_weight(item) : 1});
  }
  if (captions.empty()) data_error("data", "the {} is of type {}, not a text", key, value.type_name());
  return captions;
}

Captions captions_of(const nlohmann::json& row, const std::vector<std::string>& columns) {
  for (const char* key : kCaptionColumns) {
    auto it = row.find(key);
    if (it != row.end()) return captions_in(*it, key);
  }
  data_error("data", "no column named prompt (or caption, or text); there are: {}; class_tokens gives one caption to all", join(columns));
}

/// Each line as a caption of its own; those of one share its weight.
Captions by_line(const Captions& captions) {
  Captions lines;
  for (const auto& caption : captions) {
    auto parts = split_list(caption.text, '\n');
    if (parts.empty()) parts.emplace_back();
    for (const auto& part : parts) lines.push_back({part, caption.weight / static_cast<double>(parts.size())});
  }
  return lines;
}

/// A text that no encoder would read is a file of something else.
void check_lengths(const Captions& captions) {
  constexpr size_t kMostBytes = 1 << 20;
  for (const auto& caption : captions) {
    if (caption.text.size() > kMostBytes)
      data_error("data", "the caption has {}, and a caption has at most {}; see what its file or column holds",
                 human_bytes(static_cast<double>(caption.text.size())), human_bytes(kMostBytes));
  }
}

}  // namespace

Captions read_captions(const nlohmann::json& row, const std::vector<std::string>& columns, const CaptionRule& rule) {
  auto captions = captions_of(row, columns);
  check_lengths(captions);
  return rule.wildcards ? by_line(captions) : captions;
}

}  // namespace burnish::data
