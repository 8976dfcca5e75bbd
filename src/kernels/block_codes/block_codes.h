#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace burnish::kernels {

/// Numbers as bytes that stand for values of a table, with one scale for each block of a flat tensor: the largest magnitude in it. On the
/// CPU, for float32; what is computed is what at::bucketize and at::index_select give, bit for bit, in a fraction of their time.
class BlockCodes {
 public:
  /// `values`: at most 256, rising, in [-1, 1].
  explicit BlockCodes(const std::vector<float>& values, int64_t block_size);

  /// values[codes] times the scale of the block, [codes.numel()].
  at::Tensor decode(const at::Tensor& codes, const at::Tensor& scales) const;
  /// Writes the codes of the values nearest to exact / scale (of two, the lower), and the scales.
  void encode(const at::Tensor& exact, const at::Tensor& codes, const at::Tensor& scales) const;

 private:
  std::vector<float> values_, borders_;  ///< borders: the halves between values, then infinity
  std::vector<int32_t> first_;           ///< the code of the least number that begins with these upper bits, by those bits
  int64_t num_steps_ = 0;                ///< steps from there to the code of the greatest, at most
  int64_t block_size_;
};

}  // namespace burnish::kernels
