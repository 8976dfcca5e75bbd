#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizers/protobuf.h"

// Field numbers and values of sentencepiece_model.proto, of models that are made here out of other files.
namespace burnish::tokenizers::piece {

inline constexpr uint64_t kPieces = 1, kTrainerSpec = 2, kNormalizer = 3;
inline constexpr uint64_t kPiece = 1, kScore = 2, kType = 3;
inline constexpr uint64_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;  // kType
inline constexpr uint64_t kModelType = 3, kByteFallback = 35, kUnkPiece = 45;                    // of the trainer
inline constexpr uint64_t kBpe = 2;                                                              // kModelType
inline constexpr uint64_t kCharsmap = 2, kAddDummyPrefix = 3, kRemoveExtraBlanks = 4;            // of the normalizer

/// Returns a piece of a vocabulary, which stands behind those with smaller ids.
inline std::string of(const std::string& text, float score, uint64_t type) {
  return bytes_field(kPieces, bytes_field(kPiece, text) + float_field(kScore, score) + number_field(kType, type));
}

/// Tells whether a piece is a byte, as "<0x0A>".
inline bool is_byte(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && kDigits.find(text[3]) != kDigits.npos &&
         kDigits.find(text[4]) != kDigits.npos;
}

}  // namespace burnish::tokenizers::piece
