#include "models/families/ltx2/connectors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <stdexcept>

#include "models/families/ltx2/blocks.h"
#include "nn/attention.h"

namespace burnish::models::ltx2 {

namespace {

constexpr double kConnectorEps = 1e-6;
/// States that are projected together: a part of the weight is copied for each such group.
constexpr size_t kStatesAtOnce = 8;

/// {x} -> {x over the root of its mean square}.
nn::Tensors normed_tokens(const nn::Tensors& in) {
  return {at::rms_norm(in[0].to(at::kFloat), {in[0].size(-1)}, {}, kConnectorEps).to(in[0].scalar_type())};
}

/// {tokens [B, N, D], cosines, sines} -> {tokens}: attention and MLP, each behind a norm without weights.
class ConnectorBlock : public nn::Block {
 public:
  ConnectorBlock(const ConnectorSizes& c, bool has_gates, const at::TensorOptions& options)
      : attention_({c.width(), c.width(), c.num_heads, c.head_dim, has_gates}, options),
        feed_forward_({.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = 4 * c.width()}, options) {
    own("attn1", attention_);
    own("ff", feed_forward_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    const Turns turns{in[1], in[2]};
    auto plain = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return nn::attention(q, k, v); };
    const auto projected = nn::recomputed({in[0]}, normed_tokens, [&](const nn::Tensors& x) { return attention_.project(x[0]); });
    const auto mid = in[0] + attention_.attend(projected, plain, turns, turns);
    return {mid + nn::recomputed({mid}, normed_tokens, [&](const nn::Tensors& x) { return nn::Tensors{feed_forward_.forward(x[0])}; })[0]};
  }

 private:
  Attention attention_;
  mmdit::FeedForward feed_forward_;
};

/// A state in fp32, normed over all tokens and numbers of a text by its mean and range (2.0), or by the mean square of each token.
at::Tensor normed_state(const at::Tensor& state_BLC, bool is_shared) {
  const auto x = state_BLC.to(at::kFloat);
  if (!is_shared) return x * at::rsqrt(x.square().mean(-1, true) + kConnectorEps);
  const auto count = static_cast<double>(x.size(1) * x.size(2));
  const auto mean = x.sum({1, 2}, true) / (count + kConnectorEps);
  return (x - mean) / (x.amax({1, 2}, true) - x.amin({1, 2}, true) + kConnectorEps) * 8;
}

}  // namespace

/// The connector of a stream.
class Connectors::Connector : public nn::Module {
 public:
  Connector(const ConnectorsConfig& config, const ConnectorSizes& sizes, const at::TensorOptions& options)
      : places_{.seconds = config.num_places, .theta = config.theta}, registers_(at::empty({sizes.num_registers, sizes.width()}, options)) {
    own("learnable_registers", registers_);
    for (int64_t i = 0; i < sizes.num_blocks; ++i) {
      blocks_.push_back(std::make_unique<ConnectorBlock>(sizes, config.has_gates, options));
      own("transformer_blocks." + std::to_string(i), *blocks_.back());
    }
  }

  at::Tensor forward(const at::Tensor& features_BLD, const at::Tensor& mask_BL, int64_t num_tokens) const {
    const auto more = num_tokens - features_BLD.size(1);
    const auto place_N = at::arange(num_tokens, mask_BL.options().dtype(at::kLong));
    const auto registers_ND = registers_.index_select(0, place_N.remainder(registers_.size(0)));
    const auto is_text_BN1 = at::constant_pad_nd(mask_BL, {0, more}).gt(0).unsqueeze(-1);
    auto x = at::where(is_text_BN1, at::constant_pad_nd(features_BLD, {0, 0, 0, more}), registers_ND.to(features_BLD.scalar_type()));
    const auto turns = turns_of(place_N.view({1, 1, -1}), registers_.size(1), places_);
    for (const auto& block : blocks_) x = block->run({x, turns.cos, turns.sin})[0];
    return normed_tokens({x})[0];
  }

