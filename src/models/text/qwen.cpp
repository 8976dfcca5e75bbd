#include "models/text/qwen.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/text/rotate_halves.h"
#include "models/text/shape_reading.h"
#include "nn/attention.h"

namespace burnish::models::text {

namespace {

const std::string kQwenLayer = "layers.0.";

/// {tokens [B,L,E], cos, sin [L,P], and where not all that comes before a token is seen the bias of attention [L,L]} -> {tokens}: causal
/// self-attention and gated MLP, each behind an RMS norm.
class QwenLayer : public nn::Block {
 public:
  QwenLayer(const QwenConfig& c, const at::TensorOptions& options)
      : config_(c),
        input_norm_(c.width, c.eps, options),
        post_norm_(c.width, c.eps, options),
        q_(c.width, c.num_heads * c.head_dim, options, c.qkv_bias),
        k_(c.width, c.num_kv_heads * c.head_dim, options, c.qkv_bias),
        v_(c.width, c.num_kv_heads * c.head_dim, options, c.qkv_bias),
        o_(c.num_heads * c.head_dim, c.width, options, false),
        gate_(c.width, c.hidden, options, false),
        up_(c.width, c.hidden, options, false),
        down_(c.hidden, c.width, options, false) {
    own("input_layernorm", input_norm_);
    own("post_attention_layernorm", post_norm_);
    own("self_attn.q_proj", q_);
    own("self_attn.k_proj", k_);
    own("self_attn.v_proj", v_);
    own("self_attn.o_proj", o_);
    if (c.qk_norm) {
      q_norm_ = std::make_unique<nn::RMSNorm>(c.head_dim, c.eps, options);
      k_norm_ = std::make_unique<nn::RMSNorm>(c.head_dim, c.eps, options);
      own("self_attn.q_norm", *q_norm_);
      own("self_attn.k_norm", *k_norm_);
    }
    own("mlp.gate_proj", gate_);
    own("mlp.up_proj", up_);
    own("mlp.down_proj", down_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto normed = input_norm_.forward(in[0]);
    const auto qkv = nn::forward_all({&q_, &k_, &v_}, normed);
    auto q = heads(qkv[0], q_norm_.get(), in), k = heads(qkv[1], k_norm_.get(), in);
    auto v = nn::split_heads(qkv[2], config_.num_kv_heads);
    auto shared = config_.num_heads / config_.num_kv_heads;
    auto bias = in.size() > 3 ? in[3] : at::Tensor();
    auto mid = in[0] + o_.forward(nn::merge_heads(nn::attention(q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), bias,
                                                                /*causal=*/!bias.defined())));
    auto normed_mid = post_norm_.forward(mid);
    const auto gate_and_up = nn::forward_all({&gate_, &up_}, normed_mid);
    return {mid + down_.forward(at::silu(gate_and_up[0]) * gate_and_up[1])};
  }

 private:
  at::Tensor heads(const at::Tensor& x_BLE, const nn::RMSNorm* norm, const nn::Tensors& in) const {
    auto x_BLHD = x_BLE.unflatten(-1, {-1, config_.head_dim});
    if (norm) x_BLHD = norm->forward(x_BLHD);
    return rotate_halves(x_BLHD.transpose(1, 2), in[1], in[2]);
  }

