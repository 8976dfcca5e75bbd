#pragma once
#include "models/model/names.h"

// Forms in which DiffSynth-Studio's caches have what our units write.
namespace burnish::models {

/// Pictures as tokens one behind the other, and how many of them each has.
struct TokenGrid {
  int64_t first = 0, rows = 0, columns = 0;
};
/// The pictures whose tokens lie at the places [..., N, 3 or more], of which the second number is the row and the third the column. A data
/// Error where places do not fill rectangles row by row.
std::vector<TokenGrid> grids_at(const at::Tensor& places);

/// Makes a picture [C, h, w] of its tokens [rows columns, K].
using FromTokens = std::function<at::Tensor(const at::Tensor& tokens_NK, int64_t rows, int64_t columns)>;
/// Tokens of one picture, [1, N, K] or [N, K], whose places are under the name `places`: [1, C, h, w].
DiffsynthValue picture_in_tokens(const std::string& name, const std::string& places, FromTokens from_tokens);
/// Tokens of reference pictures.
DiffsynthValue references_in_tokens(const std::string& name, const std::string& places, FromTokens from_tokens);
/// Reference pictures, [1, C, h, w] or [C, h, w] each, alone or in a list.
DiffsynthValue references_in_list(const std::string& name);

/// Latents of layers, [F, C, h, w]: [1, C, F, h, w].
DiffsynthValue layers_in_batch(const std::string& name);

/// Returns the one tensor under a name, of so many dimensions of which the first is 1; a data Error where there is another.
at::Tensor one_of_cache(const DiffsynthValue::Find& find, const std::string& name, int64_t dims);

/// The states [T, E] of a text, alone or first in a list: [1, T, E].
DiffsynthValue text_in_list(const std::string& name);
/// The mask of such a text, whose tokens are all there: ones [1, T].
DiffsynthValue mask_of_text_in_list(const std::string& name);

/// Ones [1, T] for a text whose states [1, T, E], or tokens [1, T], are under a name: all of them are read.
DiffsynthValue mask_of_text(const std::string& name);

/// Returns what lies at [begin, end) of the last dimension; an `end` of -1 is where it ends.
DiffsynthValue channels_of(const std::string& name, int64_t begin, int64_t end);

}  // namespace burnish::models
