#include "models/text/qwen.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "base/input_error.h"
#include "models/text/rotate_halves.h"
#include "models/text/shape_reading.h"
#include "nn/attention.h"

namespace burnish::models::text {

namespace {

const std::string kQwenLayer = "layers.0.";
constexpr double kQwen3VlTheta = 5e6, kMistralEps = 1e-5, kMistralSmallTheta = 1e9;

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

/// Sections of a head of so many pairs, of which time, row and column take one each in turn for as long as row and column have theirs; time
/// has the rest.
std::vector<int64_t> in_turns(int64_t num_pairs, int64_t num_row, int64_t num_column) {
  std::vector<int64_t> sections{0};
  for (int64_t pair = 0; pair < num_pairs; ++pair) {
    const auto turn = pair / 3;
    const bool is_row = pair % 3 == 1 && turn < num_row, is_column = pair % 3 == 2 && turn < num_column;
    const size_t axis = is_row ? 1 : is_column ? 2 : 0;
    while ((sections.size() - 1) % 3 != axis) sections.push_back(0);
    ++sections.back();
  }
  return sections;
}

/// Reads a value that transformers 4 and 5 keep in objects of different names.
template <class T>
void take_of_rope(const nlohmann::json& json, const char* key, T& value) {
  for (const char* where : {"rope_scaling", "rope_parameters"}) {
    if (json.is_object() && json.contains(where)) take(json[where], key, value);
  }
}

/// Of Qwen2.5-VL and Qwen3-VL, as config.json says. Where it does not, row and column have three eighths of the pairs each, and of
/// Qwen3-VL, which `takes_turns`, five sixteenths.
void read_sections(QwenConfig& c, const nlohmann::json& json, bool takes_turns) {
  std::string kind;
  take(json, "model_type", kind);
  takes_turns |= kind.starts_with("qwen3_vl");
  take_of_rope(json, "mrope_interleaved", takes_turns);
  auto pairs = c.head_dim / 2, plane = takes_turns ? pairs * 5 / 16 : pairs * 3 / 8;
  std::vector<int64_t> stated{pairs - 2 * plane, plane, plane};
  take_of_rope(json, "mrope_section", stated);
  bool fits = stated.size() == 3 && std::ranges::all_of(stated, [](int64_t n) { return n >= 0; }) &&
              stated[0] + stated[1] + stated[2] == pairs && (!takes_turns || 3 * std::max(stated[1], stated[2]) <= pairs);
  if (!fits)
    data_error("models", "the config.json of the Qwen text encoder divides the {} rotated pairs of a head by mrope_section {}", pairs,
               nlohmann::json(stated).dump());
  c.sections = takes_turns ? in_turns(pairs, stated[1], stated[2]) : stated;
}

/// The factor of cos and sin where config.json gives it by mscale or not at all (transformers: _compute_yarn_parameters).
double default_magnitude(const nlohmann::json& json, double factor) {
  double of_all = 0, own = 0;
  take_of_rope(json, "mscale", own);
  take_of_rope(json, "mscale_all_dim", of_all);
  auto scaled = [&](double by) { return factor <= 1 ? 1.0 : 0.1 * by * std::log(factor) + 1; };
  return own != 0 && of_all != 0 ? scaled(own) / scaled(of_all) : scaled(1);
}

/// Of what config.json calls "yarn"; what it does not say of that is Ministral-3's.
void read_yarn(QwenConfig& c, const nlohmann::json& json) {
  std::string model, kind = c.yarn ? "yarn" : "default";
  take(json, "model_type", model);
  if (model == "mistral") kind = "default";
  take_of_rope(json, "type", kind);
  take_of_rope(json, "rope_type", kind);
  if (kind != "yarn") {
    c.yarn.reset();
    return;
  }
  Yarn yarn;
  take_of_rope(json, "factor", yarn.factor);
  take_of_rope(json, "original_max_position_embeddings", yarn.first_length);
  take_of_rope(json, "beta_fast", yarn.beta_fast);
  take_of_rope(json, "beta_slow", yarn.beta_slow);
  const bool says_any = json.is_object() && (json.contains("rope_scaling") || json.contains("rope_parameters"));
  if (says_any) yarn.magnitude = default_magnitude(json, yarn.factor);
  take_of_rope(json, "attention_factor", yarn.magnitude);
  if (!(yarn.factor >= 1 && yarn.first_length >= 1 && yarn.beta_fast > yarn.beta_slow && yarn.beta_slow > 0 && yarn.magnitude > 0))
    data_error("models",
               "the config.json of the text encoder stretches positions (yarn) by a factor of {} from {} tokens, between {} and {} "
               "turns, times {}; those of Ministral-3 are 16, 16384, 32, 1 and 1",
               yarn.factor, yarn.first_length, yarn.beta_fast, yarn.beta_slow, yarn.magnitude);
  c.yarn = yarn;
}

}  // namespace

/// {tokens [B,L,E], cos, sin [L,P], and where not all that comes before a token is seen the bias of attention [L,L], and which tokens see
/// anything [L,1]} -> {tokens}: causal self-attention and gated MLP, each behind an RMS norm.
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
    return {forward(in, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      auto attended = attend(q, k, v, in.size() > 3 ? in[3] : at::Tensor());
      return in.size() > 4 ? attended * in[4].to(attended.scalar_type()) : attended;
    })};
  }

  /// {tokens, cos, sin, and the bias of attention [B,1,1,L] or an undefined one} -> tokens, which are added to the past of this layer.
  at::Tensor after(KeyValues& past, size_t layer, const nn::Tensors& in) {
    return forward(in, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      auto [keys, values] = past.append(layer, k, v);
      if (q.size(2) > 1) return attend(q, keys, values, {});
      // Of one token the heads that share keys are several queries.
      auto attended = nn::attention(q.squeeze(2).unflatten(1, {config_.num_kv_heads, -1}), keys, values, in[3]);
      return attended.flatten(1).unsqueeze(1);
    });
  }

 private:
  /// `attention` of query, key and value, behind their norms and turned, gives what the heads see side by side [B, L, H·D].
  template <class Attention>
  at::Tensor forward(const nn::Tensors& in, const Attention& attention) {
    auto normed = input_norm_.forward(in[0]);
    const auto qkv = nn::forward_all({&q_, &k_, &v_}, normed);
    auto q = heads(qkv[0], q_norm_.get(), in), k = heads(qkv[1], k_norm_.get(), in);
    auto mid = in[0] + o_.forward(attention(q, k, nn::split_heads(qkv[2], config_.num_kv_heads)));
    auto normed_mid = post_norm_.forward(mid);
    const auto gate_and_up = nn::forward_all({&gate_, &up_}, normed_mid);
    return mid + down_.forward(at::silu(gate_and_up[0]) * gate_and_up[1]);
  }

  /// Causal where there is no bias.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) const {
    auto shared = config_.num_heads / config_.num_kv_heads;
    return nn::merge_heads(
        nn::attention(q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), bias, /*causal=*/!bias.defined()));
  }

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

