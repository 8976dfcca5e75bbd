#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/cpu_head.h"
#include "kernels/cpu_rows.h"

namespace burnish::kernels {

namespace {

using Bf16 = c10::BFloat16;

/// Of the queries of a tile, over the keys so far.
struct SoftmaxSoFar {
  float *most, *total, *change;
};

struct ForwardMemory {
  uint32_t *queries, *weights, *pairs;
  Bf16* values;
  float *scores, *sums, *zeros;
  SoftmaxSoFar softmax;

  ForwardMemory(Pieces& from, const HeadShape& s)
      : queries(from.take<uint32_t>(s.D / 2 * s.queries)),
        weights(from.take<uint32_t>(s.keys / 2 * s.queries)),
        pairs(from.take<uint32_t>(s.keys / 2 * s.D)),
        values(from.take<Bf16>(s.keys * s.D)),
        scores(from.take<float>(s.keys * s.queries)),
        sums(from.take<float>(s.D * s.queries)),
        zeros(from.take<float>(s.queries)),
        softmax{from.take<float>(s.queries), from.take<float>(s.queries), from.take<float>(s.queries)} {}
};

/// Turns scores of a tile into weights, and brings what the tiles before it left to the scale of the largest scores of now.
void soften(const ForwardMemory& m, const HeadShape& s, float scale, const KeyBias& bias, int64_t first_key, int64_t keys) {
  const int64_t n = s.queries;
  const auto [most, total, change] = m.softmax;
  std::copy_n(most, n, change);
  for (int64_t r = 0; r < keys; ++r) raise_to(m.scores + r * n, scale, bias.of(first_key + r), most, n);
  exponentials(change, 1, 0, most, n);
  multiply_values(change, total, n);
  for (int64_t d = 0; d < s.D && first_key > 0; ++d) multiply_values(change, m.sums + d * n, n);
  for (int64_t r = 0; r < keys; ++r) {
    exponentials(m.scores + r * n, scale, bias.of(first_key + r), most, n);
    add_values(m.scores + r * n, total, n);
    if (r % 2 != 0) pair_values(m.scores + (r - 1) * n, m.scores + r * n, m.weights + r / 2 * n, n);
  }
  if (keys % 2 != 0) pair_values(m.scores + (keys - 1) * n, m.zeros, m.weights + keys / 2 * n, n);
}

/// Turns sums of weights into what they are divided by, and into what backward computes weights by.
void finish_softmax(const SoftmaxSoFar& softmax, int64_t queries, float* logs) {
  for (int64_t i = 0; i < queries; ++i) {
    const float total = softmax.total[i];
    const bool any = total != 0;  // else all keys are masked, and the result is 0
    logs[i] = any ? softmax.most[i] + std::log(total) : kNoWeight;
    softmax.total[i] = any ? 1.0f / total : 0.0f;
  }
}

void forward_tile(const HeadOperands& x, const HeadShape& s, const ForwardMemory& m, const Head& head, int64_t first, const at::Tensor& y,
                  float* logs) {
  const int64_t n = s.queries, queries = std::min(n, s.L - first);
  pair_columns(head.rows(x.q, first, queries), n, m.queries);
  std::fill_n(m.softmax.most, n, std::numeric_limits<float>::lowest());
  std::fill_n(m.softmax.total, n, 0.0f);
  std::fill_n(m.zeros, n, 0.0f);
  const KeyBias bias(x.bias, head);
  for (int64_t key = 0; key < s.S; key += s.keys) {
    const int64_t keys = std::min(s.keys, s.S - key), even = keys + keys % 2;
    multiply_keys(head.rows(x.k, key, keys), m.queries, n, m.scores);
    soften(m, s, x.scale, bias, key, keys);
    transpose(head.rows(x.v, key, keys), m.pairs, m.values);
    multiply_paired({m.values, even, s.D, even}, m.weights, n, key > 0, m.sums);
  }
  finish_softmax(m.softmax, queries, logs);
  store_transposed(m.sums, n, m.softmax.total, head.row(y, first), {y.stride(2), queries, s.D});
}

}  // namespace

void attention_forward(const HeadOperands& x, const at::Tensor& y, const at::Tensor& logs) {
  const HeadShape s(x.q, x.k);
  Pieces measured(nullptr);
  static_cast<void>(ForwardMemory(measured, s));
  for_tasks(s.B * s.H * s.num_tiles(), measured.taken(), x.q, [&](int64_t task, std::byte* start) {
    Pieces own(start);
    const int64_t head = task / s.num_tiles(), first = task % s.num_tiles() * s.queries;
    forward_tile(x, s, ForwardMemory(own, s), {head / s.H, head % s.H}, first, y, logs.mutable_data_ptr<float>() + head * s.L + first);
  });
}

}  // namespace burnish::kernels
