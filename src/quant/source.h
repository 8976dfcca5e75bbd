#pragma once
#include "nn/weight_source.h"
#include "quant/quantized_weight.h"

namespace burnish::quant {

/// A weight held as codes. Products unpack one tile of rows at a time, forward and for the input's gradient; autograd keeps this
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
  at::Tensor leaf_;
};

/// A weight in codes that multiplies FP8 by FP8 numbers: every row of x is quantized to E4M3 with a scale of its own, codes are multiplied
/// with fp32 sums, and both scales are multiplied in after. For the input's gradient the weight's row scales go into dy before its rows are
/// quantized, so that one set of codes serves both ways. On GPUs with FP8 products `_scaled_mm` does this; elsewhere the numbers are
/// multiplied in fp32.
class Fp8ComputeSource : public QuantizedSource {
 public:
  /// The weight is E4M3 with one scale, a scale a row, or none, and its layer's product a matrix product.
  explicit Fp8ComputeSource(QuantizedWeight weight);
  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const override;
  bool adds(const kernels::Product&, const at::Tensor&) const override { return false; }

 private:
  at::Tensor multiply_rows(const at::Tensor& x_NI, const at::Tensor& bias) const;
  at::Tensor multiply_transposed(const at::Tensor& dy_NO) const;
  at::Tensor row_scales() const;
};

}  // namespace burnish::quant
