#include "models/text/qwen_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/input_error.h"
#include "models/text/shape_reading.h"

namespace burnish::models::text {

namespace {

const std::string kFirstLayer = "layers.0.";
constexpr double kQwen35Theta = 1e7, kQwen3VlTheta = 5e6, kMistralEps = 1e-5, kMistralSmallTheta = 1e9, kLlamaTheta = 5e5;

void check_heads(const QwenConfig& c) {
  bool divide = c.head_dim > 0 && c.head_dim % 2 == 0 && c.num_heads > 0 && c.num_kv_heads > 0 && c.num_heads % c.num_kv_heads == 0;
  if (!divide)
    data_error("models", "the Qwen text encoder's {} heads of queries and {} of keys, {} wide, do not fit together; its files are damaged",
               c.num_heads, c.num_kv_heads, c.head_dim);
}

/// Refuses a config.json that says otherwise than the shapes.
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

/// Reads the sections of Qwen2.5-VL and Qwen3-VL from config.json. Where it does not say them, row and column have three eighths of the
/// pairs each, and of Qwen3-VL, which `takes_turns`, five sixteenths; of Qwen3.5 all three have a third.
void read_sections(QwenConfig& c, const nlohmann::json& json, bool takes_turns) {
  std::string kind;
  take(json, "model_type", kind);
  takes_turns |= kind.starts_with("qwen3_vl");
  take_of_rope(json, "mrope_interleaved", takes_turns);
  auto pairs = num_rotated(c) / 2, plane = takes_turns ? pairs * 5 / 16 : pairs * 3 / 8;
  std::vector<int64_t> stated{pairs - 2 * plane, plane, plane};
  if (c.gated) stated = {pairs - (pairs + 1) / 3 - pairs / 3, (pairs + 1) / 3, pairs / 3};
  take_of_rope(json, "mrope_section", stated);
  bool fits = stated.size() == 3 && std::ranges::all_of(stated, [](int64_t n) { return n >= 0; }) &&
              stated[0] + stated[1] + stated[2] == pairs && (!takes_turns || (3 * stated[1] <= pairs + 1 && 3 * stated[2] <= pairs));
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

/// Reads what config.json calls "yarn"; what it does not say of that is Ministral-3's.
void read_yarn(QwenConfig& c, const nlohmann::json& json) {
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
  c.stretch = yarn;
}

/// Reads what config.json calls "llama3"; what it does not say of that is Llama-3.1-8B's.
void read_llama_stretch(QwenConfig& c, const nlohmann::json& json) {
  LlamaStretch stretch;
  take_of_rope(json, "factor", stretch.factor);
  take_of_rope(json, "original_max_position_embeddings", stretch.first_length);
  take_of_rope(json, "low_freq_factor", stretch.low);
  take_of_rope(json, "high_freq_factor", stretch.high);
  if (!(stretch.factor >= 1 && stretch.first_length >= 1 && stretch.low > 0 && stretch.high > stretch.low))
    data_error(
        "models",
        "the config.json of the text encoder stretches positions (llama3) by a factor of {} from {} tokens, between {} and {} turns; "
        "those of Llama-3.1-8B are 8, 8192, 1 and 4",
        stretch.factor, stretch.first_length, stretch.low, stretch.high);
  c.stretch = stretch;
}

/// Reads how config.json stretches positions.
void read_stretch(QwenConfig& c, const nlohmann::json& json) {
  std::string model, kind = std::array{"default", "yarn", "llama3"}[c.stretch.index()];
  take(json, "model_type", model);
  if (model == "mistral") kind = "default";
  take_of_rope(json, "type", kind);
  take_of_rope(json, "rope_type", kind);
  c.stretch = {};
  if (kind == "yarn") return read_yarn(c, json);
  if (kind == "llama3") return read_llama_stretch(c, json);
  for (const char* unknown : {"linear", "dynamic", "longrope"}) {
    if (kind == unknown)
      data_error("models",
                 "the config.json of the text encoder stretches positions by \"{}\"; \"yarn\", \"llama3\" or \"default\" was expected",
                 kind);
  }
}

/// Reads the numbers of gated layers, and returns the path of the first layer that has attention.
std::string read_gated(GatedLayers& g, const nlohmann::json& json, const io::Shapes& shapes) {
  const std::string linear = kFirstLayer + "linear_attn.";
  const auto num_layers = io::count_of(shapes, "layers.{}.");
  auto path = [](int64_t layer) { return "layers." + std::to_string(layer) + "."; };
  for (g.full_every = 1; g.full_every < num_layers && !shapes.contains(path(g.full_every - 1) + "self_attn.q_proj.weight");) ++g.full_every;
  g.num_value_heads = dim_of(shapes, linear + "A_log", 0);
  g.value_dim = g.key_dim = dim_of(shapes, linear + "norm.weight", 0);
  g.kernel = dim_of(shapes, linear + "conv1d.weight", 2);
  take(json, "linear_key_head_dim", g.key_dim);
  const auto width_of_keys = dim_of(shapes, linear + "in_proj_qkv.weight", 0) - g.num_value_heads * g.value_dim;
  const bool divides = g.key_dim > 0 && g.value_dim > 0 && g.kernel > 0 && width_of_keys > 0 && width_of_keys % (2 * g.key_dim) == 0;
  if (divides) g.num_key_heads = width_of_keys / (2 * g.key_dim);
  if (!divides || g.num_value_heads % g.num_key_heads != 0)
    data_error("models",
               "the text encoder's linear attention has {} heads of values, {} wide, and {} numbers of keys and queries in heads of {}, "
               "which do not fit together; its files are damaged",
               g.num_value_heads, g.value_dim, width_of_keys, g.key_dim);
  agree(json, "full_attention_interval", g.full_every);
  agree(json, "linear_num_key_heads", g.num_key_heads);
  agree(json, "linear_num_value_heads", g.num_value_heads);
  agree(json, "linear_value_head_dim", g.value_dim);
  agree(json, "linear_conv_kernel_dim", g.kernel);
  return path(g.full_every - 1);
}

/// Reads which share of a head turns, a quarter where config.json does not say.
void read_rotated(QwenConfig& c, const nlohmann::json& json) {
  double share = 0.25;
  take(json, "partial_rotary_factor", share);
  take_of_rope(json, "partial_rotary_factor", share);
  c.gated->num_rotated = static_cast<int64_t>(std::llround(share * static_cast<double>(c.head_dim)));
  if (c.gated->num_rotated < 2 || c.gated->num_rotated > c.head_dim || c.gated->num_rotated % 2 != 0)
    data_error("models", "the config.json of the text encoder has partial_rotary_factor {}, which turns no even share of heads {} wide",
               share, c.head_dim);
}

/// Reads the config of a model whose pairs take turns, if `takes_turns`, unless config.json says otherwise; what no file says is as in `c`.
QwenConfig read_config(QwenConfig c, bool takes_turns, const nlohmann::json& config_json, const io::Shapes& shapes) {
  // A model that also sees keeps the numbers of its text part apart.
  bool sees = config_json.is_object() && config_json.contains("text_config");
  const auto& json = sees ? config_json["text_config"] : config_json;
  c.vocab_size = dim_of(shapes, "embed_tokens.weight", 0);
  c.width = dim_of(shapes, "embed_tokens.weight", 1);
  c.num_layers = io::count_of(shapes, "layers.{}.");
  c.hidden = dim_of(shapes, kFirstLayer + "mlp.up_proj.weight", 0);
  const auto attention = (c.gated ? read_gated(*c.gated, json, shapes) : kFirstLayer) + "self_attn.";
  c.qkv_bias = shapes.contains(attention + "q_proj.bias");
  c.qk_norm = shapes.contains(attention + "q_norm.weight");
  auto query_width = dim_of(shapes, attention + "q_proj.weight", 0) / (c.gated ? 2 : 1);
  if (int64_t stated = 0; io::take(json, "num_attention_heads", stated, "text encoder") && stated > 0) c.head_dim = query_width / stated;
  take(json, "head_dim", c.head_dim);
  if (c.qk_norm) c.head_dim = dim_of(shapes, attention + "q_norm.weight", 0);
  check_heads(c);
  c.num_heads = query_width / c.head_dim;
  c.num_kv_heads = dim_of(shapes, attention + "k_proj.weight", 0) / c.head_dim;
  check_heads(c);
  check_qwen(c, json);
  if (c.gated) read_rotated(c, json);
  read_sections(c, json, takes_turns);
  read_stretch(c, json);
  take(json, "rms_norm_eps", c.eps);
  take(json, "rope_theta", c.rope_theta);
  // transformers 5 keeps it among the other numbers of the positions.
  if (json.is_object() && json.contains("rope_parameters")) take(json["rope_parameters"], "rope_theta", c.rope_theta);
  if (!(c.rope_theta > 0 && c.eps > 0))
    data_error("models", "the config.json of the Qwen text encoder has rope_theta {} and rms_norm_eps {}, which are above 0", c.rope_theta,
               c.eps);
  return c;
}

}  // namespace

int64_t num_rotated(const QwenConfig& config) { return config.gated ? config.gated->num_rotated : config.head_dim; }

QwenConfig qwen_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({}, /*takes_turns=*/false, config_json, shapes);
}

QwenConfig qwen3_vl_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({.rope_theta = kQwen3VlTheta}, /*takes_turns=*/true, config_json, shapes);
}

