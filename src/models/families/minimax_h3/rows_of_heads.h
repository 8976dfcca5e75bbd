#pragma once
#include "io/checkpoint_files.h"

namespace burnish::models::minimax_h3 {

/// Returns a source whose fused layers of query, key and value, by what their names end in, have rows of all queries, then of all keys,
/// then of all values. In the file each head of `head_dim` rows has its three one after the other. A data Error for rows that are no such
/// heads, and for those that lie as codes.
io::TensorSource with_rows_by_part(const io::TensorSource& source, const std::vector<std::string>& endings, int64_t head_dim);

}  // namespace burnish::models::minimax_h3
