#include "data/references.h"

#include <algorithm>
#include <array>

#include "base/input_error.h"
#include "base/text.h"
#include "data/clip.h"
#include "data/folder_contents.h"

namespace burnish::data {

namespace {

using Kind = Reference::Kind;

/// The words by which DiffSynth-Studio calls each kind.
const std::array<std::string, 4> kWords{"image", "video", "video_audio", "audio"};

Kind kind_called(const std::string& word, const std::string& column) {
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end())
    data_error("data", "a reference in the column '{}' is of the type '{}', and there are image, video, audio and video_audio", column,
               word);
  return static_cast<Kind>(found - kWords.begin());
}

bool is_seen(Kind kind) { return kind != Kind::sound; }
bool is_heard(Kind kind) { return kind == Kind::sound || kind == Kind::sounding_clip; }

/// The one that a text names by its file; animations count as clips where they have several frames, which only a look tells, so that GIF
/// and WebP are pictures here.
Reference reference_at(const std::string& file) {
  if (is_sound(file)) return {Kind::sound, "", file};
  return is_clip_alone(file) ? Reference{Kind::sounding_clip, file, file} : Reference{Kind::picture, file, ""};
}

std::string file_in(const nlohmann::json& entry, const char* key, const std::string& column) {
  const auto cell = entry.find(key);
  if (cell == entry.end() || !cell->is_string() || trim(cell->get<std::string>()).empty())
    data_error("data", "a reference in the column '{}' is {}, and \"{}\" is to name its file", column, entry.dump(), key);
  return std::string(trim(cell->get<std::string>()));
}

Reference reference_in(const nlohmann::json& entry, const std::string& column) {
  if (entry.is_string() && !trim(entry.get<std::string>()).empty()) return reference_at(std::string(trim(entry.get<std::string>())));
  if (!entry.is_object() || !entry.contains("type") || !entry["type"].is_string())
    data_error(
        "data",
        "a reference in the column '{}' is {}, and the name of a file was expected, or {{\"type\": \"image\", \"image\": FILE}}, with "
        "image, video, audio or video_audio",
        column, entry.dump());
  Reference reference{.kind = kind_called(entry["type"].get<std::string>(), column)};
  if (is_seen(reference.kind)) reference.seen = file_in(entry, reference.kind == Kind::picture ? "image" : "video", column);
  if (is_heard(reference.kind)) reference.heard = file_in(entry, "audio", column);
  return reference;
}

}  // namespace

bool is_sound(const std::string& file) {
  static const std::array<std::string, 8> kEndings{".wav", ".mp3", ".flac", ".ogg", ".oga", ".opus", ".m4a", ".aac"};
  return std::ranges::find(kEndings, ending_of(file)) != kEndings.end();
}

std::vector<Reference> references_in(const nlohmann::json& cell, const std::string& column) {
  std::vector<Reference> references;
  if (cell.is_null()) return references;
  if (cell.is_string()) {
    const std::string text(trim(cell.get<std::string>()));
    if (text.empty()) return references;
    if (!text.starts_with("[") && !text.starts_with("{")) return {reference_in(cell, column)};
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) data_error("data", "the column '{}' holds {}, which is no JSON", column, text);
    return references_in(json, column);
  }
  for (const auto& entry : cell.is_array() ? cell : nlohmann::json::array({cell})) references.push_back(reference_in(entry, column));
  return references;
}

nlohmann::json words_of_kinds(const std::vector<Reference>& references) {
  auto words = nlohmann::json::array();
  for (const auto& reference : references) words.push_back(kWords.at(static_cast<size_t>(reference.kind)));
  return words;
}

std::vector<Reference> references_of(const nlohmann::json& words, const std::vector<std::string>& files) {
  std::vector<Reference> references;
  size_t next = 0;
  for (const auto& word : words) {
    Reference reference{.kind = kind_called(word.get<std::string>(), "references")};
    if (is_seen(reference.kind)) reference.seen = files.at(next++);
    if (is_heard(reference.kind)) reference.heard = files.at(next++);
    references.push_back(std::move(reference));
  }
  return references;
}

}  // namespace burnish::data
