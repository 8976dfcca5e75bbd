#pragma once

namespace burnish::models::text {

/// The tensor of bytes in which ComfyUI's files of a T5 encoder carry its SentencePiece model.
inline constexpr const char* kVocabularyTensor = "spiece_model";

}  // namespace burnish::models::text
