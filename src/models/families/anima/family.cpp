#include "models/model/family.h"

#include <fmt/core.h>

#include "models/families/anima/keys.h"
#include "models/families/anima/model.h"
#include "models/parts/find_components.h"

namespace burnish::models::anima {

namespace {

/// Prefixes under which single files keep the text encoder: none, or those of ComfyUI's checkpoints.
const std::vector<std::string> kTextPrefixes{"", "text_encoders.qwen3_06b.transformer.", "text_encoders.qwen3_06b."};
/// Prefixes under which files keep the conditioner: none in a folder of its own, or those of a transformer's file.
const std::vector<std::string> kConditionerPrefixes{"", "net.llm_adapter.", "llm_adapter.", "model.diffusion_model.llm_adapter.",
                                                    "diffusion_model.llm_adapter."};
/// What modulates the first norm, in diffusers' files and in original ones.
constexpr const char *kMark = "transformer_blocks.0.norm1.linear_1.weight", *kOriginalMark = "blocks.0.adaln_modulation_self_attn.1.weight";
constexpr const char* kConditionerMark = "blocks.0.norm_cross_attn.weight";
/// Norms of queries: Qwen3.
constexpr const char* kTextMark = "q_norm.weight";

bool is_original(const io::TensorSource& tensors) { return !tensors.contains(kMark); }

Source find_dit(const ModelFiles& files) {
  auto found = find_transformer(files, {kMark, kOriginalMark}, "CosmosTransformer3DModel");
  if (!found.tensors || !is_original(*found.tensors)) return found;
  found.keys = original_keys();
  found.tensors = found.tensors->without({"llm_adapter.", "pos_embedder.", "accum_"});  // a component of its own; what no code runs
  return found;
}

Source find_conditioner(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (auto tensors = find_below(entry, kConditionerPrefixes, kConditionerMark)) return {&entry, tensors, {}};
  }
  return {};
}

std::string describe_entry(const ModelEntry& entry) {
  const ModelFiles one{{entry}, {}};
  const auto [dit, conditioner, text, vae] = find_sources(one);
  auto config = dit.tensors ? read_named(dit, detect) : Config{};
  const bool is_original_file = dit.tensors && is_original(*dit.tensors);
  // A diffusers folder has the conditioner elsewhere, and then the same tensors for both.
  const char* kind = conditioner.tensors ? "Anima" : is_original_file ? "Cosmos-Predict2" : "Anima or Cosmos-Predict2";
  auto transformer = fmt::format("{} transformer ({} layers, width {}, {} names)", kind, config.num_layers, config.width(),
                                 is_original_file ? "original" : "diffusers");
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
  return {find_dit(files), find_conditioner(files), find_qwen(files, kTextPrefixes, kTextMark), find_causal_autoencoder(files)};
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
