#pragma once
#include <functional>

#include "adapters/update.h"
#include "nn/linear.h"

namespace burnish::adapters {

/// Dropout on what an update sees, shared by all adapters of a run. Its masks come from (seed, draw, layer), so a block that is recomputed
/// in backward, and a resumed run, drop the same numbers.
struct Dropout {
  double probability = 0;
  uint64_t seed = 0;
  uint64_t draw = 0;    ///< number of the batch
  uint64_t first = 0;   ///< number of the batch's first sample, which is first in an input's rows
  bool active = false;  ///< true in training steps only
};

/// The effect of a strength s other than 1 on a DoRA, whose weight at strength 1 is W' = (W + ΔW) ∘ g with g = m / n (see Adapter).
enum class DoraStrength {
  update,   ///< W + s ΔW brought to length m: peft, diffusers
  lengths,  ///< (W + ΔW) ∘ (1 + s (g - 1)): LyCORIS
  whole,    ///< W + s (W' - W): ComfyUI
};

/// A DoRA magnitude (Liu et al. 2024, arXiv 2402.09353): the weight is (W + ΔW) with every row or column brought to length m.
struct Magnitude {
  at::Tensor m;  ///< fp32, one for each output or input channel; of a fused layer, where the update's parameters are one's
  NormAxis axis = NormAxis::output;
  DoraStrength strength = DoraStrength::update;  ///< how strength works where the magnitude is merged
};

/// Norms of V = W + ΔW over rows or columns, kept for as long as neither changes. Over the inputs of a fused layer they are those of all
/// its layers together.
class Norms {
 public:
  struct NormedLayer {
    const nn::LinearMap* layer;
    std::shared_ptr<const AddedUpdate> update;
  };
  Norms(std::vector<NormedLayer> parts, NormAxis axis) : parts_(std::move(parts)), axis_(axis) {}

  /// Computes what of them never changes: it passes through W, which takes memory that a step should not need.
  void prepare();
  /// Computes again what `prepare` does, for a weight that has changed.
  void weight_changed();
  /// Returns the norms by output or input channel, fp32 and without a gradient. Products with W are in `dtype`.
  const at::Tensor& get(c10::ScalarType dtype);

 private:
  at::Tensor by_channel(const std::function<at::Tensor(size_t part)>& squared) const;

  std::vector<NormedLayer> parts_;
  NormAxis axis_;
  std::vector<at::Tensor> frozen_squared_;  ///< ‖W‖² of each part, once for each W
  at::Tensor norms_;                        ///< norms of V, for as long as the updates' parameters keep their version
  uint64_t version_ = 0;
};

/// An update hung on a linear layer or a convolution, with or without a magnitude. With V = W + ΔW and n the norms of V, which carry no
/// gradient (section 4.3 of the paper):
///   no magnitude   y = x Wᵀ + x ΔWᵀ + b
///   output axis    y = (x Vᵀ) ∘ (m / n) + b
///   input axis     y = (x ∘ (m / n)) Vᵀ + b
/// At a strength s (Update::strength_now) ΔW is s times as large; a magnitude has none but 0 and 1.
/// Dropout acts on the update's x; under a magnitude the base's product keeps the undropped x, as in peft.
class Adapter : public nn::Delta {
 public:
  Adapter(std::string path, std::shared_ptr<Update> update, Magnitude magnitude = {}, std::shared_ptr<const Dropout> dropout = nullptr);
  at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x) override;
  std::optional<kernels::FrozenLayer> as_frozen_layer(const nn::LinearMap& base) override;
  at::Tensor after_product(const nn::LinearMap& base, const at::Tensor& y) override;

  const std::string& path() const { return path_; }
  const Update& update() const { return *update_; }
  const std::shared_ptr<Update>& shared_update() const { return update_; }
  /// The update under a magnitude; null without one.
  const std::shared_ptr<const AddedUpdate>& added_update() const { return added_; }
  bool is_dora() const { return magnitude_.m.defined(); }
  const Magnitude& magnitude() const { return magnitude_; }
  /// Lists the update's parameters and the magnitude ("lora_magnitude_vector").
  Parameters parameters() const;
  /// Takes n from `norms`, which it shares with others. Without it n is that of the layer alone.
  void share_norms(std::shared_ptr<Norms> norms) { norms_ = std::move(norms); }
  /// Calls Norms::prepare and weight_changed of n.
  void prepare(const nn::LinearMap& base);
  void weight_changed(const nn::LinearMap& base) override;
  /// m / n of every output or input channel, with a gradient for m. Products with W are in `dtype`, fp32 or what the layer computes in.
  at::Tensor gain(const nn::LinearMap& base, c10::ScalarType dtype);

 private:
  bool is_off() const;
  bool drops() const { return dropout_ && dropout_->active && dropout_->probability > 0; }
  at::Tensor dropped(const at::Tensor& x) const;
  /// The gain for products of such values.
  at::Tensor gain_for(const nn::LinearMap& base, const at::Tensor& values);
  at::Tensor scaled_product(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& bias);
  Norms& norms(const nn::LinearMap& base);

  std::string path_;
  std::shared_ptr<Update> update_;
  std::shared_ptr<const AddedUpdate> added_ = nullptr;  ///< the update, under a magnitude
  Magnitude magnitude_;
  std::shared_ptr<const Dropout> dropout_;
  std::shared_ptr<Norms> norms_;
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
  std::shared_ptr<Adapter> dora = nullptr;  ///< the adapter that has the magnitude; null without one
};

/// Brings changes into a weight, which is a parameter, one after the other: in place, and by tiles but for those that need all of W. Each
/// knows the weight as it was before all of them; norms are its norms. What a change makes of it is added, but for DoraStrength::update,
/// which as in peft brings all that was merged before to its lengths too. So the order counts with these alone.
void merge_into(nn::LinearMap& layer, const std::vector<Strong>& adapters);

}  // namespace burnish::adapters
