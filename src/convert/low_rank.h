#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace burnish::convert {

/// Says how many singular values are kept: `rank` at most, and no more than it takes to hold the share `energy` of the sum of their
/// squares. 0 leaves one of them out.
struct RankRule {
  int64_t rank = 0;
  double energy = 0;
};

/// A matrix as B A, A [rank, in] and B [out, rank], each with the roots of the singular values.
struct LowRank {
  at::Tensor a_RI, b_OR;
  double error = 0;  ///< ‖Δ - B A‖ / ‖Δ‖ (Frobenius)
};

/// The best approximation of a matrix Δ [out, in] that is not zero (Eckart & Young 1936): by its SVD where Δ is small or many of its values
/// are kept, else by the SVD of what Δ is within the range of a random sketch that passes through it several times (Halko et al. 2011,
/// arXiv 0909.4061, algorithm 4.4), which is near the best and much cheaper. Draws depend on `name` alone. fp32.
LowRank factor(const at::Tensor& delta_OI, const RankRule& rule, const std::string& name);

/// Factors a product B A that is not zero, through matrices as small as its rank, in fp64.
LowRank factor_product(const at::Tensor& b_OR, const at::Tensor& a_RI, const RankRule& rule);

}  // namespace burnish::convert