QwenConfig qwen3_vl_4b() { return {.rope_theta = kQwen3VlTheta, .sections = in_turns(64, 20, 20)}; }

QwenConfig qwen25_vl_7b() {
  return {.vocab_size = 152064,
          .width = 3584,
          .hidden = 18944,
          .num_layers = 28,
          .num_heads = 28,
          .num_kv_heads = 4,
          .qkv_bias = true,
          .qk_norm = false};
}

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

QwenConfig qwen35_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({.rope_theta = kQwen35Theta, .gated = GatedLayers()}, /*takes_turns=*/true, config_json, shapes);
}

QwenConfig qwen35_9b() {
  return {.vocab_size = 248320,
          .width = 4096,
          .hidden = 12288,
          .num_layers = 32,
          .num_heads = 16,
          .num_kv_heads = 4,
          .head_dim = 256,
          .rope_theta = kQwen35Theta,
          .sections = in_turns(32, 11, 10),
          .gated = GatedLayers()};
}

QwenConfig ministral3_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({.eps = kMistralEps, .stretch = Yarn()}, /*takes_turns=*/false, config_json, shapes);
}

QwenConfig ministral3_3b() {
  return {.vocab_size = 131072, .width = 3072, .hidden = 9216, .num_layers = 26, .eps = kMistralEps, .qk_norm = false, .stretch = Yarn()};
}

QwenConfig llama_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  return read_config({.eps = kMistralEps, .rope_theta = kLlamaTheta, .stretch = LlamaStretch()}, /*takes_turns=*/false, config_json,
                     shapes);
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

}  // namespace burnish::models::text