at::Tensor rotate_halves(const at::Tensor& x_BHLD, const at::Tensor& cos_LP, const at::Tensor& sin_LP) {
  auto halves = x_BHLD.chunk(2, -1);
  auto cos = cos_LP.to(x_BHLD.scalar_type()), sin = sin_LP.to(x_BHLD.scalar_type());
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

/// Of a model whose pairs `take_turns` unless config.json says otherwise; what no file says is as `c` has it.
static QwenConfig read_config(QwenConfig c, bool takes_turns, const nlohmann::json& config_json, const io::Shapes& shapes) {
  // A model that also sees keeps the numbers of its text part apart.
  bool sees = config_json.is_object() && config_json.contains("text_config");
  const auto& json = sees ? config_json["text_config"] : config_json;
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
  read_sections(c, json, takes_turns);
  read_yarn(c, json);
  take(json, "rms_norm_eps", c.eps);
  take(json, "rope_theta", c.rope_theta);
  // transformers 5 keeps it among the other numbers of the positions.
  if (json.is_object() && json.contains("rope_parameters")) take(json["rope_parameters"], "rope_theta", c.rope_theta);
  if (!(c.rope_theta > 0 && c.eps > 0))
    data_error("models", "the config.json of the Qwen text encoder has rope_theta {} and rms_norm_eps {}, which are above 0", c.rope_theta,
               c.eps);
  return c;
}

QwenConfig qwen_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({}, /*takes_turns=*/false, config_json, shapes);
}

