#include "models/families/flux/lora_encoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>

#include "base/input_error.h"
#include "io/checkpoint_files.h"
#include "io/files.h"
#include "io/model_values.h"
#include "models/families/flux/keys.h"
#include "nn/attention.h"

namespace burnish::models::flux {

namespace {

constexpr double kLoraNormEps = 1e-5;

/// Writes dots as module dictionaries do.
std::string without_dots(const std::string& name) {
  std::string text;
  for (char c : name) text += c == '.' ? std::string("___") : std::string(1, c);
  return text;
}

std::string layer_path(const std::string& layer) { return "embedder.model_dict." + without_dots(layer); }

/// Self-attention and MLP, each behind a layer norm. {tokens [B,L,E]} -> {tokens}.
class LoraBlock : public nn::Block {
 public:
  LoraBlock(const LoraEncoder::Config& c, const at::TensorOptions& options)
      : num_heads_(c.num_heads),
        norm1_(c.width, kLoraNormEps, options),
        norm2_(c.width, kLoraNormEps, options),
        q_(c.width, c.num_heads * c.head_dim, options),
        k_(c.width, c.num_heads * c.head_dim, options),
        v_(c.width, c.num_heads * c.head_dim, options),
        out_(c.num_heads * c.head_dim, c.width, options),
        fc1_(c.width, c.hidden, options),
        fc2_(c.hidden, c.width, options) {
    own("layer_norm1", norm1_);
    own("layer_norm2", norm2_);
    own("attn.to_q", q_);
    own("attn.to_k", k_);
    own("attn.to_v", v_);
    own("attn.to_out", out_);
    own("fc1", fc1_);
    own("fc2", fc2_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto normed = norm1_.forward(in[0]);
    auto heads = [&](const nn::Linear& layer) { return nn::split_heads(layer.forward(normed), num_heads_); };
    auto mid = in[0] + out_.forward(nn::merge_heads(nn::attention(heads(q_), heads(k_), heads(v_))));
    auto up = fc1_.forward(norm2_.forward(mid));
    return {mid + fc2_.forward(up * at::sigmoid(up * 1.702))};
  }

 private:
  int64_t num_heads_;
  nn::LayerNorm norm1_, norm2_;
  nn::Linear q_, k_, v_, out_, fc1_, fc2_;
};

/// A matrix of a layer by the first of these names that the file has; undefined without one.
at::Tensor first_of(const io::TensorSource& file, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (file.contains(name)) return file.tensor(name).to(at::kFloat);
  }
  return {};
}

/// Returns what kohya calls each layer of DiffSynth-Studio's, found by our layers behind both.
std::map<std::string, std::string> kohya_names(const Config& transformer) {
  auto written = written_layers(transformer);
  std::map<std::string, std::string> names;
  for (const auto& [theirs, ours] : written.at("diffsynth")) {
    for (const auto& [kohya, same] : written.at("kohya")) {
      if (same == ours) names[theirs] = kohya;
    }
  }
  return names;
}

}  // namespace

struct LoraEncoder::LayerTokens : nn::Module {
  LayerTokens(const Layer& layer, int64_t count, const at::TensorOptions& options)
      : x_1LI(at::empty({1, count, layer.in}, options)), norm(layer.out, kLoraNormEps, options) {
    own("x", x_1LI);
    own("layer_norm", norm);
  }
  at::Tensor x_1LI;
  nn::LayerNorm norm;
};

LoraEncoder::Config LoraEncoder::detect(const io::Shapes& shapes, const flux::Config& transformer) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, "LoRA encoder"); };
  Config c;
  auto add = [&](const std::string& block, std::initializer_list<const char*> kinds) {
    for (const char* kind : kinds) {
      auto path = layer_path(block + kind);
      c.layers.push_back({block + kind, kind, side(path + ".x", 2), side(path + ".layer_norm.weight", 0)});
    }
  };
  for (int64_t i = 0; i < transformer.num_double_blocks; ++i)
    add("blocks." + std::to_string(i) + ".", {"attn.a_to_qkv", "attn.a_to_out", "ff_a.0", "ff_a.2", "norm1_a.linear", "attn.b_to_qkv",
                                              "attn.b_to_out", "ff_b.0", "ff_b.2", "norm1_b.linear"});
  for (int64_t i = 0; i < transformer.num_single_blocks; ++i)
    add("single_blocks." + std::to_string(i) + ".", {"to_qkv_mlp", "proj_out", "norm.linear"});
  if (c.layers.empty()) data_error("models", "the LoRA encoder reads layers of blocks, and the transformer has none");
  c.tokens_per_layer = side(layer_path(c.layers[0].name) + ".x", 1);
  c.num_tokens = side("special_embeds", 1);
  c.width = side("special_embeds", 2);
  c.hidden = side("encoders.0.fc1.weight", 0);
  auto inner = side("encoders.0.attn.to_q.weight", 0);
  c.head_dim = inner % 128 == 0 ? 128 : inner;
  c.num_heads = inner / c.head_dim;
  c.num_blocks = io::count_of(shapes, "encoders.{}.fc1.weight");
  return c;
}

