#pragma once
#include <memory>
#include <optional>
#include <string_view>

#include "adapters/change.h"
#include "kernels/low_rank/low_rank.h"
#include "nn/delta_strength.h"

namespace burnish::adapters {

/// The axis that a DoRA norm is taken over: W's rows (one magnitude an output channel) or its columns (one an input channel; under a
/// convolution the columns of a whole kernel).
enum class NormAxis { output, input };

/// A change that can be trained, never formed as a whole unless its parameters are a whole ΔW. They are fp32 whatever the base is.
class Update : public Change {
 public:
  using Change::Change;

  /// The layer's output with the update, with autograd: x W'ᵀ + bias. The update sees `seen`, which is x or what dropout leaves of it.
  virtual at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& seen) const = 0;
  /// The layer with the update, where that is a LoRA and the layer does not train.
  virtual std::optional<kernels::FrozenLayer> as_frozen_layer(const nn::LinearMap& /*base*/, const at::Tensor& /*bias*/) const {
    return {};
  }
  /// The strength at which the update acts on this thread: that of all deltas, and a factor of its own, which is 1 while it trains.
  double strength_now() const { return factor_ * nn::DeltaStrength::current(); }
  void set_factor(double factor) { factor_ = factor; }

 protected:
  /// The scale at which the update acts on this thread.
  double scale_now() const { return scale() * strength_now(); }

 private:
  double factor_ = 1;
};

/// An update whose ΔW does not depend on W, so that DoRA can bring their sum to a length.
class AddedUpdate : public Update {
 public:
  using Update::Update;
  at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& seen) const override;

  /// Computes x W + bias + the product of x with ΔW, with autograd; `bias` may be undefined.
  at::Tensor with_base(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& bias) const;
  /// Computes base_out + the product of x ∘ gain with ΔW, with autograd. gain [input channels] fp32 or undefined for 1.
  virtual at::Tensor add_to(const at::Tensor& base_out, const at::Tensor& x, const at::Tensor& gain,
                            const kernels::ProductPtr& product) const = 0;
  /// ‖W + ΔW‖² of every row or column, fp32 and without autograd; `frozen` is ‖W‖² of them. Products with W may be in `dtype`. Here by
  /// tiles of both, in fp32.
  virtual at::Tensor squared_norms(const nn::WeightSource& base, const at::Tensor& frozen, NormAxis axis, c10::ScalarType dtype) const;
};

/// ΔW = scale · B A, A [rank, in], B [out, rank] (Hu et al. 2021, arXiv 2106.09685). Under a convolution ΔW, like W, has a column for each
/// number of a kernel: A is a convolution to `rank` channels, B a 1×1 convolution after it.
/// LoHa: scale · (P1 Q1) ∘ (P2 Q2) (Hyeon-Woo et al. 2021, arXiv 2108.06098).
/// LoKr: scale · W1 ⊗ W2, each whole or as a product of two (Yeh et al. 2023, arXiv 2309.14859).
/// Full: scale · diff [out, in].
/// OFT: W' = Rᵀ W with orthogonal blocks R = (I + Q)(I - Q)⁻¹, Q = B - Bᵀ, from oft_blocks [out, b], the blocks B one below the other (Qiu
/// et al. 2023, arXiv 2306.07280, as LyCORIS has it). The layer's output is turned and not its weight: y + y (R - I). `parameters` bear the
/// names of files; a set that makes no such update is a std::logic_error. Null for kinds, or forms of them, that cannot be trained.
std::unique_ptr<Update> make_update(Kind kind, Parameters parameters, double scale, RowRange fused_rows = {});

/// ‖W‖² of every row or column in fp32, by tiles.
at::Tensor squared_norms(const nn::WeightSource& weight, NormAxis axis);

}  // namespace burnish::adapters
