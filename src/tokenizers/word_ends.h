#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizers/unicode.h"
#include "tokenizers/white_space.h"

// Where the words end that a text is split into before its bytes are merged: what the patterns of several tokenizers have in common.
namespace burnish::tokenizers {

using Codes = std::vector<int32_t>;

inline bool is_line_end(int32_t c) { return c == '\r' || c == '\n'; }
/// Tells whether a code point is no blank, letter or number.
inline bool is_other(int32_t c) { return !is_white_space(c) && !is_letter(c) && !is_number(c); }

/// Returns the length of 's, 't, 're, 've, 'm, 'll and 'd, which three code points begin with; 0 for anything else.
inline size_t contraction_length(int32_t quote, int32_t a, int32_t b) {
  if (quote != '\'') return 0;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/// Returns the end of the run from i on of which `is` is true.
template <class Is>
size_t run_end(const Codes& codes, size_t i, const Is& is) {
  while (i < codes.size() && is(codes[i])) ++i;
  return i;
}

/// The end by ` ?[^\s\p{L}\p{N}]+`, or by what else `is`, and behind it what `follows`; i where that does not match.
template <class Follows, class Is = decltype(is_other)>
size_t others_end(const Codes& codes, size_t i, const Follows& follows, const Is& is = is_other) {
  const auto others = i + (codes[i] == ' ');
  if (others == codes.size() || !is(codes[others])) return i;
  return run_end(codes, run_end(codes, others, is), follows);
}

/// The end of the blanks that begin at i, by `\s*[\r\n]+|\s+(?!\S)|\s+`.
inline size_t blanks_end(const Codes& codes, size_t i) {
  auto end = run_end(codes, i, is_white_space);
  for (auto line = end; line > i; --line) {
    if (is_line_end(codes[line - 1])) return line;
  }
  return end == codes.size() || end == i + 1 ? end : end - 1;  // the last blank belongs to the word behind it
}

}  // namespace burnish::tokenizers