 private:
  PlaceSizes places_;
  at::Tensor registers_;
  std::vector<std::unique_ptr<ConnectorBlock>> blocks_;
};

Connectors::Part Connectors::part_of(const std::string& name) {
  return name.ends_with(".projection") ? Part::projection : name.ends_with(".body") ? Part::body : Part::whole;
}

Connectors::Connectors(const ConnectorsConfig& c, const at::TensorOptions& options, Part part) : config_(c) {
  const auto in = c.state_width * c.num_states;
  auto project_to = [&](const char* name, int64_t width) {
    projections_.push_back(std::make_unique<nn::Linear>(in, width, options, c.has_biases));
    own(name, *projections_.back());
  };
  if (part != Part::body && c.is_shared) project_to("text_proj_in", c.state_width);
  if (part != Part::body && !c.is_shared) {
    project_to("video_text_proj_in", c.frames.width());
    project_to("audio_text_proj_in", c.sound.width());
  }
  if (part == Part::projection) return;
  frames_ = std::make_unique<Connector>(c, c.frames, options);
  sound_ = std::make_unique<Connector>(c, c.sound, options);
  own("video_connector", *frames_);
  own("audio_connector", *sound_);
}

Connectors::~Connectors() = default;

void Connectors::Features::add(const at::Tensor& state_BLC) {
  dtype_ = state_BLC.scalar_type();
  waiting_.push_back(normed_state(state_BLC, of_.config_.is_shared).to(state_BLC.scalar_type()));
  // A weight that is held as codes, or changed by an adapter, is multiplied with as a whole.
  bool is_plain = true;
  for (const auto& projection : of_.projections_)
    is_plain &= dynamic_cast<const nn::ParameterSource*>(&projection->source()) != nullptr && !projection->delta;
  const auto missing = of_.config_.num_states - num_projected_ - std::ssize(waiting_);
  if (missing < 0) throw std::logic_error("more states of a text than its projection reads");
  if (missing == 0 || (is_plain && waiting_.size() == kStatesAtOnce)) project();
}

void Connectors::Features::project() {
  const auto& config = of_.config_;
  const auto count = std::ssize(waiting_);
  // The numbers of a channel in all states of a token lie beside each other.
  const auto x = at::stack(waiting_, -1).flatten(2);
  waiting_.clear();
  for (size_t i = 0; i < of_.projections_.size(); ++i) {
    const auto& projection = *of_.projections_[i];
    // Where streams have projections of their own, states are scaled to as large numbers as a width has.
    const double scale =
        config.is_shared ? 1 : std::sqrt(static_cast<double>(projection.out_features()) / static_cast<double>(config.state_width));
    at::Tensor part;
    if (count == config.num_states) {
      part = projection.forward(x * scale).to(at::kFloat);
    } else {
      const auto weight =
          projection.weight.unflatten(1, {config.state_width, config.num_states}).narrow(2, num_projected_, count).flatten(1);
      part = at::linear(x, weight).to(at::kFloat) * scale;
      if (sums_.size() <= i && projection.bias.defined()) part = part + projection.bias.to(at::kFloat);
    }
    if (sums_.size() <= i) sums_.push_back(part);
    else sums_[i] = sums_[i] + part;
  }
  num_projected_ += count;
}

nn::Tensors Connectors::Features::take() {
  if (num_projected_ != of_.config_.num_states) throw std::logic_error("fewer states of a text than its projection reads");
  for (auto& sum : sums_) sum = sum.to(*dtype_);
  return std::exchange(sums_, {});
}

nn::Tensors Connectors::forward(const at::Tensor& frames_BLD, const at::Tensor& sound_BLD, const at::Tensor& mask_BL,
                                int64_t num_tokens) const {
  return {frames_->forward(frames_BLD, mask_BL, num_tokens), sound_->forward(sound_BLD, mask_BL, num_tokens)};
}

}  // namespace burnish::models::ltx2
