#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// References of a row or a prompt: pictures, clips and sounds in one list, whose order counts (Column::Is::references).
namespace burnish::data {

/// A reference by its files: a picture or a clip is seen, a sound is heard, and of a clip that sounds both are named.
struct Reference {
  enum class Kind { picture, clip, sounding_clip, sound } kind = Kind::picture;
  std::string seen = {}, heard = {};  ///< "" where there is none
};

/// Reads a cell: a file or a list of them, each as text, whose ending says what it is, or as DiffSynth-Studio has it, {"type": "image",
/// "image": FILE}, and so video, audio and video_audio. A clip that is named as text brings its own sound. A cell of csv or of a prompt may
/// hold that as JSON. A data Error for anything else.
std::vector<Reference> references_in(const nlohmann::json& cell, const std::string& column);
/// Tells by its ending whether a file is a sound alone.
bool is_sound(const std::string& file);

/// The words for kinds, in the order of Reference::Kind.
nlohmann::json words_of_kinds(const std::vector<Reference>& references);
/// Puts references together again of such words and the files in their order; none where the two do not fit.
std::vector<Reference> references_of(const nlohmann::json& words, const std::vector<std::string>& files);

}  // namespace burnish::data
