#pragma once
#include <ATen/core/Tensor.h>

#include <limits>

#include "kernels/attention/cpu_tiles.h"
#include "kernels/bf16_pairs.h"
#include "kernels/cpu_tasks.h"

// Inside of attention on CPUs: what is computed of a head, by tiles of queries and keys.
//
// Tiles are computed transposed, keys by queries. What belongs to a query (its largest score, its sum) lies along vectors then, keys and
// values are left factors as they lie in memory, and a softmax leaves weights as a right factor. Letters: B samples, H heads, L queries,
// S keys, D numbers of a head.
namespace burnish::kernels {

/// Most queries and keys of a tile: a tile's scores, weights and sums are in the second cache together.
constexpr int64_t kTile = 256;

/// The logarithm of a sum that makes weights 0: of queries that see no key, and of places behind the last query.
constexpr float kNoWeight = std::numeric_limits<float>::max();

struct HeadShape {
  int64_t B, H, L, S, D;
  int64_t queries;  ///< of a tile: multiples of 16, so that all but the last are alike
  int64_t keys;     ///< of a tile, even

  HeadShape(const at::Tensor& q, const at::Tensor& k);
  int64_t num_tiles() const { return (L + queries - 1) / queries; }  ///< of queries
  int64_t padded_L() const { return num_tiles() * queries; }
};

struct HeadOperands {
  const at::Tensor &q, &k, &v;  ///< [B, H, L or S, D]
  const at::Tensor& bias;       ///< undefined, or [B, H, 1, S] in fp32
  float scale;
};

/// Holds what forward made of the operands, [B, H, L, D] and a logarithm of its sum a query [B, H, L], and the gradient of it.
struct HeadAnswer {
  const at::Tensor &y, &logs, &dy;
};

struct HeadGradients {
  const at::Tensor &dq, &dk, &dv;
};

/// A head of a sample.
struct Head {
  int64_t b, h;
  /// The rows of x [B, H, N, D] from `first` on.
  Bf16Rows rows(const at::Tensor& x, int64_t first, int64_t count) const;
  c10::BFloat16* row(const at::Tensor& x, int64_t number) const;
};

/// Holds what is added to all scores of a key.
class KeyBias {
 public:
  KeyBias(const at::Tensor& bias, const Head& head);
  float of(int64_t key) const { return first_ == nullptr ? 0.0f : first_[key * stride_]; }

 private:
  const float* first_ = nullptr;
  int64_t stride_ = 0;
};

/// Computes all heads: y, and logs for backward.
void attention_forward(const HeadOperands& x, const at::Tensor& y, const at::Tensor& logs);

/// Computes the gradients of all operands, head by head, since what queries get is summed over tiles of keys.
void attention_backward(const HeadOperands& x, const HeadAnswer& answer, const HeadGradients& to);

/// scores [keys, queries] = K Qᵀ, of queries whose columns are paired.
void multiply_keys(const Bf16Rows& keys, const uint32_t* queries, int64_t num_queries, float* scores);

}  // namespace burnish::kernels
