#include "models/families/fibo2/captions.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/input_error.h"
#include "base/text.h"
#include "models/parts/picture_texts.h"

namespace burnish::models::fibo2 {

namespace {

using Json = nlohmann::ordered_json;

/// The caption by which guidance leads away: every key without a value (diffusers: pipeline_bria_fibo2.py).
constexpr const char* kEmptyCaption =
    R"({"short_description":"","objects":[],"background_setting":"","lighting":{},"aesthetics":{},"photographic_characteristics":{},)"
    R"("style_medium":"","context":"","artistic_style":""})";
constexpr const char *kInstruction = "edit_instruction", *kCaption = "structured_caption", *kShort = "short_description",
                     *kWords = "text_render";
/// Scores, which are of no caption.
constexpr const char* kScores[] = {"aesthetic_score", "preference_score"};

bool is_empty(const Json& value) {
  return value.is_null() || ((value.is_string() || value.is_structured()) && (value.is_string() ? value == "" : value.empty()));
}

/// Leaves out all that is empty, within too.
Json cleaned(const Json& value) {
  if (!value.is_structured()) return value;
  auto kept = value.is_object() ? Json::object() : Json::array();
  for (const auto& [key, item] : value.items()) {
    auto clean = cleaned(item);
    if (is_empty(clean)) continue;
    if (value.is_object()) kept[key] = std::move(clean);
    else kept.push_back(std::move(clean));
  }
  return kept;
}

Json without_scores(Json object) {
  for (const auto* score : kScores) object.erase(score);
  return object;
}

/// Makes a caption as the model was trained with it; null where nothing is left.
Json tidied(const Json& given) {
  auto caption = without_scores(cleaned(given));
  for (auto& [key, value] : caption.items()) {
    if (value.is_object()) value = without_scores(value);
  }
  std::set<std::string> keys, emptied;
  for (const auto& [key, value] : given.items()) keys.insert(key);
  for (const auto& [key, value] : caption.items()) {
    if (value.is_object() && value.empty()) emptied.insert(key);
  }
  for (const auto& key : emptied) caption.erase(key);
  // These two alone say too that a picture has no words.
  if (keys == std::set<std::string>{kShort, kWords})
    caption = {{kShort, caption.value(kShort, Json(""))}, {kWords, caption.value(kWords, Json::array())}};
  return caption.empty() ? Json() : caption;
}

/// A prompt that is an object of JSON: its caption, null for none, and its instruction.
struct Parsed {
  Json caption;
  std::optional<std::string> instruction = {};
};
std::optional<Parsed> parsed(const std::string& prompt) {
  auto json = Json::parse(prompt, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  Parsed found;
  if (json.contains(kInstruction)) {
    const auto& value = json[kInstruction];
    if (!value.is_null()) found.instruction = value.is_string() ? value.get<std::string>() : value.dump();
    json.erase(kInstruction);
  }
  if (!json.contains(kCaption)) found.caption = tidied(json);
  else if (json[kCaption].is_object()) found.caption = tidied(json[kCaption]);
  else if (!is_empty(json[kCaption])) found.caption = json[kCaption];
  return found;
}

}  // namespace

std::string read_caption(const std::string& prompt) {
  if (trim(prompt).empty()) return kEmptyCaption;
  const auto found = parsed(prompt);
  if (!found) return prompt;
  if (found->caption.is_null()) return kEmptyCaption;
  return found->caption.is_string() ? found->caption.get<std::string>() : found->caption.dump();
}

EditText read_edit(const std::string& prompt, size_t num_pictures) {
  auto found = parsed(prompt);
  if (trim(prompt).empty() || (found && found->caption.is_null() && !found->instruction)) return {"", kEmptyCaption};
  if (found && !found->instruction)
    data_error("models",
               "a prompt beside a reference picture is JSON without {}; write what is to be changed under that key, beside the caption's, "
               "or write the instruction alone",
               kInstruction);
  if (!found) found = Parsed{.caption = {}, .instruction = prompt};
  auto edit = Json::object();
  for (size_t i = 1; i <= num_pictures; ++i) edit[num_pictures == 1 ? "image" : fmt::format("image_{}", i)] = kPictureInText;
  if (!found->caption.is_null()) edit[kCaption] = found->caption;
  edit[kInstruction] = *found->instruction;
  const auto text = edit.dump();
  const std::string mark = kPictureInText;
  // Words of the prompt may have the mark too, so pictures are counted.
  size_t end = 0;
  for (size_t i = 0; i < num_pictures; ++i) end = text.find(mark, end) + mark.size();
  return {text.substr(0, end), text.substr(end)};
}

}  // namespace burnish::models::fibo2
