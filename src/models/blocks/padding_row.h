#pragma once
#include <ATen/core/Tensor.h>

// Texts that are filled up with equal rows, all of which are attended to: one row that counts for all of them gives the same result.
// Shape letters: B batch, T rows, E width.
namespace burnish::models {

/// The rows of texts, and the number of tokens that each stands for; of nothing where that is 0.
struct CountedRows {
  at::Tensor rows_BTE, counts_BT;
};

/// Puts a row of zeros behind texts, which stands for as many tokens as are missing of each to `length`.
CountedRows with_padding_row(const CountedRows& texts, int64_t length);

/// Makes a bias of attention [B, 1, 1, T] to rows, each of which stands for so many tokens.
at::Tensor bias_of_counts(const at::Tensor& counts_BT);

}  // namespace burnish::models
