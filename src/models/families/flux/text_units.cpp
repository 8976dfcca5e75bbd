#include "models/families/flux/text_units.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "base/input_error.h"

namespace burnish::models::flux {

namespace {

using pipeline::Scope;
using pipeline::Unit;

/// The LoRA of a file; of the plan of a run without samples, one of a usual rank.
std::vector<LoraPair> lora_of(const std::string& path, const LoraEncoder::Config& config, const Config& transformer, c10::Device device) {
  constexpr int64_t kUsualRank = 16;
  if (!path.empty() || !device.is_meta()) return read_lora_pairs(path, config, transformer);
  std::vector<LoraPair> pairs;
  for (const auto& layer : config.layers) pairs.push_back({at::zeros({kUsualRank, layer.in}), at::zeros({layer.out, kUsualRank})});
  return pairs;
}

/// The target's tokens that each mask touches [1, N, I].
at::Tensor covered_tokens(const std::vector<at::Tensor>& masks, int64_t downsampling) {
  std::vector<at::Tensor> covered;
  for (const auto& mask_3HW : masks) {
    auto at_latents = every_nth(white_of(mask_3HW), downsampling / 2, downsampling);
    covered.push_back(blocks_as_channels(at_latents, 2).amax(0).flatten());
  }
  return at::stack(covered).unsqueeze(0);
}

/// The bias of attention under which an entity's text and the picture see each other where its mask is, the prompt's text and the whole
/// picture do, and texts do not see each other. cover [B, N, I] -> [B, 1, L, L].
at::Tensor entity_bias(const at::Tensor& cover_BNI, int64_t num_entity_text, int64_t num_prompt, c10::ScalarType dtype) {
  auto B = cover_BNI.size(0), N = cover_BNI.size(1), I = cover_BNI.size(2), each = num_entity_text / N, T = num_entity_text + num_prompt;
  auto options = cover_BNI.options();
  std::vector<at::Tensor> text_to_image, text_to_text;
  for (int64_t i = 0; i <= N; ++i) {
    auto length = i < N ? each : num_prompt, before = i * each;
    text_to_image.push_back((i < N ? cover_BNI.narrow(1, i, 1) : at::ones({B, 1, I}, options)).expand({B, length, I}));
    text_to_text.push_back(at::cat(
        {at::zeros({length, before}, options), at::ones({length, length}, options), at::zeros({length, T - before - length}, options)}, 1));
  }
  auto ti = at::cat(text_to_image, 1);
  auto tt = at::cat(text_to_text, 0).unsqueeze(0).expand({B, T, T});
  auto seen = at::cat({at::cat({tt, ti}, 2), at::cat({ti.transpose(1, 2), at::ones({B, I, I}, options)}, 2)}, 1);
  auto hidden = at::full({}, -std::numeric_limits<double>::infinity(), options);
  return at::where(seen > 0, at::zeros({}, options), hidden).unsqueeze(1).to(dtype);
}

Unit entity_unit(const ModelParts& parts) {
  return {"encode_entities",
          {"eligen_entity_prompts", "eligen_entity_masks"},
          {"entity_text", "entity_cover"},
          {parts.text_encoder},
          [parts](Scope& s) {
            auto prompts = texts_in(s, "eligen_entity_prompts");
            const auto& masks = s.lists("eligen_entity_masks").at(0);
            if (prompts.size() != masks.size())
              data_error("models", "a sample has {} eligen_entity_prompts and {} eligen_entity_masks; each prompt needs its mask",
                         prompts.size(), masks.size());
            s.uses(parts.text_encoder);
            std::vector<at::Tensor> texts;
            for (const auto& prompt : prompts) texts.push_back(parts.encode_text(prompt));
            s.write("entity_text", at::cat(texts, 1));
            s.write("entity_cover", covered_tokens(masks, parts.downsampling));
          }};
}

}  // namespace

TextUnits::TextUnits(const ModelOptions& options, Components& components, const SideSources& found, const Config& dit, bool has_dit)
    : SideModule(options, components, dit, has_dit), values_(found.value_controller), loras_(found.lora_encoder) {
  check_pairs({{"eligen_entity_masks", "eligen_entity_prompts"}, {"eligen_entity_prompts", "eligen_entity_masks"}});
  if (values_.entry) {
    value_config_ = ValueEncoder::detect(values_.shapes());
    check_size(values_, "width of texts", value_config_.width, dit.joint_attention_dim);
  }
  if (loras_.entry) {
    lora_config_ = naming(loras_.entry->label, [&] { return LoraEncoder::detect(loras_.shapes(), dit); });
    check_size(loras_, "width of texts", lora_config_.width, dit.joint_attention_dim);
    check_size(loras_, "width of layers", lora_config_.layers[0].in, dit.width());
  }
}

bool TextUnits::can_read(std::string_view column) const {
  if (column.starts_with("lora_encoder_")) return loras_.entry != nullptr;
  if (column.starts_with("value_controller_")) return values_.entry != nullptr;
  return column.starts_with("eligen_");  // which needs no component
}

std::vector<NamedRecipe> TextUnits::components(const ComponentNames&) const {
  std::vector<NamedRecipe> all;
  if (values_.entry)
    all.push_back({side_recipe<ValueEncoder>(kValueController, "value controller", values_, value_config_), plain_names(kValueController)});
  if (loras_.entry)
    all.push_back({side_recipe<LoraEncoder>(kLoraEncoder, "LoRA encoder", loras_, lora_config_), plain_names(kLoraEncoder)});
  return all;
}

Unit TextUnits::value_unit() {
  return {"encode_values", {"value_controller_inputs"}, {"value_text"}, {kValueController}, [this](Scope& s) {
            s.uses(kValueController);
            auto value_BN = s.tensor("value_controller_inputs").to(options_.device);
            if (value_BN.size(1) != 1)
              data_error("models", "a sample has {} value_controller_inputs, and there is one value controller", value_BN.size(1));
            s.write("value_text", loaded<ValueEncoder>(kValueController).forward(value_BN.select(1, 0)));
          }};
}

Unit TextUnits::lora_unit() {
  return {"encode_lora", {"lora_encoder_inputs"}, {"lora_text"}, {kLoraEncoder}, [this](Scope& s) {
            s.uses(kLoraEncoder);
            auto& encoder = loaded<LoraEncoder>(kLoraEncoder);
            std::vector<at::Tensor> tokens;
            for (const auto& path : texts_in(s, "lora_encoder_inputs"))
              tokens.push_back(encoder.forward(lora_of(path, lora_config_, dit_, options_.device)));
            s.write("lora_text", at::cat(tokens, 1));
          }};
}

void TextUnits::add_units(UnitGroups& groups, const ModelParts& parts) {
  if (has("eligen_entity_prompts")) add_encoding(groups, {entity_unit(parts)});
  if (has("value_controller_inputs")) add_encoding(groups, {value_unit()});
  if (has("lora_encoder_inputs")) add_encoding(groups, {lora_unit()});
}

void TextUnits::give(Scope& scope, const std::string&, Transformer::Inputs& in) {
  if (has("value_controller_inputs")) in.text_BTE = at::cat({in.text_BTE, here(scope, "value_text")}, 1);
  if (has("lora_encoder_inputs")) in.text_BTE = at::cat({in.text_BTE, here(scope, "lora_text")}, 1);
  if (has("eligen_entity_prompts")) give_entities(scope, in);
}

/// Entities' texts stand before all others; what the blocks are given besides goes on beside the bias.
void TextUnits::give_entities(Scope& scope, Transformer::Inputs& in) const {
  auto texts = here(scope, "entity_text");
  auto bias = entity_bias(here(scope, "entity_cover"), texts.size(1), in.text_BTE.size(1), options_.dtype);
  in.text_BTE = at::cat({texts, in.text_BTE}, 1);
  in.further = [bias, besides = in.further](int64_t block) {
    auto further = besides ? besides(block) : mmdit::Further{};
    further.bias = bias;
    return further;
  };
}

}  // namespace burnish::models::flux
