#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/linear.h"

namespace burnish::adapters {

enum class Kind { lora, loha, lokr };
std::string_view kind_name(Kind kind);

/// What a DoRA norm is taken over: W's rows (one magnitude an output channel) or its columns (one an input channel; under a convolution
/// those of a whole kernel).
enum class NormAxis { output, input };

using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

/// Rows of a fused layer that are a layer of their own here.
struct RowRange {
  int64_t begin = 0, count = 0;  ///< a count of 0 means all rows
};

/// A trained change ΔW [out, in] of a frozen weight, never formed as a whole. Its parameters are fp32 whatever the base is. Where other
/// programs have one layer and we have several (query, key and value), their updates may have the fused layer's parameters, the same
/// tensors in all of them, and each makes its rows of that ΔW: so they train as the one adapter that they are there.
class Update {
 public:
  explicit Update(double scale, RowRange fused_rows = {}) : scale_(scale), fused_rows_(fused_rows) {}
  virtual ~Update() = default;
  virtual Kind kind() const = 0;
  virtual int64_t rank() const = 0;
  double scale() const { return scale_; }
  /// Which rows of the parameters' ΔW this one is.
  const RowRange& fused_rows() const { return fused_rows_; }

  /// base_out + the product of x ∘ gain with ΔW, with autograd. gain [input channels] fp32 or undefined for 1.
  virtual at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                            const kernels::ProductPtr& product) const = 0;
  /// Rows begin to end of ΔW in fp32, without autograd.
  virtual at::Tensor rows(int64_t begin, int64_t end) const = 0;
  /// ‖W + ΔW‖² of every row or column, fp32 and without autograd; `frozen` is ‖W‖² of them. Products with W may be in `dtype`. Here by
  /// tiles of both, in fp32.
  virtual at::Tensor squared_norms(const nn::WeightSource& base, const at::Tensor& frozen, NormAxis axis, c10::ScalarType dtype) const;
  /// Matrices, by their names in files: lora_A.weight and lora_B.weight, hada_w1_a, ..., lokr_w1, ...
  const Parameters& parameters() const { return parameters_; }

 protected:
  const at::Tensor& parameter(std::string_view name) const;
  bool has(std::string_view name) const;
  /// This update's rows of a factor whose rows are those of the parameters' ΔW.
  at::Tensor own_rows(const at::Tensor& factor) const;
  Parameters parameters_;

 private:
  double scale_;
  RowRange fused_rows_;
};

/// ΔW = scale · B A, A [rank, in], B [out, rank] (Hu et al. 2021, arXiv 2106.09685). Under a convolution ΔW, like W, has a column for each
/// number of a kernel: A is a convolution to `rank` channels, B a 1×1 convolution after it.
/// LoHa: scale · (P1 Q1) ∘ (P2 Q2) (Hyeon-Woo et al. 2021, arXiv 2108.06098).
/// LoKr: scale · W1 ⊗ W2, each whole or as a product of two (Yeh et al. 2023, arXiv 2309.14859).
/// `parameters` bear the names of files; a set that makes no such update is a std::logic_error.
std::unique_ptr<Update> make_update(Kind kind, Parameters parameters, double scale, RowRange fused_rows = {});

/// ‖W‖² of every row or column in fp32, by tiles.
at::Tensor squared_norms(const nn::WeightSource& weight, NormAxis axis);

}  // namespace burnish::adapters
