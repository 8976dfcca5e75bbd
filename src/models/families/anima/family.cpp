#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/anima/keys.h"
#include "models/families/anima/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::anima {

namespace {

const auto kTextPrefixes = text_prefixes({"qwen3_06b"});
/// What modulates the first norm, in diffusers' files and in original ones.
constexpr const char *kMark = "transformer_blocks.0.norm1.linear_1.weight", *kOriginalMark = "blocks.0.adaln_modulation_self_attn.1.weight";
constexpr const char* kConditionerMark = "blocks.0.norm_cross_attn.weight";

Source find_dit(const ModelFiles& files) {
  return find_transformer(files, kMark, "CosmosTransformer3DModel",
                          {kOriginalMark, original_keys, {"llm_adapter.", "pos_embedder.", "accum_"}});
}

/// The conditioner has a folder of its own, or lies in a transformer's file.
Source find_conditioner(const ModelFiles& files) {
  std::vector<std::string> prefixes{""};
  for (const auto& prefix : kDenoiserPrefixes) prefixes.push_back(prefix + "llm_adapter.");
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, prefixes, kConditionerMark)) return {&entry, tensors, {}};
  }
  return {};
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, conditioner, text, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  // A diffusers folder has the conditioner elsewhere, and then the same tensors for both.
  const char* kind = conditioner.tensors ? "Anima" : dit.is_original ? "Cosmos-Predict2" : "Anima or Cosmos-Predict2";
  auto transformer = fmt::format("{} transformer ({} layers, width {}, {} names)", kind, config.num_layers, config.width(), dit.names());
  return words_of({{dit, transformer},
                   {conditioner, "Anima text conditioner"},
                   {dit.tensors || conditioner.tensors ? text : Source{}, "Qwen3 text encoder"},
                   {dit.tensors || conditioner.tensors ? vae : Source{}, "causal autoencoder"}});
}

std::vector<ModelEntry> published(std::string_view name) {
  return {sizes_of<Transformer, Config>(name), sizes_of<Conditioner, ConditionerConfig>(name),
          sizes_of<text::QwenEncoder>(name, qwen3_06b()), sizes_of<vae::CausalAutoencoder, vae::CausalConfig>(name)};
}

}  // namespace

AnimaSources find_sources(const ModelFiles& files) {
  return {find_dit(files), find_conditioner(files), find_qwen(files, kTextPrefixes, kQwen3Mark), find_causal_autoencoder(files)};
}

extern const Family kFamily{
    .name = "anima",
    // A stage that only encodes may come without the transformer; its conditioner is then the mark.
    .recognises = [](const ModelFiles& files) { return find_dit(files).entry || find_conditioner(files).entry; },
    .open = open_as<AnimaModel>,
    .describe = describe_entry,
    .options = {prompt_length_option(), tile_option()},
    .variants = {{"anima",
                  [] { return published("anima"); },
                  "Anima",
                  "circlestone-labs/Anima-Base-v1.0-Diffusers",
                  {.num_inference_steps = 30, .cfg_scale = 4}}},
};

}  // namespace burnish::models::anima