LoraEncoder::LoraEncoder(const Config& c, const at::TensorOptions& options)
    : config_(c),
      special_1SE_(at::empty({1, c.num_tokens, c.width}, options)),
      final_norm_(c.width, kLoraNormEps, options),
      final_linear_(c.width, c.width, options) {
  for (const auto& layer : c.layers) {
    layers_.push_back(std::make_unique<LayerTokens>(layer, c.tokens_per_layer, options));
    own(layer_path(layer.name), *layers_.back());
    auto& projection = projections_[layer.kind];
    if (projection) continue;
    projection = std::make_unique<nn::Linear>(layer.out, c.width, options);
    own("embedder.proj_dict." + without_dots(layer.kind), *projection);
  }
  for (int64_t i = 0; i < c.num_blocks; ++i) {
    blocks_.push_back(std::make_unique<LoraBlock>(c, options));
    own("encoders." + std::to_string(i), *blocks_.back());
  }
  own("special_embeds", special_1SE_);
  own("final_layer_norm", final_norm_);
  own("final_linear", final_linear_);
}

LoraEncoder::~LoraEncoder() = default;

at::Tensor LoraEncoder::forward(const std::vector<LoraPair>& lora) {
  std::vector<at::Tensor> tokens{special_1SE_};
  for (size_t i = 0; i < layers_.size(); ++i) {
    auto down = lora.at(i).down_RI.to(special_1SE_.options()), up = lora.at(i).up_OR.to(down.options());
    auto changed = at::matmul(at::matmul(layers_[i]->x_1LI, down.t()), up.t());
    tokens.push_back(projections_.at(config_.layers[i].kind)->forward(layers_[i]->norm.forward(changed)));
  }
  auto x = at::cat(tokens, 1);
  for (auto& block : blocks_) x = block->run({x})[0];
  return final_linear_.forward(final_norm_.forward(x.narrow(1, 0, config_.num_tokens)));
}

std::vector<LoraPair> read_lora_pairs(const std::string& path, const LoraEncoder::Config& config, const flux::Config& transformer) {
  if (!io::is_there(path)) data_error("models", "the LoRA '{}' that lora_encoder_inputs names does not exist", path);
  auto file = io::TensorSource::open({path});
  const auto kohya = kohya_names(transformer);
  std::vector<LoraPair> pairs;
  for (const auto& layer : config.layers) {
    const auto& theirs = kohya.at(layer.name);
    LoraPair pair{first_of(file, {theirs + ".lora_down.weight", layer.name + ".lora_A.default.weight", layer.name + ".lora_A.weight"}),
                  first_of(file, {theirs + ".lora_up.weight", layer.name + ".lora_B.default.weight", layer.name + ".lora_B.weight"})};
    if (!pair.down_RI.defined() || !pair.up_OR.defined())
      data_error("models", "{} has no LoRA on {} ({}), and the LoRA encoder reads all layers of the blocks", path, theirs, layer.name);
    bool fits = pair.down_RI.dim() == 2 && pair.up_OR.dim() == 2 && pair.down_RI.size(1) == layer.in && pair.up_OR.size(0) == layer.out &&
                pair.up_OR.size(1) == pair.down_RI.size(0);
    if (!fits) data_error("models", "{}: the LoRA on {} is not of a layer from {} to {}", path, theirs, layer.in, layer.out);
    if (file.contains(theirs + ".alpha"))
      pair.down_RI = pair.down_RI * (file.tensor(theirs + ".alpha").to(at::kFloat) / static_cast<double>(pair.down_RI.size(0)));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace burnish::models::flux
