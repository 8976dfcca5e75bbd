// JoyCaption (fancyfeast/llama-joycaption-beta-one-hf-llava and its forerunners): a LLaVA of SigLIP and Llama 3.1 (Liu et al. 2023, arXiv
// 2304.08485; transformers: modeling_llava.py). It sees one picture, squeezed into a square.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "captioning/sight.h"
#include "io/model_values.h"
#include "models/parts/find_components.h"
#include "models/parts/siglip.h"

namespace burnish::captioning {

namespace text = models::text;

namespace {

constexpr const char* kJoyCaption = "JoyCaption";
const std::string kProjector = "projector", kPictureToken = "<|reserved_special_token_69|>";
const std::string kMarkOfTower = "embeddings.position_embedding.weight";

/// The conversation of its makers' trainer, which begins without a token for that.
tokenizers::ChatTemplate joy_chat() {
  return {.before =
              "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 July 2024\n\nYou are a "
              "helpful image captioner.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n",
          .after = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"};
}

/// Questions that it was trained with.
Prompts joy_prompts() {
  return {.sentences = "Write a long descriptive caption for this image in a formal tone.",
          .tags = "Write a list of Booru-like tags for this image.",
          .subject = "If there is a person/character in the image you must refer to them as {word}."};
}

std::optional<io::TensorSource> tower_of(const models::ModelEntry& entry) {
  return models::find_below(
      entry, {"vision_tower.vision_model.", "model.vision_tower.vision_model.", "vision_tower.", "model.vision_tower."}, kMarkOfTower);
}
std::optional<io::TensorSource> projector_of(const models::ModelEntry& entry) {
  return models::find_below(entry, {"multi_modal_projector.", "model.multi_modal_projector."}, "linear_2.weight");
}

/// Makes tokens of the text of what a tower sees.
struct Projector : nn::Module {
  Projector(int64_t seen, int64_t width, const at::TensorOptions& options) : first(seen, width, options), second(width, width, options) {
    own("linear_1", first);
    own("linear_2", second);
  }
  at::Tensor forward(const at::Tensor& x) const { return second.forward(at::gelu(first.forward(x))); }
  nn::Linear first, second;
};

/// Returns what is read of a tower's tensors: those of so many layers, and nothing behind.
io::TensorSource read_of(const io::TensorSource& tower, int64_t num_layers) {
  std::vector<std::string> left_out{"post_layernorm.", "head."};
  for (auto i = num_layers; i < io::count_of(tower.shapes(), "encoder.layers.{}.layer_norm1.weight"); ++i)
    left_out.push_back("encoder.layers." + std::to_string(i) + ".");
  return tower.without(left_out);
}

/// The tower as far as its tokens are read: to the layer that config.json names, counted from behind where it is below 0.
models::SiglipConfig tower_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  auto config = models::siglip_config(config_json, shapes);
  int64_t layer = -2;
  std::string selected = "full", activation = "gelu";
  io::take(config_json, "vision_feature_layer", layer, kJoyCaption);
  io::take(config_json, "vision_feature_select_strategy", selected, kJoyCaption);
  io::take(config_json, "projector_hidden_act", activation, kJoyCaption);
  const auto num_layers = layer < 0 ? config.num_layers + 1 + layer : layer;
  if (num_layers < 1 || num_layers > config.num_layers || selected != "full" || activation != "gelu")
    data_error("captioning",
               "the config.json of the {} reads layer {} of {}, {} of its tokens through {}; \"full\" and \"gelu\" were expected",
               kJoyCaption, layer, config.num_layers, selected, activation);
  config.num_layers = num_layers;
  config.pools = false;
  return config;
}

class JoyCaption : public Sight {
 public:
  explicit JoyCaption(Language language) : Sight(std::move(language)) {}

  bool sees_all() const override { return false; }

  void add_tower(models::Components& components, const models::ModelFiles& files, const std::string& processor_path) override {
    const auto& entry = *language().source.entry;
    models::Source tower{&entry, tower_of(entry), {}}, projector{&entry, projector_of(entry), {}};
    const auto config = models::naming(entry.label, [&] { return tower_config(entry.config, tower.shapes()); });
    tower.tensors = read_of(*tower.tensors, config.num_layers);
    rule_ = models::siglip_rule(files, entry, config.image_size, processor_path);
    components.add(models::siglip_recipe(kTower, tower, config));
    components.add({.name = kProjector,
                    .what = "projector",
                    .source = projector,
                    .build = [seen = config.width, width = language().config.width](const auto&, const auto& options) {
                      return std::make_unique<Projector>(seen, width, options);
                    }});
  }

  models::PictureText ask(models::Components& components, const tokenizers::ChatTokenizer& tokenizer, const Shown& shown,
                          const std::string& prompt, const Detail& /*detail*/) const override {
    auto& tower = static_cast<models::SiglipVision&>(components.module(kTower));
    auto& projector = static_cast<Projector&>(components.module(kProjector));
    const auto picture_3SS = models::squeezed(shown.frames_FHW3[0], rule_).to(projector.first.weight.options());
    const auto tokens_PE = projector.forward(tower.forward(picture_3SS.unsqueeze(0)).tokens_BLE)[0];
    const auto side = tower.config().image_size / tower.config().patch;
    const auto told = "<|reserved_special_token_70|>" + kPictureToken + "<|reserved_special_token_71|>";
    constexpr int64_t kNoLimit = 1 << 20;
    auto text =
        models::picture_text(tokenizer, language().chat, {told}, prompt, {tokens_PE.view({side, side, -1})}, kNoLimit, {kPictureToken});
    text.pictures.front().is_in_line = true;
    return text;
  }

  BoxScale box_scale(const models::PictureText& /*text*/) const override { return {}; }

 private:
  models::SquareRule rule_;
};

}  // namespace

std::unique_ptr<Sight> find_joy_caption(const models::ModelFiles& files) {
  const auto* entry = files.find([](const models::ModelEntry& one) { return tower_of(one) && projector_of(one); });
  if (entry == nullptr) return nullptr;
  const auto source = models::find_mistral({{*entry}, {}}, {""}, {});
  if (!source.entry) return nullptr;
  const models::Source found{entry, source.tensors, {}};
  return std::make_unique<JoyCaption>(Language{.name = kJoyCaption,
                                               .source = found,
                                               .config = models::read_named(found, text::llama_config),
                                               .chat = joy_chat(),
                                               .load = tokenizers::load_llama3,
                                               .ends = {"<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"},
                                               .prompts = joy_prompts()});
}

}  // namespace burnish::captioning
