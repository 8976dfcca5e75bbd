#pragma once
#include "models/model/model.h"
#include "models/parts/picture_texts.h"

// What Qwen-Image-Edit makes of reference pictures before text encoder and autoencoder see them.
namespace burnish::models::qwen_image {

/// The column in which reference pictures are found, by DiffSynth-Studio's name (pipelines/qwen_image.py).
inline constexpr const char* kReferenceColumn = "edit_image";

/// The ways in which a prompt tells of its reference pictures.
enum class Naming {
  by_count,  ///< plain for one, numbered for several, as DiffSynth-Studio tells them apart
  plain,     ///< one, without a name: Qwen-Image-Edit
  numbered,  ///< "Picture 1: " and so on: Qwen-Image-Edit-2509 and 2511
};
/// Returns the option's word for a way.
std::string word_of(Naming naming);

/// Returns what the model_index.json of a pipeline that edits says; nothing where there is none.
std::optional<Naming> published_naming(const ModelFiles& files);
/// Reads the option reference_prompt: "auto" takes what is published, or else by_count. `namings` lists its words.
Naming naming_of(const std::string& word, const ModelFiles& files);
std::vector<std::string> namings();

/// Tells whether `count` pictures are numbered; a data Error for several that have no numbers.
bool is_numbered(Naming naming, size_t count);

/// The area of reference pictures that the autoencoder sees, and the area of numbered ones that the vision tower sees; pictures without
/// numbers it sees as the autoencoder does.
inline constexpr int64_t kReferenceArea = 1024 * 1024, kNumberedArea = 384 * 384;

/// Makes the conversation around a prompt (diffusers: pipeline_qwenimage_edit.py, pipeline_qwenimage_edit_plus.py). `seen` [R, C, E] are
/// the vision tower's tokens of its pictures; the prompt is cut so that it has, with what stands behind it, `limit` tokens.
PictureText edit_text(const tokenizers::ChatTokenizer& tokenizer, std::string_view prompt, const std::vector<at::Tensor>& seen,
                      bool numbered, int64_t limit);

}  // namespace burnish::models::qwen_image
