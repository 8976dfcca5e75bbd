#include "adapters/adapter.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include "base/random_key.h"
#include "kernels/channel_gain/channel_gain.h"

namespace burnish::adapters {

namespace {

constexpr double kSmallestNorm = 1e-20;  // of a row of zeros, whose magnitude is 0 too

uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0;
  for (char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

Adapter::Adapter(std::string path, std::shared_ptr<Update> update, Magnitude magnitude, std::shared_ptr<const Dropout> dropout)
    : path_(std::move(path)), update_(std::move(update)), magnitude_(std::move(magnitude)), dropout_(std::move(dropout)) {}

Parameters Adapter::parameters() const {
  auto all = update_->parameters();
  if (is_dora()) all.emplace_back("lora_magnitude_vector", magnitude_.m);
  return all;
}

at::Tensor Adapter::dropped(const at::Tensor& x) const {
  if (!dropout_ || !dropout_->active || dropout_->probability <= 0) return x;
  auto generator = at::globalContext().defaultGenerator(x.device()).clone();
  generator.set_current_seed(RandomKey{dropout_->seed, dropout_->draw, hash_of(path_), Purpose::dropout}.value());
  auto mask = at::empty_like(x, x.options().requires_grad(false)).bernoulli_(1 - dropout_->probability, generator);
  return x * mask.mul_(1 / (1 - dropout_->probability));
}

at::Tensor Adapter::gain(const nn::WeightSource& base) {
  uint64_t version = 1;
  for (const auto& [name, parameter] : update_->parameters()) version += static_cast<uint64_t>(parameter._version());
  if (!norms_.defined() || version != norms_version_) {
    if (!frozen_squared_.defined()) frozen_squared_ = squared_norms(base, magnitude_.axis);
    norms_ = update_->squared_norms(base, frozen_squared_, magnitude_.axis).clamp_min_(kSmallestNorm * kSmallestNorm).sqrt_();
    norms_version_ = version;
  }
  return magnitude_.m / norms_;
}

/// x V'ᵀ + bias, where V' is V with its norms set to m.
at::Tensor Adapter::scaled_product(const nn::Linear& base, const at::Tensor& x, const at::Tensor& bias) {
  auto gain = this->gain(base.source());
  if (magnitude_.axis == NormAxis::input) return update_->add_to(base.source().multiply(kernels::input_gain(x, gain), bias), x, gain);
  return kernels::channel_gain(update_->add_to(base.source().multiply(x, bias), x, {}), gain, bias);
}

at::Tensor Adapter::forward(const nn::Linear& base, const at::Tensor& x) {
  auto seen = dropped(x);
  if (!is_dora()) return update_->add_to(base.base(x), seen, {});
  if (seen.is_same(x)) return scaled_product(base, x, base.bias);
  return base.base(x) + (scaled_product(base, seen, {}) - base.source().multiply(seen, {}));
}

void merge_into(nn::Linear& linear, Adapter& adapter, double strength) {
  at::NoGradGuard no_grad;
  auto& source = linear.source();
  at::Tensor gain;
  if (adapter.is_dora()) {
    gain = adapter.gain(source);
    if (adapter.magnitude().axis == NormAxis::output) gain = gain.unsqueeze(1);
  }
  source.rewrite([&](int64_t begin, int64_t end) {
    auto old = source.rows(begin, end);
    auto fresh = old + adapter.update().rows(begin, end);
    if (gain.defined()) fresh.mul_(gain.size(0) == 1 || gain.dim() == 1 ? gain : gain.narrow(0, begin, end - begin));
    return strength == 1 ? fresh : old + (fresh - old) * strength;
  });
}

}  // namespace burnish::adapters