QwenConfig qwen3_vl_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({.rope_theta = kQwen3VlTheta}, /*takes_turns=*/true, config_json, shapes);
}

QwenConfig qwen3_vl_4b() { return {.rope_theta = kQwen3VlTheta, .sections = in_turns(64, 20, 20)}; }

QwenConfig qwen3_vl_2b() {
  auto c = qwen3_vl_4b();
  c.width = 2048;
  c.hidden = 6144;
  c.num_layers = 28;
  c.num_heads = 16;
  return c;
}

QwenConfig qwen3_vl_8b() {
  auto c = qwen3_vl_4b();
  c.width = 4096;
  c.hidden = 12288;
  return c;
}

QwenConfig ministral3_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({.eps = kMistralEps, .yarn = Yarn()}, /*takes_turns=*/false, config_json, shapes);
}

QwenConfig ministral3_3b() {
  return {.vocab_size = 131072, .width = 3072, .hidden = 9216, .num_layers = 26, .eps = kMistralEps, .qk_norm = false, .yarn = Yarn()};
}

QwenConfig mistral_small_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  auto c = read_config({.eps = kMistralEps, .rope_theta = kMistralSmallTheta}, /*takes_turns=*/false, config_json, shapes);
  c.has_norm = shapes.contains("norm.weight");
  return c;
}

QwenConfig mistral_small_24b() {
  return {.vocab_size = 131072,
          .width = 5120,
          .hidden = 32768,
          .num_layers = 40,
          .eps = kMistralEps,
          .rope_theta = kMistralSmallTheta,
          .qk_norm = false};
}

io::TensorSource qwen_tensors(const io::TensorSource& source) {
  for (const std::string prefix : {"model.language_model.", "language_model.model.", "language_model.", "model."}) {
    if (source.contains(prefix + "embed_tokens.weight")) return source.below(prefix);
  }
  return source.without({"lm_head.", "visual."});
}

io::KeyMap transformers_qwen_keys() { return qwen_keys_below("model."); }

io::KeyMap qwen_keys_below(const std::string& prefix) {
  std::vector<io::KeyRule> rules{{prefix + "embed_tokens.weight", {"embed_tokens.weight"}}, {prefix + "norm.weight", {"norm.weight"}}};
  for (const std::string layer :
       {"input_layernorm.weight", "post_attention_layernorm.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
        "self_attn.v_proj.weight", "self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias", "self_attn.o_proj.weight",
        "self_attn.q_norm.weight", "self_attn.k_norm.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
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
    layers_.push_back(std::make_unique<QwenLayer>(c, options));
    own("layers." + std::to_string(i), *layers_.back());
  }
  if (!c.has_norm) return;
  norm_ = std::make_unique<nn::RMSNorm>(c.width, c.eps, options);
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

/// [L, P] fp64; where places are of several texts [B, 1, L, P], as heads are.
at::Tensor QwenEncoder::angles(const at::Tensor& places_3L) const {
  auto opts = places_3L.options();
  auto frequencies =
      (at::arange(0, config_.head_dim, 2, opts) * (-std::log(config_.rope_theta) / static_cast<double>(config_.head_dim))).exp();
  if (config_.yarn) frequencies = stretched(frequencies, *config_.yarn, config_.rope_theta, config_.head_dim);
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

/// What was made of a picture, as tokens like these.
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
  auto x = with_pictures(embed_tokens_.forward(ids_BL), pictures,
                         [](const SeenPicture& picture, const at::Tensor& tokens) { return seen_like(picture.tokens_RCE, tokens); });
  auto angles_LP = angles(given_3L.defined() ? given_3L.to(x.device(), at::kDouble) : places_of(ids_BL.size(1), pictures, x.options()));
  auto cos = (angles_LP.cos() * magnitude()).to(at::kFloat), sin = (angles_LP.sin() * magnitude()).to(at::kFloat);
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
