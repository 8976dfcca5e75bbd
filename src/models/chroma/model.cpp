#include "models/chroma/model.h"

#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "models/chroma/keys.h"
#include "models/scheduler_file.h"
#include "models/shared_components.h"
#include "models/shared_units.h"

namespace burnish::models::chroma {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body", kText = "text_encoder";
/// Of a text as Chroma was trained.
constexpr int64_t kTextLength = 512;

}  // namespace

ChromaModel::ChromaModel(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
  auto sources = find_sources(files_);
  read_configs(sources);
  fill_names();
  add_components(sources);
  auto scheduler = read_scheduler(files_);
  process_ = std::make_unique<diffusion::FlowProcess>(
      scheduler ? diffusion::flow_sampler_config(*scheduler) : diffusion::FlowSamplerConfig{.shift = 1.0, .use_dynamic_shifting = false});
}

void ChromaModel::read_configs(const Sources& sources) {
  const auto& [dit, text, vae] = sources;
  if (dit.entry)
    config_ = naming(dit.entry->label, [&] { return detect(dit.entry->config.is_null() ? nullptr : &dit.entry->config, dit.shapes()); });
  if (text.entry) text_config_ = text::t5_config(text.entry->config, text.shapes());
  if (vae.entry) vae_config_ = models::vae::kl_config(vae.entry->config, vae.shapes());
  check_latents(dit, config_.in_channels / 4, vae, vae_config_.latent_channels);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config_.width);
}

void ChromaModel::fill_names() {
  names_.family = "chroma";
  names_.variant = "Chroma";
  names_.denoisers = {"dit"};
  names_.components = {
      {"dit",
       {.layers = {"", "transformer.", "lora_transformer_"},
        .lora_targets = "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,ff.net.0.proj,ff.net.2,ff_context.net.0.proj,"
                        "ff_context.net.2,proj_mlp,proj_out",
        .high_precision = {"x_embedder", "context_embedder", "distilled_guidance_layer\\..*", "proj_out"},
        .foreign_layers = foreign_layers(config_),
        .written = written_layers(config_),
        .single_file = {"model.diffusion_model.", original_keys()}}},
      {kText, t5_names(kText, "lora_te1_", "text_encoders.t5xxl.transformer.", {"lora_te_"})},
      {"vae", autoencoder_names("vae", vae_config_, "vae.")},
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels / 4, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
  };
}

void ChromaModel::add_components(const Sources& sources) {
  components_.add({
      .name = "dit",
      .what = "transformer",
      .source = sources.dit,
      .build =
          [this](const std::string& part, const at::TensorOptions& options) {
            return std::make_unique<Transformer>(config_, options, Part{.modulation = part != kBody, .body = part != kModulation});
          },
      .parts = {kModulation, kBody},
      .initialise = [this](nn::Module& whole) { static_cast<Transformer&>(whole).initialise(options_.seed); },
  });
  auto text = t5_recipe(kText, sources.text_encoder, text_config_);
  text.tokenizer = {.folder = [this] { return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "T5"); },
                    .load = tokenizers::load_t5,
                    .limit = [this](const auto& tokenizer) { return text_length(tokenizer); },
                    .option = "max_sequence_length",
                    .vocab_size = text_config_.vocab_size};
  text.settings = [this](const std::string&) { return fmt::format("max_sequence_length {}", prompt_length(options_, kTextLength)); };
  components_.add(text);
  vae_config_.tile_size = options_.get<int64_t>("vae_tile_size");
  components_.add(autoencoder_recipe("vae", sources.vae, vae_config_));
}

std::vector<int64_t> ChromaModel::latent_shape(const Extent& extent) const {
  check_picture(extent);
  return {vae_config_.latent_channels, extent.height / vae_config_.downsampling(), extent.width / vae_config_.downsampling()};
}

int64_t ChromaModel::text_length(const tokenizers::Tokenizer& tokenizer) const {
  auto limit = tokenizer.model_max_length() > 0 ? std::min<int64_t>(kTextLength, tokenizer.model_max_length()) : kTextLength;
  return prompt_length(options_, limit);
}

// Of the padding behind a caption the first token is read, and no other (diffusers: pipeline_chroma.py).
void ChromaModel::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kText);
  const auto& tokenizer = components_.tokenizer(kText);
  const auto most = text_length(tokenizer);
  auto encoded = tokenizer.encode_padded(scope.text("prompt"), most);
  bool is_named = components_.source(kText).entry->is_sizes;  // of which no text is known; it may be as long as any
  auto num_read = is_named ? most : std::min(most, encoded.num_tokens + 1);
  encoded.ids.resize(static_cast<size_t>(num_read));
  auto ids_BL = at::tensor(encoded.ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0).to(options_.device);
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

UnitGroups ChromaModel::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kText}, [this](Scope& s) { encode_prompt(s); }}};
  groups.encode_image = latent_units(options_.latents, "vae", [this](const at::Tensor& image) {
    return loaded<vae::AutoencoderKL>("vae").encode(image.to(options_.device));
  });
  groups.add_noise = noise_units(*process_);
  groups.denoise = {
      {"modulate", {"sigma"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
      {"denoise", {"noisy", "text_embedding", "text_mask", "modulation"}, {"prediction"}, {kBody}, [this](Scope& s) { denoise(s); }}};
  groups.decode = decode_units("vae", [this](const at::Tensor& latents) { return loaded<vae::AutoencoderKL>("vae").decode(latents); });
  return groups;
}

}  // namespace burnish::models::chroma
