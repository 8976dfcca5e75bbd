#pragma once
#include <functional>

#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/unpack/unpack.h"
#include "nn/weight_source.h"
#include "quant/quantized_weight.h"

namespace burnish::quant {

/// Tells whether x is vectors of time or pooled text, in whose products codes gain nothing and lose what no other token has.
bool has_few_rows(const at::Tensor& x);

/// The same numbers as rows; a view of what is contiguous.
at::Tensor rows_of(const at::Tensor& x);

/// A weight held as codes. Products unpack one tile at a time, forward and for the input's gradient; autograd keeps this
/// object, and the input where the weight trains, so no unpacked copy outlives its tile.
class QuantizedSource : public nn::WeightSource, public std::enable_shared_from_this<QuantizedSource> {
 public:
  explicit QuantizedSource(QuantizedWeight weight) : weight_(std::move(weight)) {}
  int64_t in_features() const override { return weight_.in; }
  int64_t out_features() const override { return weight_.out; }
  c10::Device device() const override { return weight_.codes.device(); }
  int64_t num_bytes() const override { return weight_.num_bytes(); }
  std::vector<at::Tensor> tensors() const override { return {weight_.codes, weight_.scales}; }
  at::Tensor multiply(const kernels::ProductPtr& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor rows_in(c10::ScalarType dtype, int64_t begin, int64_t end) const override {
    return dequantize_rows(weight_, begin, end, dtype);
  }
  const QuantizedWeight& weight() const { return weight_; }
  at::Tensor gradient_leaf() const override { return leaf_; }
  /// The weight trains (quant/trained_codes.h): its gradient has this shape and dtype.
  void train(at::IntArrayRef sizes, c10::ScalarType gradient_dtype);

  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const override;
  bool adds(const kernels::Product& product, const at::Tensor& operand) const override;
  void add_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& x) const override;
  void add_input_gradient_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& dy) const override;

 protected:
  QuantizedWeight weight_;

 private:
  /// The weight as kernels read it, where its product is one of matrices and rows like these are multiplied tile by tile.
  std::optional<kernels::CodedMatrix> in_tiles(const kernels::Product& product, const at::Tensor& x) const;
  /// The product of an x of few rows (kernels/unpack/few_rows.h).
  at::Tensor forward_few(const at::Tensor& x, const at::Tensor& bias) const;
  /// Rows of W that are unpacked at once for a product with so many inputs: as nn::tile_rows says, or as many numbers as there are inputs.
  /// Every tile costs a pass over the inputs' gradient.
  int64_t rows_of_tile(int64_t num_inputs) const;
  void for_each_tile(int64_t num_inputs, const std::function<void(int64_t begin, int64_t end)>& fn) const;
  at::Tensor leaf_;
};

/// A weight in codes that multiplies codes by codes: every row of x is quantized with a scale of its own, codes are multiplied, and both
/// scales are multiplied in after. For the input's gradient the weight's row scales go into dy before its rows are quantized, so that one
/// set of codes serves both ways. Where codes are of rotated rows, rows of x are rotated before they are quantized, and the input's
/// gradient is rotated back. Where the hardware has no such products the same numbers are multiplied in fp32.
class ComputeSource : public QuantizedSource {
 public:
  /// The weight is of codes that are multiplied as this kind (e4m3 or int8, which rotated INT8 is too) with one scale, a scale a row, or
  /// none, and its layer's product a matrix product. Anything else is a std::logic_error; `can_compute` tells.
  ComputeSource(QuantizedWeight weight, CodeKind kind);
  static bool can_compute(Format format, CodeKind kind);

 protected:
  /// Computes the products in fp32.
  at::Tensor multiply_in_fp32(const kernels::CodedRows& x, const at::Tensor& bias, c10::ScalarType dtype) const;
  at::Tensor multiply_transposed_in_fp32(const kernels::CodedRows& dy, c10::ScalarType dtype) const;
  kernels::CodedRows rows_of_x(const at::Tensor& x) const;
  kernels::CodedRows rows_of_dy(const at::Tensor& dy) const;
  at::Tensor scales_1O() const { return weight_.scales.expand({weight_.out, 1}).t(); }

 private:
  CodeKind kind_;
};

/// One of E4M3. On GPUs with FP8 products `_scaled_mm` multiplies, with fp32 sums.
class Fp8ComputeSource : public ComputeSource {
 public:
  explicit Fp8ComputeSource(QuantizedWeight weight) : ComputeSource(std::move(weight), CodeKind::e4m3) {}
  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const override;
  bool adds(const kernels::Product&, const at::Tensor&) const override { return false; }
};

/// One of INT8, whose sums are exact. They are multiplied with the scales, and added to what is there, tile by tile while a tile is in the
/// cache. An x of few rows, such as vectors of time, is multiplied as it is with the unpacked weight.
class Int8ComputeSource : public ComputeSource {
 public:
  explicit Int8ComputeSource(QuantizedWeight weight) : ComputeSource(std::move(weight), CodeKind::int8) {}
  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const override;
  bool adds(const kernels::Product& product, const at::Tensor& operand) const override;
  void add_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& x) const override;
  void add_input_gradient_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& dy) const override;

 private:
  /// Tells whether the device multiplies this weight's codes.
  bool is_fast() const;
  /// y = x Wᵀ + bias, and dx = dy W, or with `adds` that much more.
  void multiply_(const at::Tensor& y, const kernels::CodedRows& x, const at::Tensor& bias, bool adds) const;
  void multiply_transposed_(const at::Tensor& dx, const kernels::CodedRows& dy, bool adds) const;
};

/// A weight in MXFP8 or NVFP4 as files have it, multiplied by rows of x in the same format. The input's gradient sums over outputs, along
/// which such a weight has no scales, so it is a product with unpacked tiles. An x of few rows is multiplied as it is. On a CPU the same
/// numbers are multiplied in fp32.
class BlockComputeSource : public QuantizedSource {
 public:
  /// The weight is one that `can_compute` accepts.
  explicit BlockComputeSource(QuantizedWeight weight);
  /// Tells whether a weight is multiplied so on its device: its scales are whole bytes of the format, with one that all have in common, and
  /// its sides multiples of 32. A GPU without such products multiplies unpacked tiles.
  static bool can_compute(const QuantizedWeight& weight);
  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override;
  bool adds(const kernels::Product&, const at::Tensor&) const override { return false; }

 private:
  kernels::CodedBlocks coded() const;
  at::Tensor whole_;  ///< of NVFP4: fp32 [], which the scales' bytes are multiplied by
};

}  // namespace burnish::quant
