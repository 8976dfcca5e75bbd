#pragma once
#include <memory>

#include "models/parts/clip_vision.h"
#include "models/text/clip.h"
#include "tokenizers/tokenizer.h"

namespace burnish::models {

/// Finds a CLIP's tower of texts in its own files or below one of these prefixes of a single one. A SigLIP's, which has the tensor too, is
/// none.
Source find_clip(const ModelFiles& files, const std::vector<std::string>& prefixes);

/// The towers of texts and of pictures of a whole CLIP, as transformers writes one, or as a model has them that is made of one.
struct ClipTowers {
  Source texts, pictures;
  text::ClipConfig text;
  ClipVisionConfig vision;
};
/// Finds them among the tensors of an entry below a prefix ("clip." or none): of texts with the projection of what is pooled.
ClipTowers clip_towers(const ModelEntry& entry, const std::string& prefix);

Recipe clip_text_recipe(const std::string& name, const Source& source, const text::ClipConfig& config);

/// Loads the tokenizer: the one that the options name, that of a pipeline, or that beside the entry. `model` is whose it is, for messages:
/// a data Error where it knows more tokens than the tower.
std::unique_ptr<tokenizers::Tokenizer> clip_tokenizer(const ModelFiles& files, const ModelOptions& options, const ModelEntry& entry,
                                                      const text::ClipConfig& config, const char* model);

/// Embeds texts by a loaded tower -> [P, C]. What of a text is beyond the tower's places is cut.
at::Tensor embed_texts(text::ClipTextModel& tower, const tokenizers::Tokenizer& tokenizer, const std::vector<std::string>& texts,
                       c10::Device device);

}  // namespace burnish::models