  QwenConfig config_;
  nn::RMSNorm input_norm_, post_norm_;
  nn::Linear q_, k_, v_, o_, gate_, up_, down_;
  std::unique_ptr<nn::RMSNorm> q_norm_, k_norm_;
};

void check_heads(const QwenConfig& c) {
  bool divide = c.head_dim > 0 && c.head_dim % 2 == 0 && c.num_heads > 0 && c.num_kv_heads > 0 && c.num_heads % c.num_kv_heads == 0;
  if (!divide)
    data_error("models", "the Qwen text encoder's {} heads of queries and {} of keys, {} wide, do not fit together; its files are damaged",
               c.num_heads, c.num_kv_heads, c.head_dim);
}

/// What config.json says too of what the shapes say.
void check_qwen(const QwenConfig& c, const nlohmann::json& json) {
  agree(json, "vocab_size", c.vocab_size);
  agree(json, "hidden_size", c.width);
  agree(json, "intermediate_size", c.hidden);
  agree(json, "num_hidden_layers", c.num_layers);
  agree(json, "head_dim", c.head_dim);
  agree(json, "num_attention_heads", c.num_heads);
  agree(json, "num_key_value_heads", c.num_kv_heads);
}

/// Of Qwen2.5-VL, as config.json says; a quarter of the pairs for time and three eighths each for row and column where it does not.
void read_sections(QwenConfig& c, const nlohmann::json& json) {
  auto pairs = c.head_dim / 2, plane = pairs * 3 / 8;
  c.sections = {pairs - 2 * plane, plane, plane};
  for (const char* where : {"rope_scaling", "rope_parameters"}) {
    if (json.is_object() && json.contains(where)) take(json[where], "mrope_section", c.sections);
  }
  bool fits = c.sections.size() == 3 && std::ranges::all_of(c.sections, [](int64_t n) { return n >= 0; }) &&
              c.sections[0] + c.sections[1] + c.sections[2] == pairs;
  if (!fits)
    data_error("models", "the config.json of the Qwen text encoder divides the {} rotated pairs of a head by mrope_section {}", pairs,
               nlohmann::json(c.sections).dump());
}

}  // namespace

at::Tensor rotate_halves(const at::Tensor& x_BHLD, const at::Tensor& cos_LP, const at::Tensor& sin_LP) {
  auto halves = x_BHLD.chunk(2, -1);
  auto cos = cos_LP.to(x_BHLD.scalar_type()), sin = sin_LP.to(x_BHLD.scalar_type());
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

QwenConfig qwen_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  // A model that also sees keeps the numbers of its text part apart.
  bool sees = config_json.is_object() && config_json.contains("text_config");
  const auto& json = sees ? config_json["text_config"] : config_json;
  QwenConfig c;
  c.vocab_size = dim_of(shapes, "embed_tokens.weight", 0);
  c.width = dim_of(shapes, "embed_tokens.weight", 1);
  c.num_layers = io::count_of(shapes, "layers.{}.");
  c.hidden = dim_of(shapes, kQwenLayer + "mlp.up_proj.weight", 0);
  c.qkv_bias = shapes.contains(kQwenLayer + "self_attn.q_proj.bias");
  c.qk_norm = shapes.contains(kQwenLayer + "self_attn.q_norm.weight");
  auto query_width = dim_of(shapes, kQwenLayer + "self_attn.q_proj.weight", 0);
  if (int64_t stated = 0; io::take(json, "num_attention_heads", stated, "text encoder") && stated > 0) c.head_dim = query_width / stated;
  take(json, "head_dim", c.head_dim);
  if (c.qk_norm) c.head_dim = dim_of(shapes, kQwenLayer + "self_attn.q_norm.weight", 0);
  check_heads(c);
  c.num_heads = query_width / c.head_dim;
  c.num_kv_heads = dim_of(shapes, kQwenLayer + "self_attn.k_proj.weight", 0) / c.head_dim;
  check_heads(c);
  check_qwen(c, json);
  read_sections(c, json);
  take(json, "rms_norm_eps", c.eps);
  take(json, "rope_theta", c.rope_theta);
  // transformers 5 keeps it among the other numbers of the positions.
  if (json.is_object() && json.contains("rope_parameters")) take(json["rope_parameters"], "rope_theta", c.rope_theta);
  if (!(c.rope_theta > 0 && c.eps > 0))
    data_error("models", "the config.json of the Qwen text encoder has rope_theta {} and rms_norm_eps {}, which are above 0", c.rope_theta,
               c.eps);
  return c;
}

io::TensorSource qwen_tensors(const io::TensorSource& source) {
  for (const std::string prefix : {"model.language_model.", "model."}) {
    if (source.contains(prefix + "embed_tokens.weight")) return source.below(prefix);
  }
  return source.without({"lm_head.", "visual."});
}

io::KeyMap transformers_qwen_keys() {
  std::vector<io::KeyRule> rules{{"model.embed_tokens.weight", {"embed_tokens.weight"}}, {"model.norm.weight", {"norm.weight"}}};
  for (const std::string layer :
       {"input_layernorm.weight", "post_attention_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
        "self_attn.v_proj.weight", "self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias", "self_attn.o_proj.weight",
        "self_attn.q_norm.weight", "self_attn.k_norm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
    rules.push_back({"model.layers.{}." + layer, {"layers.{}." + layer}});
  return io::KeyMap(rules);
}

QwenEncoder::QwenEncoder(const QwenConfig& c, const at::TensorOptions& options)
    : config_(c), embed_tokens_(c.vocab_size, c.width, options), norm_(c.width, c.eps, options) {
  own("embed_tokens", embed_tokens_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<QwenLayer>(c, options));
    own("layers." + std::to_string(i), *layers_.back());
  }
  own("norm", norm_);
}

QwenEncoder::~QwenEncoder() = default;

/// [L, P] fp64.
at::Tensor QwenEncoder::angles(int64_t length, const std::vector<SeenPicture>& pictures, const at::TensorOptions& options) const {
  auto opts = options.dtype(at::kDouble);
  std::vector<at::Tensor> places_3L;
  int64_t token = 0, next = 0;  // the token, and its place in the text
  auto add_text = [&](int64_t end) {
    places_3L.push_back(at::arange(next, next + end - token, opts).expand({3, end - token}));
    next += end - token;
    token = end;
  };
  for (const auto& picture : pictures) {
    add_text(picture.first);
    auto rows = picture.tokens_RCE.size(0), columns = picture.tokens_RCE.size(1);
    auto row = at::arange(rows, opts).unsqueeze(1).expand({rows, columns}).flatten();
    auto column = at::arange(columns, opts).unsqueeze(0).expand({rows, columns}).flatten();
    places_3L.push_back(at::stack({at::zeros_like(row), row, column}) + next);
    next += std::max(rows, columns);
    token += rows * columns;
  }
  add_text(length);
  auto places = at::cat(places_3L, 1);
  auto frequencies =
      (at::arange(0, config_.head_dim, 2, opts) * (-std::log(config_.rope_theta) / static_cast<double>(config_.head_dim))).exp();
  std::vector<at::Tensor> angles;
  auto parts = at::split_with_sizes(frequencies, config_.sections);
  for (size_t axis = 0; axis < parts.size(); ++axis)
    angles.push_back(places[static_cast<int64_t>(axis)].unsqueeze(1) * parts[axis].unsqueeze(0));
  return at::cat(angles, 1);
}

/// Zero where the token of a row sees that of a column, which comes before it and is one of the first `num_tokens`; else minus infinity.
static at::Tensor bias_of_padded(int64_t length, int64_t num_tokens, const at::TensorOptions& options) {
  auto place = at::arange(length, options);
  auto is_seen = (place.unsqueeze(0) <= place.unsqueeze(1)) & (place.unsqueeze(0) < num_tokens);
  auto hidden = at::full({}, -std::numeric_limits<double>::infinity(), options);
  return at::where(is_seen, at::zeros_like(hidden), hidden);
}

/// The tokens with those of pictures in their places.
static at::Tensor with_pictures(const at::Tensor& x_BLE, const std::vector<SeenPicture>& pictures) {
  if (pictures.empty()) return x_BLE;
  nn::Tensors pieces;
  int64_t token = 0;
  for (const auto& [first, tokens_RCE] : pictures) {
    pieces.push_back(x_BLE.narrow(1, token, first - token));
    auto seen = tokens_RCE.flatten(0, 1).to(x_BLE.device(), x_BLE.scalar_type());
    pieces.push_back(seen.expand({x_BLE.size(0), seen.size(0), seen.size(1)}));
    token = first + seen.size(0);
  }
  pieces.push_back(x_BLE.narrow(1, token, x_BLE.size(1) - token));
  return at::cat(pieces, 1);
}

nn::Tensors QwenEncoder::forward(const at::Tensor& ids_BL, const std::vector<int64_t>& after, const std::vector<SeenPicture>& pictures,
                                 std::optional<int64_t> num_tokens) {
  auto x = with_pictures(embed_tokens_.forward(ids_BL), pictures);
  auto angles_LP = angles(ids_BL.size(1), pictures, x.options());
  auto cos = angles_LP.cos().to(at::kFloat), sin = angles_LP.sin().to(at::kFloat);
  nn::Tensors shared{cos, sin}, states;
  if (num_tokens && *num_tokens < ids_BL.size(1)) shared.push_back(bias_of_padded(ids_BL.size(1), *num_tokens, cos.options()));
  for (int64_t layer = 0; layer <= after.back(); ++layer) {
    if (layer > 0) {
      nn::Tensors inputs{x};
      inputs.insert(inputs.end(), shared.begin(), shared.end());
      x = layers_[static_cast<size_t>(layer - 1)]->run(inputs)[0];
    }
    if (std::ranges::find(after, layer) != after.end()) states.push_back(layer == config_.num_layers ? norm_.forward(x) : x);
  }
  return states;
}

}  // namespace burnish::models::text
