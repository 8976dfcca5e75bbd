#pragma once
#include "convert/options.h"

namespace burnish::convert {

/// Tells whether a file holds vectors of words and nothing else.
bool is_embedding(const std::string& path);

/// Brings vectors of a word, of a file of their own or bundled in a LoRA's, into a file of their own with the names of `embedding_format`.
/// The input may be FILE:WORD (loras::take_word). Returns what was done, in words. A data Error for a file of several words without.
std::string convert_embedding(const Options& o);

}  // namespace burnish::convert
