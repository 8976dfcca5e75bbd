#include "models/families/qwen_image_21/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "models/families/qwen_image_21/controlnet.h"
#include "nn/recomputed_values.h"

namespace burnish::models::qwen_image_21 {

namespace {

constexpr double kTheta = 10000;

/// Makes tokens of the text encoder's states: x / sqrt(mean(x²) + eps) · (1 + weight) in fp32, linear, GELU, linear.
struct TextIn : nn::Module {
  TextIn(const Config& c, const at::TensorOptions& o)
      : weight(at::empty({c.caption_width}, o.dtype(at::kFloat))),
        in(c.caption_width, c.width(), o, false),
        out(c.width(), c.width(), o, false),
        eps(c.norm_eps) {
    own("text_norm.weight", weight);
    own("in_layer", in);
    own("out_layer", out);
  }
  at::Tensor forward(const at::Tensor& states_BTE) const {
    auto norm = [this](const nn::Tensors& x) {
      return nn::Tensors{at::rms_norm(x[0].to(at::kFloat), x[1].sizes(), x[1].to(at::kFloat) + 1, eps).to(x[0].scalar_type())};
    };
    auto hidden = nn::recomputed({states_BTE, weight}, norm, [this](const nn::Tensors& x) { return nn::Tensors{in.forward(x[0])}; })[0];
    return out.forward(kernels::gelu_tanh(hidden));
  }
  at::Tensor weight;
  nn::Linear in, out;
  double eps;
};

/// The places of tokens on the axes picture, row and column, as they come together.
class Places {
 public:
  explicit Places(const at::TensorOptions& options) : options_(options.dtype(at::kDouble)) {}
  /// Text tokens count up on all axes.
  void add_text(int64_t count) {
    auto places = at::arange(next_, next_ + count, options_);
    for (auto& axis : axes_) axis.push_back(places);
    next_ += count;
  }
  /// A picture stays where the text has come to, and lies around the origin. The text goes on behind its longer side.
  void add_picture(int64_t rows, int64_t columns) {
    auto centred = [&](int64_t count) { return at::arange(count / 2 - count, count / 2, options_); };
    axes_[0].push_back(at::full({rows * columns}, static_cast<double>(next_), options_));
    axes_[1].push_back(centred(rows).unsqueeze(1).expand({rows, columns}).flatten());
    axes_[2].push_back(centred(columns).unsqueeze(0).expand({rows, columns}).flatten());
    next_ += std::max(rows, columns);
  }
  /// Returns the places [L]; with `further_B`, how much further the last picture is of each sample, [B, L].
  std::vector<at::Tensor> all(const at::Tensor& further_B) const {
    std::vector<at::Tensor> places;
    for (size_t i = 0; i < axes_.size(); ++i) {
      auto parts = axes_[i];
      if (further_B.defined()) {
        for (auto& part : parts) part = part.expand({further_B.size(0), part.size(0)});
        if (i == 0) parts.back() = parts.back() + further_B.unsqueeze(1);
      }
      places.push_back(at::cat(parts, -1));
    }
    return places;
  }

