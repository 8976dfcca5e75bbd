#pragma once

namespace burnish::models::text {

/// The tensor of bytes in which ComfyUI's files of a T5 encoder carry its SentencePiece model.
inline constexpr const char* kVocabularyTensor = "spiece_model";

/// The tensor of bytes in which those of a Gemma 4 carry their tokenizer.json.
inline constexpr const char* kTokenizerTensor = "tokenizer_json";

}  // namespace burnish::models::text
