#include "convert/low_rank.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/random_key.h"

namespace burnish::convert {

namespace {

constexpr int64_t kSmall = 256;        // sides up to which a whole SVD costs nothing
constexpr int64_t kOversampling = 16;  // columns of the sketch beyond the rank
constexpr int kNumPasses = 4;
constexpr int64_t kFirstRank = 16;

double squared_norm(const at::Tensor& x) {
  auto norm = at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).item<double>();
  return norm * norm;
}

struct Svd {
  at::Tensor u, s, vt;
};

Svd decomposed(const at::Tensor& matrix) {
  auto [u, s, vt] = at::linalg_svd(matrix, /*full_matrices=*/false);
  return {u, s, vt};
}

/// An orthonormal basis of the range of `matrix`.
at::Tensor basis(const at::Tensor& matrix) { return std::get<0>(at::linalg_qr(matrix)); }

/// The largest singular values and their vectors, out of a sketch of this many columns.
Svd sketched_svd(const at::Tensor& delta_OI, int64_t columns, const std::string& name) {
  auto generator = at::detail::createCPUGenerator(RandomKey{mix64(name), 0, 0, Purpose::init}.value());
  auto q = basis(at::mm(delta_OI, at::empty({delta_OI.size(1), columns}, delta_OI.options()).normal_(0, 1, generator)));
  for (int pass = 0; pass < kNumPasses; ++pass) q = basis(at::mm(delta_OI, basis(at::mm(delta_OI.t(), q))));
  auto inner = decomposed(at::mm(q.t(), delta_OI));
  return {at::mm(q, inner.u), inner.s, inner.vt};
}

/// Returns how many of the singular values the rule keeps; all of them when they do not hold the energy asked for. `total` is the sum of
/// the squares of all, of which these may be the largest only.
int64_t num_kept(const at::Tensor& s, const RankRule& rule, double total) {
  auto count = s.size(0);
  if (rule.energy > 0) {
    double sum = 0;
    auto squares = s.to(at::kDouble).square();
    int64_t i = 0;
    while (i < count && sum < rule.energy * total) sum += squares[i++].item<double>();
    count = i;
  }
  return std::max<int64_t>(1, rule.rank > 0 ? std::min(rule.rank, count) : count);
}

LowRank factors(const Svd& parts, int64_t rank) {
  auto root = parts.s.narrow(0, 0, rank).sqrt();
  return {root.unsqueeze(1) * parts.vt.narrow(0, 0, rank), parts.u.narrow(1, 0, rank) * root};
}

}  // namespace

LowRank factor(const at::Tensor& delta_OI, const RankRule& rule, const std::string& name) {
  auto smaller = std::min(delta_OI.size(0), delta_OI.size(1));
  auto total = squared_norm(delta_OI);
  auto finish = [&](const Svd& parts) {
    auto found = factors(parts, num_kept(parts.s, rule, total));
    found.error = std::sqrt(squared_norm(delta_OI - at::mm(found.b_OR, found.a_RI)) / total);
    return found;
  };
  for (auto rank = rule.rank > 0 ? rule.rank : kFirstRank;; rank *= 2) {
    if (smaller <= kSmall || 4 * (rank + kOversampling) > smaller) return finish(decomposed(delta_OI));
    auto parts = sketched_svd(delta_OI, rank + kOversampling, name);
    parts = {parts.u.narrow(1, 0, rank), parts.s.narrow(0, 0, rank), parts.vt.narrow(0, 0, rank)};
    if (rule.rank > 0 || squared_norm(parts.s) >= rule.energy * total) return finish(parts);
  }
}

LowRank factor_product(const at::Tensor& b_OR, const at::Tensor& a_RI, const RankRule& rule) {
  // B A = Qb (Rb Raᵀ) Qaᵀ, and what stands between the Q has the same singular values.
  auto [q_b, r_b] = at::linalg_qr(b_OR.to(at::kDouble));
  auto [q_a, r_a] = at::linalg_qr(a_RI.to(at::kDouble).t());
  auto inner = decomposed(at::mm(r_b, r_a.t()));
  auto total = squared_norm(inner.s);
  auto rank = num_kept(inner.s, rule, total);
  auto found = factors({at::mm(q_b, inner.u), inner.s, at::mm(inner.vt, q_a.t())}, rank);
  found.error = std::sqrt(squared_norm(inner.s.narrow(0, rank, inner.s.size(0) - rank)) / total);
  return found;
}

}  // namespace burnish::convert
