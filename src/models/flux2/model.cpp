#include "models/flux2/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "models/flux2/keys.h"
#include "models/mmdit_names.h"
#include "models/scheduler_file.h"
#include "models/shared_components.h"
#include "models/shared_units.h"
#include "tokenizers/qwen.h"

namespace burnish::models::flux2 {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
const std::string kFirstBlocks = "dit.first_blocks", kLastBlocks = "dit.last_blocks";  // the first with the modulation
const std::string kFirstModulation = kFirstBlocks + ".modulation", kFirstBody = kFirstBlocks + ".body";
/// The user's turn of a conversation, and the beginning of an answer that is not thought over.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"};
/// The layers of the text encoder behind which states are read (diffusers: pipeline_flux2_klein.py).
const std::vector<int64_t> kTextLayers{9, 18, 27};

/// Of every reference picture its latents in all samples, which have as many of equal sizes.
std::vector<at::Tensor> references_of(pipeline::Scope& scope) {
  const auto& lists = scope.lists("latents_of_references");
  std::vector<at::Tensor> references;
  for (size_t i = 0; i < lists.at(0).size(); ++i) {
    std::vector<at::Tensor> of_samples;
    for (const auto& list : lists) of_samples.push_back(list.at(i));
    references.push_back(at::stack(of_samples));
  }
  return references;
}

}  // namespace

double empirical_mu(int64_t num_image_tokens, int64_t num_steps) {
  const auto tokens = static_cast<double>(num_image_tokens);
  const double at_200 = 0.00016927 * tokens + 0.45666666, at_10 = 8.73809524e-05 * tokens + 1.89833333;
  if (num_image_tokens > 4300) return at_200;
  return at_200 + (at_200 - at_10) / 190.0 * static_cast<double>(num_steps - 200);
}

Flux2Model::Flux2Model(const ModelFiles& files, const ModelOptions& options) : Model(files, options) {
  auto sources = find_sources(files_);
  read_configs(sources);
  fill_names();
  add_components(sources);
  auto scheduler = read_scheduler(files_);
  auto sampling = scheduler ? diffusion::flow_sampler_config(*scheduler) : diffusion::FlowSamplerConfig{};
  sampling.mu_of = empirical_mu;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling);
}

void Flux2Model::read_configs(const Sources& sources) {
  const auto& [dit, text, vae] = sources;
  if (dit.entry) config_ = detect(dit.entry->config.is_null() ? nullptr : &dit.entry->config, dit.shapes());
  if (text.entry) text_config_ = text::qwen_config(text.entry->config, text.shapes());
  if (vae.entry) vae_config_ = models::vae::patch_config(vae.entry->config, vae.shapes());
  check_latents(dit, config_.in_channels, vae, vae_config_.channels());
  if (text.entry && text_config_.num_layers < kTextLayers.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of FLUX.2 klein",
               text_config_.num_layers, kTextLayers.back());
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", std::ssize(kTextLayers) * text_config_.width);
}

// diffusers and DiffSynth-Studio have our paths; ai-toolkit, ComfyUI, kohya's files and musubi-tuner the original ones.
void Flux2Model::fill_names() {
  names_.family = "flux2";
  names_.variant = "FLUX.2-klein";
  names_.denoisers = {"dit"};
  if (options_.references) names_.reference_column = kReferenceColumn;
  names_.components = {
      {"dit",
       {.layers = {.weights = "",
                   .diffusers = "transformer.",
                   .kohya = "lora_unet_",
                   .others = {"lora_transformer_"},
                   .diffusers_alpha = false,
                   .comfyui_alpha = false},  // diffusers' loader refuses a file with one
        .lora_targets =
            "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,linear_in,linear_out,to_qkv_mlp_proj,attn.to_out",
        .high_precision = {"x_embedder", "context_embedder", "time_guidance_embed\\..*", ".*_stream_modulation.*", "norm_out\\.linear",
                           "proj_out"},
        .foreign_layers = foreign_layers(config_),
        .swapped_halves = swapped_layers(),
        .written = written_layers(config_),
        .single_file = {"model.diffusion_model.", original_keys()}}},
      {"text_encoder",
       qwen_names("text_encoder", text_config_, kTextLayers.back(), "lora_te_",
                  text_config_.width > 2560 ? "text_encoders.qwen3_8b.transformer." : "text_encoders.qwen3_4b.transformer.")},
      {"vae", patch_autoencoder_names("vae", vae_config_, "vae.")},
  };
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true}},
  };
}

