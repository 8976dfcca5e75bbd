#pragma once
#include "adapters/update.h"
#include "nn/linear.h"

namespace burnish::adapters {

/// Dropout on what an update sees, shared by all adapters of a run. Its masks come from (seed, draw, layer), so a block that is recomputed
/// in backward, and a resumed run, drop the same numbers.
struct Dropout {
  double probability = 0;
  uint64_t seed = 0;
  uint64_t draw = 0;    ///< of the batch
  bool active = false;  ///< in training steps only
};

/// What a strength s other than 1 makes of a DoRA, whose weight at strength 1 is W' = (W + ΔW) ∘ g with g = m / n (see Adapter).
enum class DoraStrength {
  update,   ///< W + s ΔW brought to length m: peft, diffusers
  lengths,  ///< (W + ΔW) ∘ (1 + s (g - 1)): LyCORIS
  whole,    ///< W + s (W' - W): ComfyUI
};

/// A DoRA magnitude (Liu et al. 2024, arXiv 2402.09353): the weight is (W + ΔW) with every row or column brought to length m.
struct Magnitude {
  at::Tensor m;  ///< fp32, one for each output or input channel
  NormAxis axis = NormAxis::output;
  DoraStrength strength = DoraStrength::update;  ///< where it is merged
};

/// An update hung on a linear layer or a convolution, with or without a magnitude. With V = W + ΔW and n the norms of V, which carry no
/// gradient (section 4.3 of the paper):
///   no magnitude   y = x Wᵀ + x ΔWᵀ + b
///   output axis    y = (x Vᵀ) ∘ (m / n) + b
///   input axis     y = (x ∘ (m / n)) Vᵀ + b
/// Dropout acts on the update's x; under a magnitude the base's product keeps the undropped x, as in peft.
class Adapter : public nn::Delta {
 public:
  Adapter(std::string path, std::shared_ptr<Update> update, Magnitude magnitude = {}, std::shared_ptr<const Dropout> dropout = nullptr);
  at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x) override;

  const std::string& path() const { return path_; }
  const Update& update() const { return *update_; }
  std::shared_ptr<const Change> change() const { return update_; }
  bool is_dora() const { return magnitude_.m.defined(); }
  const Magnitude& magnitude() const { return magnitude_; }
  /// The update's and the magnitude ("lora_magnitude_vector").
  Parameters parameters() const;
  /// Computes what of n never changes: it passes through W, which takes memory that a step should not need.
  void prepare(const nn::LinearMap& base);
  /// Computes that again.
  void weight_changed(const nn::LinearMap& base) override;
  /// m / n of every output or input channel, with a gradient for m. Products with W are in `dtype`, fp32 or what the layer computes in.
  at::Tensor gain(const nn::LinearMap& base, c10::ScalarType dtype);

 private:
  at::Tensor dropped(const at::Tensor& x) const;
  at::Tensor scaled_product(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& bias);

  std::string path_;
  std::shared_ptr<Update> update_;
  const AddedUpdate* added_ = nullptr;  ///< the update, under a magnitude
  Magnitude magnitude_;
  std::shared_ptr<const Dropout> dropout_;
  at::Tensor frozen_squared_;  ///< ‖W‖², once for each W
  at::Tensor norms_;           ///< of V, for as long as the update's parameters keep their version
  uint64_t norms_version_ = 0;
};

/// Squared norms of W's rows or columns as those of its channels.
at::Tensor by_channel(const at::Tensor& squared_norms, const nn::LinearMap& layer, NormAxis axis);

/// A change at a strength. Only DoRA whose DoraStrength is not `update` has one other than 1: elsewhere it is a factor of the change's
/// scale.
struct Strong {
  Strong(const std::shared_ptr<Adapter>& adapter, double strength = 1);
  explicit Strong(std::shared_ptr<const Change> what) : change(std::move(what)) {}
  std::shared_ptr<const Change> change;
  double strength = 1;
  std::shared_ptr<Adapter> dora = nullptr;  ///< that has the magnitude; null without one
};

/// Brings changes into a weight, which is a parameter, one after the other: in place, and by tiles but for those that need all of W. Each
/// knows the weight as it was before all of them; norms are its norms. What a change makes of it is added, but for DoraStrength::update,
/// which as in peft brings all that was merged before to its lengths too. So the order counts with these alone.
void merge_into(nn::LinearMap& layer, const std::vector<Strong>& adapters);

}  // namespace burnish::adapters
