#include "adapters/adapter.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <stdexcept>

#include "base/random_key.h"
#include "kernels/channel_gain/channel_gain.h"
#include "kernels/linear/linear.h"

namespace burnish::adapters {

namespace {

constexpr double kSmallestNorm = 1e-20;  // of a row of zeros, whose magnitude is 0 too

}  // namespace

Adapter::Adapter(std::string path, std::shared_ptr<Update> update, Magnitude magnitude, std::shared_ptr<const Dropout> dropout)
    : path_(std::move(path)), update_(std::move(update)), magnitude_(std::move(magnitude)), dropout_(std::move(dropout)) {
  if (is_dora()) added_ = std::dynamic_pointer_cast<const AddedUpdate>(update_);
  if (is_dora() && added_ == nullptr) throw std::logic_error("a magnitude over a change that is not added");
}

Parameters Adapter::parameters() const {
  auto all = update_->parameters();
  if (is_dora()) all.emplace_back("lora_magnitude_vector", magnitude_.m);
  return all;
}

bool Adapter::is_off() const {
  const auto strength = update_->strength_now();
  if (is_dora() && strength != 0 && strength != 1) throw std::logic_error("a magnitude at another strength than 0 and 1");
  return strength == 0;
}

at::Tensor Adapter::dropped(const at::Tensor& x) const {
  if (!drops()) return x;
  auto mask = at::empty_like(x, x.options().requires_grad(false));
  if (!x.is_meta()) {  // a sample is dropped alike however its batch is shared out
    auto generator = at::globalContext().defaultGenerator(x.device()).clone();
    for (int64_t row = 0; row < x.size(0); ++row) {
      auto sample = mix64(mix64(path_) ^ (dropout_->first + static_cast<uint64_t>(row)));
      generator.set_current_seed(RandomKey{dropout_->seed, dropout_->draw, sample, Purpose::dropout}.value());
      mask.select(0, row).bernoulli_(1 - dropout_->probability, generator);
    }
  }
  return x * mask.mul_(1 / (1 - dropout_->probability));
}

at::Tensor Norms::by_channel(const std::function<at::Tensor(size_t)>& squared) const {
  at::Tensor sum;
  for (size_t i = 0; i < parts_.size(); ++i) {
    auto part = adapters::by_channel(squared(i), *parts_[i].layer, axis_);
    sum = i == 0 ? part : sum + part;
  }
  return sum;
}

void Norms::prepare() {
  if (!frozen_squared_.empty()) return;
  for (const auto& part : parts_) frozen_squared_.push_back(squared_norms(part.layer->source(), axis_));
  // The tensor stays in one place for good: a block that a step leaves behind would keep a hole in the heap beside it.
  norms_ = at::empty_like(by_channel([&](size_t i) { return frozen_squared_[i]; }));
}

void Norms::weight_changed() {
  for (size_t i = 0; i < frozen_squared_.size(); ++i) frozen_squared_[i] = squared_norms(parts_[i].layer->source(), axis_);
  version_ = 0;
}

const at::Tensor& Norms::get(c10::ScalarType dtype) {
  uint64_t version = 1;
  for (const auto& [name, parameter] : parts_[0].update->parameters()) version += static_cast<uint64_t>(parameter._version());
  prepare();
  if (version != version_) {
    auto squared =
        by_channel([&](size_t i) { return parts_[i].update->squared_norms(parts_[i].layer->source(), frozen_squared_[i], axis_, dtype); });
    norms_.copy_(squared.clamp_min_(kSmallestNorm * kSmallestNorm).sqrt_());
    version_ = version;
  }
  return norms_;
}

Norms& Adapter::norms(const nn::LinearMap& base) {
  if (!norms_) norms_ = std::make_shared<Norms>(std::vector<Norms::NormedLayer>{{&base, added_}}, magnitude_.axis);
  return *norms_;
}

void Adapter::prepare(const nn::LinearMap& base) {
  if (is_dora()) norms(base).prepare();
}

void Adapter::weight_changed(const nn::LinearMap& base) {
  if (is_dora()) norms(base).weight_changed();
}

at::Tensor Adapter::gain(const nn::LinearMap& base, c10::ScalarType dtype) {
  const auto& rows = update_->fused_rows();
  bool is_part = rows.count > 0 && magnitude_.axis == NormAxis::output;
  return (is_part ? magnitude_.m.narrow(0, rows.begin, rows.count) : magnitude_.m) / norms(base).get(dtype);
}

at::Tensor Adapter::gain_for(const nn::LinearMap& base, const at::Tensor& values) {
  return gain(base, values.scalar_type() == at::kBFloat16 ? kernels::product_dtype(values) : at::kFloat);
}

/// x times V' plus bias, where V' is V with its norms set to m.
at::Tensor Adapter::scaled_product(const nn::LinearMap& base, const at::Tensor& x, const at::Tensor& bias) {
  auto gain = gain_for(base, x);
  const auto& product = base.product();
  auto dim = product->channel_dim();
  if (magnitude_.axis == NormAxis::input) return added_->add_to(base.multiply(kernels::input_gain(x, gain, dim), bias), x, gain, product);
  return kernels::channel_gain_(added_->with_base(base, x, bias), gain, bias, dim);
}

std::optional<kernels::FrozenLayer> Adapter::as_frozen_layer(const nn::LinearMap& base) {
  if (is_off()) {
    auto weight = base.frozen();
    if (!weight) return std::nullopt;
    return kernels::FrozenLayer{.weight = std::move(weight), .bias = base.bias, .a = {}, .b = {}};
  }
  if (drops() || (is_dora() && magnitude_.axis == NormAxis::input)) return std::nullopt;
  return update_->as_frozen_layer(base, base.bias);
}

at::Tensor Adapter::after_product(const nn::LinearMap& base, const at::Tensor& y) {
  if (is_off() || !is_dora()) return y;
  return kernels::channel_gain_(y, gain_for(base, y), base.bias, base.product()->channel_dim());
}

at::Tensor Adapter::forward(const nn::LinearMap& base, const at::Tensor& x) {
  if (is_off()) return base.base(x);
  auto seen = dropped(x);
  if (!is_dora()) return update_->forward(base, x, seen);
  if (seen.is_same(x)) return scaled_product(base, x, base.bias);
  return base.base(x) + (scaled_product(base, seen, {}) - base.multiply(seen, {}));
}

at::Tensor by_channel(const at::Tensor& squared_norms, const nn::LinearMap& layer, NormAxis axis) {
  if (axis == NormAxis::output) return squared_norms;
  return squared_norms.unflatten(0, {layer.in_channels(), -1}).sum(1);
}

namespace {

/// m / n as a factor of W's rows or columns.
at::Tensor gain_of_weight(const nn::LinearMap& layer, Adapter& adapter) {
  auto gain = adapter.gain(layer, at::kFloat);
  bool by_output = adapter.magnitude().axis == NormAxis::output;
  return by_output ? gain.unsqueeze(1) : gain.repeat_interleave(layer.product()->columns_per_channel()).unsqueeze(0);
}

/// Rows `merged` with a change brought in; `plain` are those rows before any, `update` is ΔW and `gain` m / n of them.
at::Tensor with_change(const at::Tensor& merged, const at::Tensor& plain, const at::Tensor& update, const at::Tensor& gain,
                       DoraStrength rule, double strength) {
  if (!gain.defined()) return merged + update;
  switch (rule) {
    case DoraStrength::update: return (merged + update).mul_(gain);
    case DoraStrength::lengths: return merged + ((plain + update).mul_((gain - 1).mul_(strength).add_(1)) - plain);
    case DoraStrength::whole: break;
  }
  return merged + ((plain + update).mul_(gain) - plain).mul_(strength);
}

}  // namespace

Strong::Strong(const std::shared_ptr<Adapter>& adapter, double strength)
    : change(adapter->shared_update()), strength(strength), dora(adapter->is_dora() ? adapter : nullptr) {
  if (dora ? dora->magnitude().strength == DoraStrength::update && strength != 1 : strength != 1)
    throw std::logic_error("a strength that belongs into the scale of the change");
}

void merge_into(nn::LinearMap& layer, const std::vector<Strong>& changes) {
  at::NoGradGuard no_grad;
  auto& source = layer.source();
  std::vector<at::Tensor> gains, wholes;
  for (const auto& strong : changes) {
    gains.push_back(strong.dora ? gain_of_weight(layer, *strong.dora) : at::Tensor());
    wholes.push_back(strong.change->needs_weight() ? strong.change->rows(source, 0, source.out_features()) : at::Tensor());
  }
  nn::for_each_tile(source, [&](int64_t begin, int64_t end) {
    auto plain = source.rows(begin, end), merged = plain;
    for (size_t i = 0; i < changes.size(); ++i) {
      const auto& strong = changes[i];
      auto gain = gains[i].defined() && gains[i].size(0) > 1 ? gains[i].narrow(0, begin, end - begin) : gains[i];
      auto delta = wholes[i].defined() ? wholes[i].narrow(0, begin, end - begin) : strong.change->rows(source, begin, end);
      auto rule = strong.dora ? strong.dora->magnitude().strength : DoraStrength::update;
      merged = with_change(merged, plain, delta, gain, rule, strong.strength);
    }
    layer.weight.narrow(0, begin, end - begin).flatten(1).copy_(merged);
  });
}

}  // namespace burnish::adapters