void Flux2Model::add_components(const Sources& sources) {
  components_.add({
      .name = "dit",
      .what = "transformer",
      .source = sources.dit,
      .build =
          [this](const std::string& name, const at::TensorOptions& options) {
            Part part{.modulation = !name.ends_with(".body") && name != kLastBlocks, .body = !name.ends_with(".modulation")};
            if (name.starts_with(kFirstBlocks)) part.end = num_first_;
            if (name == kLastBlocks) part.begin = num_first_;
            return std::make_unique<Transformer>(config_, options, part);
          },
      .parts = {kModulation, kBody},
      .initialise = [this](nn::Module& whole) { static_cast<Transformer&>(whole).initialise(options_.seed); },
      .settings =
          [this](const std::string& part) {
            return part == kFirstBody || part == kLastBlocks ? fmt::format("split after {} blocks", num_first_) : std::string();
          },
  });
  auto text = qwen_recipe("text_encoder", sources.text_encoder, text_config_);
  text.tokenizer = {.folder = [this] { return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "Qwen"); },
                    .load = [](const auto& folder) { return tokenizers::load_qwen(folder, kChat); },
                    .limit = [this](const auto&) { return text_length(); },
                    .option = "max_sequence_length",
                    .vocab_size = text_config_.vocab_size};
  text.settings = [this](const std::string&) { return fmt::format("max_sequence_length {}", text_length()); };
  components_.add(text);
  vae_config_.kl.tile_size = options_.get<int64_t>("vae_tile_size");
  components_.add(patch_autoencoder_recipe("vae", sources.vae, vae_config_));
}

// The modulation is one for all blocks, so none stays as it is where that trains.
std::string Flux2Model::split_first_blocks(const std::function<bool(const std::string& path)>& trains) {
  const auto num_double = config_.num_double_blocks, num_single = config_.num_single_blocks;
  num_first_ = num_double + num_single;
  for (const auto& [path, slot] : components_.skeleton("dit")->parameters()) {
    if (trains(path)) num_first_ = std::min(num_first_, blocks_before(path, num_double, num_single, {"proj_out"}));
  }
  using Parts = std::vector<std::string>;
  components_.set_parts("dit", num_first_ > 0 ? Parts{kFirstModulation, kFirstBody, kLastBlocks} : Parts{kModulation, kBody});
  return num_first_ > 0 ? kFirstBlocks : "";
}

std::vector<int64_t> Flux2Model::latent_shape(const Extent& extent) const {
  check_picture(extent);
  return {vae_config_.channels(), extent.height / vae_config_.downsampling(), extent.width / vae_config_.downsampling()};
}

int64_t Flux2Model::text_length() const { return prompt_length(options_, 512); }

/// Every text has as many tokens: what stands behind it is attended as well.
void Flux2Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses("text_encoder");
  auto encoded = components_.tokenizer("text_encoder").encode_padded(scope.text("prompt"), text_length());
  auto ids_BL = at::tensor(encoded.ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0).to(options_.device);
  auto states = loaded<text::QwenEncoder>("text_encoder").forward(ids_BL, kTextLayers, {}, encoded.num_tokens);
  scope.write("text_embedding", at::cat(states, -1));
}

void Flux2Model::modulate(pipeline::Scope& scope) {
  const auto& part = num_first_ > 0 ? kFirstModulation : kModulation;
  scope.uses(part);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(part).modulate(sigma, options_.dtype));
}

/// Those of a part of the body: all, the first on the text, or the last on what the first gave.
void Flux2Model::run_blocks(pipeline::Scope& scope, const std::string& part, const std::string& result) {
  scope.uses(part);
  Transformer::Inputs in;
  in.noisy_BCHW = scope.tensor("noisy");
  if (options_.references) in.references_BCHW = references_of(scope);
  if (part == kLastBlocks) in.hidden_BLD = scope.tensor("hidden_states");
  else in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  in.modulation_BM = scope.tensor("modulation");
  scope.write(result, loaded<Transformer>(part).forward(in));
}

pipeline::Units Flux2Model::denoise_units() {
  using pipeline::Scope;
  auto unit = [this](const std::string& name, const std::string& read, const std::string& result, const std::string& part) {
    std::vector<std::string> reads{"noisy", read, "modulation"};
    if (options_.references) reads.emplace_back("latents_of_references");
    return pipeline::Unit{name, reads, {result}, {part}, [this, part, result](Scope& s) { run_blocks(s, part, result); }};
  };
  const auto& modulation = num_first_ > 0 ? kFirstModulation : kModulation;
  pipeline::Units units{{"modulate", {"sigma"}, {"modulation"}, {modulation}, [this](Scope& s) { modulate(s); }}};
  if (num_first_ == 0) {
    units.push_back(unit("denoise", "text_embedding", "prediction", kBody));
  } else {
    units.push_back(unit("run_first_blocks", "text_embedding", "hidden_states", kFirstBody));
    units.push_back(unit("denoise", "hidden_states", "prediction", kLastBlocks));
  }
  return units;
}

UnitGroups Flux2Model::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = {{"encode_prompt", {"prompt"}, {"text_embedding"}, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  auto encode = [this](const at::Tensor& image) { return loaded<vae::PatchAutoencoder>("vae").encode(image.to(options_.device)); };
  groups.encode_image = latent_units(options_.latents, "vae", encode);
  if (options_.references) groups.encode_references = reference_picture_units("vae", encode);
  groups.add_noise = noise_units(*process_);
  groups.denoise = denoise_units();
  groups.decode = decode_units("vae", [this](const at::Tensor& latents) { return loaded<vae::PatchAutoencoder>("vae").decode(latents); });
  return groups;
}

}  // namespace burnish::models::flux2
