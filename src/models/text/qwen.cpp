#include "models/text/qwen.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "models/text/qwen_layer.h"

namespace burnish::models::text {

io::TensorSource qwen_tensors(const io::TensorSource& source) {
  for (const std::string prefix : {"model.language_model.", "language_model.model.", "language_model.", "model."}) {
    if (source.contains(prefix + "embed_tokens.weight")) return source.below(prefix);
  }
  return source.without({"lm_head.", "visual."});
}

io::KeyMap transformers_qwen_keys() { return qwen_keys_below("model."); }

io::KeyMap qwen_keys_below(const std::string& prefix) {
  std::vector<io::KeyRule> rules{{prefix + "embed_tokens.weight", {"embed_tokens.weight"}}, {prefix + "norm.weight", {"norm.weight"}}};
  for (const std::string layer : {"input_layernorm.weight",
                                  "post_attention_layernorm.weight",
                                  "self_attn.q_proj.weight",
                                  "self_attn.k_proj.weight",
                                  "self_attn.v_proj.weight",
                                  "self_attn.q_proj.bias",
                                  "self_attn.k_proj.bias",
                                  "self_attn.v_proj.bias",
                                  "self_attn.o_proj.weight",
                                  "self_attn.q_norm.weight",
                                  "self_attn.k_norm.weight",
                                  "linear_attn.in_proj_qkv.weight",
                                  "linear_attn.in_proj_z.weight",
                                  "linear_attn.in_proj_b.weight",
                                  "linear_attn.in_proj_a.weight",
                                  "linear_attn.conv1d.weight",
                                  "linear_attn.A_log",
                                  "linear_attn.dt_bias",
                                  "linear_attn.norm.weight",
                                  "linear_attn.out_proj.weight",
                                  "mlp.gate_proj.weight",
                                  "mlp.up_proj.weight",
                                  "mlp.down_proj.weight"})
    rules.push_back({prefix + "layers.{}." + layer, {"layers.{}." + layer}});
  return io::KeyMap(rules);
}

SeenPicture seen_at(int64_t first, const at::Tensor& seen) {
  if (seen.dim() == 3) return {first, seen};
  auto all = seen.unbind();
  return {first, all.front(), {all.begin() + 1, all.end()}};
}

QwenEncoder::QwenEncoder(const QwenConfig& c, const at::TensorOptions& options)
    : config_(c), embed_tokens_(c.vocab_size, c.width, options) {
  own("embed_tokens", embed_tokens_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<QwenLayer>(c, i, options));
    own("layers." + std::to_string(i), *layers_.back());
  }
  if (!c.has_norm) return;
  norm_ = std::make_unique<QwenNorm>(c.width, c, options);
  own("norm", *norm_);
}

QwenEncoder::~QwenEncoder() = default;

at::Tensor places_of(int64_t length, const std::vector<SeenPicture>& pictures, const at::TensorOptions& options) {
  auto opts = options.dtype(at::kDouble);
  std::vector<at::Tensor> places_3L;
  int64_t token = 0, next = 0;  // the token, and its place in the text
  int64_t begin = 0;            // the place of a picture, or of the first frame of its clip
  auto add_text = [&](int64_t end) {
    places_3L.push_back(at::arange(next, next + end - token, opts).expand({3, end - token}));
    next += end - token;
    token = end;
  };
  for (const auto& picture : pictures) {
    if (picture.is_in_line) continue;
    add_text(picture.first);
    auto rows = picture.rows(), columns = picture.columns();
    auto row = at::arange(rows, opts).unsqueeze(1).expand({rows, columns}).flatten();
    auto column = at::arange(columns, opts).unsqueeze(0).expand({rows, columns}).flatten();
    if (!picture.time) begin = next;
    places_3L.push_back(at::stack({at::full_like(row, static_cast<double>(picture.time.value_or(0))), row, column}) + begin);
    next = begin + std::max(rows, columns);
    token += rows * columns;
  }
  add_text(length);
  return at::cat(places_3L, 1);
}