 private:
  at::TensorOptions options_;
  int64_t next_ = 0;
  std::array<std::vector<at::Tensor>, 3> axes_;
};

/// Tables {cos, sin} [L, P/2] of places [L], or of several samples.
std::pair<at::Tensor, at::Tensor> tables(std::vector<at::Tensor> places, const Config& c) {
  const auto sizes = places[0].sizes().vec();
  for (auto& axis : places) axis = axis.flatten();
  auto [cos, sin] = mmdit::rotary_tables(places, c.axes_dims, kTheta);
  if (sizes.size() == 1) return {cos, sin};
  return {cos.unflatten(0, sizes), sin.unflatten(0, sizes)};
}

/// [B, C, h, w] -> [B, hw, C].
at::Tensor as_tokens(const at::Tensor& latents) { return latents.flatten(2).transpose(1, 2); }

/// The bias of a text's tokens, of which the first comes behind `before` tokens: each sees those before it, and itself.
at::Tensor causal_bias(int64_t before, int64_t count, const at::TensorOptions& options) {
  auto unseen = at::full({count, before + count}, -std::numeric_limits<double>::infinity(), options.dtype(at::kFloat));
  return unseen.triu(before + 1).unsqueeze(0).unsqueeze(0);
}

}  // namespace

struct Transformer::Modulation {
  Modulation(const Config& c, const at::TensorOptions& o)
      : embedder(mmdit::kTimeChannels, c.width(), o, /*with_biases=*/false),
        blocks(c.width(), 4 * c.width(), o, false),
        last(c.width(), c.width(), o, false) {}
  mmdit::EmbedMlp embedder;
  nn::Linear blocks, last;
};

struct Transformer::Body {
  Body(const Config& c, int64_t begin, int64_t end, const at::TensorOptions& o)
      : blocks(mmdit::several<Block>(std::min(end, c.num_layers) - begin, c, o)) {
    if (begin == 0) image_in = std::make_unique<nn::Linear>(c.in_channels, c.width(), o, false);
    if (begin == 0) text_in = std::make_unique<TextIn>(c, o);
    if (end > c.num_layers) out = std::make_unique<nn::Linear>(c.width(), c.in_channels, o, false);
  }
  std::unique_ptr<nn::Linear> image_in;
  std::unique_ptr<TextIn> text_in;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<nn::Linear> out;
};

Transformer::Transformer(const Config& c, const at::TensorOptions& options, mmdit::HeldLayers part) : config_(c) {
  if (part.modulation) {
    auto& m = *(modulation_ = std::make_unique<Modulation>(c, options));
    own("time_text_embed.timestep_embedder", m.embedder);
    own("modulation.1", m.blocks);
    own("norm_out.linear", m.last);
  }
  if (!part.body) return;
  auto& b = *(body_ = std::make_unique<Body>(c, part.begin, part.end < 0 ? c.num_layers + 1 : part.end, options));
  if (b.image_in) own("img_in", *b.image_in);
  if (b.text_in) own("txt_in", *b.text_in);
  auto number = part.begin;
  for (auto& block : b.blocks) own("transformer_blocks." + std::to_string(number++), *block);
  if (b.out) own("proj_out", *b.out);
}

Transformer::~Transformer() = default;

at::Tensor Transformer::modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const {
  const auto& m = *modulation_;
  auto embedded = [&](const at::Tensor& sigma) { return at::silu(m.embedder.forward(mmdit::time_projection(sigma, dtype))); };
  auto of_blocks = [&](const at::Tensor& time_BD) {
    auto parts = m.blocks.forward(time_BD).chunk(4, -1);  // scale and gate of attention, then of the MLP
    for (size_t gate : {1, 3}) parts[gate] = at::tanh(parts[gate]);
    return at::cat(parts, -1);
  };
  auto time_BD = embedded(sigma_B);
  return at::cat({of_blocks(time_BD), of_blocks(embedded(at::zeros_like(sigma_B))), m.last.forward(time_BD)}, -1);
}

/// The tokens that the target comes behind, and of each run of text the bias of attention.
struct Transformer::Sequence {
  Places places;
  nn::Tensors biases = {};
  int64_t num_condition = 0;
};

Transformer::Sequence Transformer::sequence_of(const Inputs& in) const {
  const auto options = in.modulation_BM.options();
  Sequence s{.places = Places(options)};
  for (size_t i = 0; i <= in.references.size(); ++i) {
    const auto num_text = i < in.references.size() ? in.between.at(i).size(1) : in.mask_BT.size(1);
    s.places.add_text(num_text);
    s.biases.push_back(causal_bias(s.num_condition, num_text, options));
    s.num_condition += num_text;
    if (i == in.references.size()) break;
    const auto rows = in.references[i].size(2), columns = in.references[i].size(3);
    s.places.add_picture(rows, columns);
    s.num_condition += rows * columns;
  }
  const auto rows = in.noisy_BCHW.size(2), columns = in.noisy_BCHW.size(3);
  s.places.add_picture(rows, columns);
  if (in.mask_BT.size(0) == 1) return s;
  auto seen = at::constant_pad_nd(in.mask_BT, {s.num_condition - in.mask_BT.size(1), 0}, 1);
  s.biases.push_back(mmdit::padding_bias(seen, rows * columns));
  return s;
}

/// The tokens of text and references, and those of the target, as they enter the first block or leave the last one before these.
std::pair<at::Tensor, at::Tensor> Transformer::tokens_of(const Inputs& in, int64_t num_condition) const {
  auto& b = *body_;
  if (!b.image_in) return {in.hidden_BLD.narrow(1, 0, num_condition).contiguous(), in.hidden_BLD.slice(1, num_condition).contiguous()};
  auto image_tokens = [&](const at::Tensor& latents) { return b.image_in->forward(as_tokens(latents).to(in.text_BTE.scalar_type())); };
  nn::Tensors condition;
  for (size_t i = 0; i < in.references.size(); ++i) {
    condition.push_back(b.text_in->forward(in.between.at(i)));
    condition.push_back(image_tokens(in.references[i]));
  }
  condition.push_back(b.text_in->forward(in.text_BTE));
  return {condition.size() == 1 ? condition[0] : at::cat(condition, 1), image_tokens(in.noisy_BCHW)};
}

at::Tensor Transformer::forward(const Inputs& in) {
  auto& b = *body_;
  const auto rows = in.noisy_BCHW.size(2), columns = in.noisy_BCHW.size(3), D = config_.width();
  const auto sequence = sequence_of(in);
  const nn::Streams streams(shares(), {sequence.num_condition, rows * columns});
  at::Tensor shorter_B;
  if (in.mask_BT.size(0) > 1) shorter_B = in.mask_BT.to(at::kDouble).sum(1) - static_cast<double>(in.mask_BT.size(1));
  auto [cos, sin] = tables(sequence.places.all(shorter_B), config_);
  const auto [condition, target] = tokens_of(in, sequence.num_condition);
  const auto modulation = at::split_with_sizes(in.modulation_BM, {8 * D, D}, -1);
  nn::Tensors inputs{streams.here(0, condition), streams.here(1, target), modulation[0], streams.by_place(cos, -2),
                     streams.by_place(sin, -2)};
  inputs.insert(inputs.end(), sequence.biases.begin(), sequence.biases.end());
  nn::Tensors controlled;
  if (in.control) controlled = in.control->begin(inputs, streams.here(1, as_tokens(in.control_BNHW).to(target.scalar_type())));
  for (size_t i = 0; i < b.blocks.size(); ++i) {
    auto out = b.blocks[i]->run(inputs);
    inputs[0] = out[0];
    inputs[1] = out[1];
    if (in.control) in.control->follow(static_cast<int64_t>(i), controlled, inputs);
  }
  if (!b.out) return at::cat({inputs[0], inputs[1]}, 1);
  auto normed = kernels::modulated_norm(inputs[1], modulation[1], at::zeros_like(modulation[1]), config_.norm_eps);
  return streams.joined(1, b.out->forward(normed)).transpose(1, 2).unflatten(2, {rows, columns});
}

void Transformer::initialise(uint64_t seed) {
  mmdit::initialise(*this, seed, [](const std::string& path) {
    return path == "txt_in.text_norm.weight" || path.starts_with("modulation.") || path.starts_with("norm_out.") ||
           path.starts_with("proj_out.");
  });
}

}  // namespace burnish::models::qwen_image_21
