#include "models/families/ideogram4/captions.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace burnish::models::ideogram4 {

namespace {

/// Keys that every structured caption has (diffusers: prompt_enhancer.py of pipelines/ideogram4).
constexpr const char* kKeys[] = {"high_level_description", "compositional_deconstruction"};
constexpr const char* kTrainedWith =
    "Ideogram 4 was trained with captions that are JSON with high_level_description, style_description and "
    "compositional_deconstruction";

}  // namespace

Caption read_caption(const std::string& given) {
  const auto text = trim(given);
  if (text.empty()) return {given, ""};
  if (!text.starts_with('{')) return {given, fmt::format("a caption is plain text, and {}", kTrainedWith)};
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    Caption caption{text.find_first_of("\r\n") == text.npos ? given : json.dump(), ""};
    for (const char* key : kKeys) {
      if (!json.contains(key)) caption.concern = fmt::format("a caption that is JSON has no {}, and {}", key, kTrainedWith);
    }
    return caption;
  } catch (const nlohmann::json::parse_error& error) {
    return {given, fmt::format("a caption begins as JSON and is none from its byte {} on, and {}", error.byte, kTrainedWith)};
  }
}

}  // namespace burnish::models::ideogram4