/// For each rotated pair of a head, the place that it turns with: 0 time, 1 row, 2 column.
static std::vector<int64_t> axes_of_pairs(const std::vector<int64_t>& sections) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < sections.size(); ++i) axes.insert(axes.end(), static_cast<size_t>(sections[i]), static_cast<int64_t>(i % 3));
  return axes;
}

/// The frequencies [P] of rotated pairs, stretched: of pairs that turn seldom in a text of the first training they are divided by the
/// factor, of those that turn often they stay, and between these they go over evenly.
static at::Tensor stretched(const at::Tensor& frequencies_P, const Yarn& yarn, double rope_theta, int64_t head_dim) {
  auto pair_of = [&](double turns) {
    return static_cast<double>(head_dim) * std::log(yarn.first_length / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope_theta));
  };
  const double first = std::max(std::floor(pair_of(yarn.beta_fast)), 0.0);
  const double last = std::min(std::ceil(pair_of(yarn.beta_slow)), static_cast<double>(head_dim - 1));
  auto share = ((at::arange(frequencies_P.size(0), frequencies_P.options()) - first) / std::max(last - first, 1e-3)).clamp(0, 1);
  return frequencies_P * (1 - share) + frequencies_P / yarn.factor * share;
}

/// The same as Llama 3.1 does it: how often pairs turn in a text of the first training decides.
static at::Tensor stretched(const at::Tensor& frequencies_P, const LlamaStretch& stretch) {
  const auto turns_P = frequencies_P * (stretch.first_length / (2 * std::numbers::pi));
  const auto kept_P = ((turns_P - stretch.low) / (stretch.high - stretch.low)).clamp(0, 1);
  return frequencies_P * kept_P + frequencies_P / stretch.factor * (1 - kept_P);
}

double QwenEncoder::magnitude() const {
  const auto* yarn = std::get_if<Yarn>(&config_.stretch);
  return yarn != nullptr ? yarn->magnitude : 1;
}

/// [L, P] fp64; where places are of several texts [B, 1, L, P], as heads are.
at::Tensor QwenEncoder::angles(const at::Tensor& places_3L) const {
  auto opts = places_3L.options();
  const auto num_turned = num_rotated(config_);
  auto frequencies = (at::arange(0, num_turned, 2, opts) * (-std::log(config_.rope_theta) / static_cast<double>(num_turned))).exp();
  if (const auto* yarn = std::get_if<Yarn>(&config_.stretch))
    frequencies = stretched(frequencies, *yarn, config_.rope_theta, config_.head_dim);
  if (const auto* llama = std::get_if<LlamaStretch>(&config_.stretch)) frequencies = stretched(frequencies, *llama);
  auto axes = at::tensor(axes_of_pairs(config_.sections), at::TensorOptions().dtype(at::kLong)).to(opts.device());
  auto angles = places_3L.index_select(-2, axes).transpose(-1, -2) * frequencies;
  return angles.dim() > 2 ? angles.unsqueeze(1) : angles;
}

/// Zero where the token of a row sees that of a column, which comes before it and is one of `num_tokens` from the first on; else minus
/// infinity. Tokens before the first see nothing; their rows are zero, so that they are numbers.
static at::Tensor bias_of_padded(int64_t length, int64_t first, int64_t num_tokens, const at::TensorOptions& options) {
  auto place = at::arange(length, options);
  auto row = place.unsqueeze(1), column = place.unsqueeze(0);
  auto is_seen = ((column <= row) & (column >= first) & (column < first + num_tokens)) | (row < first);
  auto hidden = at::full({}, -std::numeric_limits<double>::infinity(), options);
  return at::where(is_seen, at::zeros_like(hidden), hidden);
}

