#include "models/families/chroma/model.h"

#include <fmt/core.h>

#include <algorithm>

#include "diffusion/flow_process.h"
#include "models/families/chroma/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/shared_units.h"

namespace burnish::models::chroma {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body", kText = "text_encoder";

}  // namespace

ChromaModel::ChromaModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto [dit, text, vae] = find_sources(files_);
  if (dit.entry) config_ = read_named(dit, detect);
  auto text_config = read_named(text, text::t5_config);
  autoencoder_ = kl_part(vae, options_);
  check_latents(dit, config_.in_channels / 4, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  add_transformer(dit);
  const TextUse use{.kohya = "lora_te1_", .comfyui = "text_encoders.t5xxl.transformer.", .others = {"lora_te_"}, .length = 512};
  add(t5_part(text, text_config, use, files_, options_));
  add(autoencoder_, /*patch=*/2);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {.shift = 1.0, .use_dynamic_shifting = false}));
}

void ChromaModel::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::layers_of_part);
  recipe.parts = {kModulation, kBody};
  add(recipe, {.layers = {"", "transformer.", "lora_transformer_"},
               .lora_targets = "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,ff.net.0.proj,ff.net.2,"
                               "ff_context.net.0.proj,ff_context.net.2,proj_mlp,proj_out",
               .high_precision = {"x_embedder", "context_embedder", "distilled_guidance_layer\\..*", "proj_out"},
               .foreign_layers = foreign_layers(config_),
               .written = written_layers(config_),
               .single_file = {"model.diffusion_model.", original_keys()}});
}

void ChromaModel::fill_names() {
  names_.family = "chroma";
  names_.variant = "Chroma";
  names_.file_words = {"chroma", "https://huggingface.co/lodestones/Chroma", "chroma"};
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels / 4, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
  };
}

// Of the padding behind a caption the first token is read, and no other (diffusers: pipeline_chroma.py).
void ChromaModel::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kText);
  const auto& tokenizer = components_.tokenizer(kText);
  const auto most = token_limit(components_, kText);
  auto encoded = tokenizer.encode_padded(scope.text("prompt"), most);
  bool is_named = components_.source(kText).entry->is_sizes;  // of which no text is known; it may be as long as any
  auto num_read = is_named ? most : std::min(most, encoded.num_tokens + 1);
  encoded.ids.resize(static_cast<size_t>(num_read));
  auto ids_BL = as_batch(encoded.ids, options_.device);
  write_text(scope, loaded<text::T5Encoder>(kText).forward(ids_BL, encoded.num_tokens));
}

void ChromaModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(sigma, options_.dtype));
}

void ChromaModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  scope.write("prediction", loaded<Transformer>(kBody).forward({.noisy_BCHW = scope.tensor("noisy"),
                                                                .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                                                                .mask_BT = scope.tensor("text_mask").to(options_.device),
                                                                .modulation_BM = scope.tensor("modulation")}));
}

UnitGroups ChromaModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kText}, [this](Scope& s) { encode_prompt(s); }}};
  groups.denoise = {
      {"modulate", {"sigma"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
      {"denoise", {"noisy", "text_embedding", "text_mask", "modulation"}, {"prediction"}, {kBody}, [this](Scope& s) { denoise(s); }}};
  return groups;
}

}  // namespace burnish::models::chroma
