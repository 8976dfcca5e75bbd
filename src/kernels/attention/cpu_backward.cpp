#include <algorithm>

#include "kernels/attention/cpu_head.h"
#include "kernels/cpu_rows.h"

namespace burnish::kernels {

namespace {

using Bf16 = c10::BFloat16;

/// Queries, or gradients of their results, as right factors both ways.
struct BothWays {
  uint32_t *columns, *rows;
};

/// A tile of keys by queries as it is computed, and rounded for the products behind it.
struct RoundedTile {
  float* values;
  Bf16* rounded;
};

/// The numbers of all queries of a head: what their weights are computed by, and how much their weights change them together.
struct QueryNumbers {
  float *logs, *delta;
};

struct GradientSums {
  float *dq, *dk, *dv;  ///< dq [tiles of queries][D, queries], dk and dv of a tile of keys
};

struct BackwardMemory {
  BothWays queries, changes;
  RoundedTile weights, gradients;
  uint32_t *gradient_pairs, *pairs;
  Bf16* keys;
  GradientSums sums;
  QueryNumbers of_queries;
  float* row;

  BackwardMemory(Pieces& from, const HeadShape& s)
      : queries{from.take<uint32_t>(s.D / 2 * s.queries), from.take<uint32_t>(s.D / 2 * s.queries)},
        changes{from.take<uint32_t>(s.D / 2 * s.queries), from.take<uint32_t>(s.D / 2 * s.queries)},
        weights{from.take<float>(s.keys * s.queries), from.take<Bf16>(s.keys * s.queries)},
        gradients{from.take<float>(s.keys * s.queries), from.take<Bf16>(s.keys * s.queries)},
        gradient_pairs(from.take<uint32_t>(s.keys / 2 * s.queries)),
        pairs(from.take<uint32_t>(s.keys / 2 * s.D)),
        keys(from.take<Bf16>(s.keys * s.D)),
        sums{from.take<float>(s.padded_L() * s.D), from.take<float>(s.keys * s.D), from.take<float>(s.keys * s.D)},
        of_queries{from.take<float>(s.padded_L()), from.take<float>(s.padded_L())},
        row(from.take<float>(std::max(2 * s.D, s.queries))) {}
};

/// Fills what belongs to queries.
void sum_up_queries(const HeadAnswer& a, const HeadShape& s, const BackwardMemory& m, const Head& head) {
  const auto dy = head.rows(a.dy, 0, s.L), y = head.rows(a.y, 0, s.L);
  const auto [logs, delta] = m.of_queries;
  std::fill_n(std::copy_n(a.logs.const_data_ptr<float>() + (head.b * s.H + head.h) * s.L, s.L, logs), s.padded_L() - s.L, kNoWeight);
  std::fill_n(delta, s.padded_L(), 0.0f);
  for (int64_t i = 0; i < s.L; ++i) {
    const float* change = as_fp32(dy.first + i * dy.stride, m.row, s.D);
    delta[i] = dot(change, as_fp32(y.first + i * y.stride, m.row + s.D, s.D), s.D);
  }
}

/// Makes weights of scores, and of products with values the gradient of scores but for `scale`.
void differentiate(const BackwardMemory& m, int64_t n, float scale, const KeyBias& bias, int64_t first, int64_t first_key, int64_t keys) {
  for (int64_t r = 0; r < keys; ++r) {
    float *weights = m.weights.values + r * n, *gradients = m.gradients.values + r * n;
    exponentials(weights, scale, bias.of(first_key + r), m.of_queries.logs + first, n);
    softmax_gradient(weights, m.of_queries.delta + first, gradients, n);
    store_row(weights, m.weights.rounded + r * n, n);
    store_row(gradients, m.gradients.rounded + r * n, n);
  }
  pair_rows({m.gradients.rounded, n, keys, n}, keys + keys % 2, m.gradient_pairs);
}

/// What a tile of keys and values gets from all queries of a head, and what it gives them.
void backward_tile(const HeadOperands& x, const at::Tensor& dy, const HeadShape& s, const BackwardMemory& m, const Head& head,
                   int64_t key) {
  const int64_t n = s.queries, keys = std::min(s.keys, s.S - key), even = keys + keys % 2;
  const auto k = head.rows(x.k, key, keys), v = head.rows(x.v, key, keys);
  const KeyBias bias(x.bias, head);
  transpose(k, m.pairs, m.keys);
  for (int64_t first = 0; first < s.L; first += n) {
    const auto q = head.rows(x.q, first, std::min(n, s.L - first)), change = head.rows(dy, first, q.rows);
    pair_columns(q, n, m.queries.columns);
    multiply_keys(k, m.queries.columns, n, m.weights.values);
    pair_columns(change, n, m.changes.columns);
    multiply_keys(v, m.changes.columns, n, m.gradients.values);
    differentiate(m, n, x.scale, bias, first, key, keys);
    pair_rows(change, n, m.changes.rows);
    multiply_paired({m.weights.rounded, n, keys, n}, m.changes.rows, s.D, first > 0, m.sums.dv);
    pair_rows(q, n, m.queries.rows);
    multiply_paired({m.gradients.rounded, n, keys, n}, m.queries.rows, s.D, first > 0, m.sums.dk);
    multiply_paired({m.keys, even, s.D, even}, m.gradient_pairs, n, key > 0, m.sums.dq + first * s.D);
  }
}

void backward_head(const HeadOperands& x, const HeadAnswer& a, const HeadShape& s, const BackwardMemory& m, const Head& head,
                   const HeadGradients& to) {
  sum_up_queries(a, s, m, head);
  std::fill_n(m.row, std::max(s.D, s.queries), x.scale);
  for (int64_t key = 0; key < s.S; key += s.keys) {
    backward_tile(x, a.dy, s, m, head, key);
    for (int64_t r = 0; r < std::min(s.keys, s.S - key); ++r) {
      multiply_values(m.row, m.sums.dk + r * s.D, s.D);
      store_row(m.sums.dk + r * s.D, head.row(to.dk, key + r), s.D);
      store_row(m.sums.dv + r * s.D, head.row(to.dv, key + r), s.D);
    }
  }
  for (int64_t first = 0; first < s.L; first += s.queries) {
    const Bf16Size size{to.dq.stride(2), std::min(s.queries, s.L - first), s.D};
    store_transposed(m.sums.dq + first * s.D, s.queries, m.row, head.row(to.dq, first), size);
  }
}

}  // namespace

void attention_backward(const HeadOperands& x, const HeadAnswer& answer, const HeadGradients& to) {
  const HeadShape s(x.q, x.k);
  Pieces measured(nullptr);
  static_cast<void>(BackwardMemory(measured, s));
  for_tasks(s.B * s.H, measured.taken(), x.q, [&](int64_t head, std::byte* start) {
    Pieces own(start);
    backward_head(x, answer, s, BackwardMemory(own, s), {head / s.H, head % s.H}, to);
  });
}

}  // namespace burnish::kernels