/// The tokens with those of pictures changed: `change` gets a picture and its tokens [B, N, E].
static at::Tensor with_pictures(const at::Tensor& x_BLE, const std::vector<SeenPicture>& pictures,
                                const std::function<at::Tensor(const SeenPicture&, const at::Tensor& tokens_BNE)>& change) {
  if (pictures.empty()) return x_BLE;
  nn::Tensors pieces;
  int64_t token = 0;
  for (const auto& picture : pictures) {
    const auto num_tokens = picture.num_tokens();
    pieces.push_back(x_BLE.narrow(1, token, picture.first - token));
    pieces.push_back(change(picture, x_BLE.narrow(1, picture.first, num_tokens)));
    token = picture.first + num_tokens;
  }
  pieces.push_back(x_BLE.narrow(1, token, x_BLE.size(1) - token));
  return at::cat(pieces, 1);
}

/// Views what was made of a picture as tokens like these.
static at::Tensor seen_like(const at::Tensor& seen_RCE, const at::Tensor& tokens_BNE) {
  return seen_RCE.flatten(-3, -2).to(tokens_BNE.device(), tokens_BNE.scalar_type()).expand_as(tokens_BNE);
}

/// The tokens behind a layer, from 1 on, with what pictures add to theirs there.
static at::Tensor with_added(const at::Tensor& x_BLE, const std::vector<SeenPicture>& pictures, int64_t layer) {
  const auto adds = [&](const SeenPicture& picture) { return std::ssize(picture.added_RCE) >= layer; };
  if (std::ranges::none_of(pictures, adds)) return x_BLE;
  return with_pictures(x_BLE, pictures, [&](const SeenPicture& picture, const at::Tensor& tokens) {
    return adds(picture) ? tokens + seen_like(picture.added_RCE[static_cast<size_t>(layer - 1)], tokens) : tokens;
  });
}

nn::Tensors QwenEncoder::forward(const at::Tensor& ids_BL, const std::vector<int64_t>& after, const std::vector<SeenPicture>& pictures,
                                 std::optional<int64_t> num_tokens) {
  return forward(ids_BL, QwenReading{.after = after, .pictures = pictures, .num_tokens = num_tokens});
}

nn::Tensors QwenEncoder::forward(const at::Tensor& ids_BL, const QwenReading& reading) {
  const auto& [after, pictures, first_token, num_tokens, given_3L, norms_last, past] = reading;
  if (config_.gated && first_token > 0) throw std::logic_error("what fills up a text in front changes the states of gated layers");
  auto x = with_pictures(embed_tokens_.forward(ids_BL), pictures,
                         [](const SeenPicture& picture, const at::Tensor& tokens) { return seen_like(picture.tokens_RCE, tokens); });
  auto angles_LP = angles(given_3L.defined() ? given_3L.to(x.device(), at::kDouble) : places_of(ids_BL.size(1), pictures, x.options()));
  const auto exact = at::toOpMathType(x.scalar_type());
  auto cos = (angles_LP.cos() * magnitude()).to(exact), sin = (angles_LP.sin() * magnitude()).to(exact);
  nn::Tensors shared{cos, sin}, states;
  const auto length = ids_BL.size(1);
  if (past != nullptr) shared.push_back(past->bias(length, cos.options()));
  else if (num_tokens && *num_tokens < length) shared.push_back(bias_of_padded(length, first_token, *num_tokens, cos.options()));
  if (first_token > 0) shared.push_back((at::arange(length, cos.options()) >= first_token).unsqueeze(1));
  for (int64_t layer = 0; layer <= after.back(); ++layer) {
    if (layer > 0) {
      auto& own = *layers_[static_cast<size_t>(layer - 1)];
      nn::Tensors inputs{x};
      inputs.insert(inputs.end(), shared.begin(), shared.end());
      x = past != nullptr ? own.after(*past, static_cast<size_t>(layer - 1), inputs) : own.run(inputs)[0];
    }
    if (std::ranges::find(after, layer) != after.end()) states.push_back(layer == config_.num_layers && norms_last ? norm_->forward(x) : x);
    if (layer > 0 && layer < after.back()) x = with_added(x, pictures, layer);
  }
  return states;
}

}  // namespace burnish::models::text
