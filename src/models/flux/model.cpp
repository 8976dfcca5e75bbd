#include "models/flux/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "models/flux/keys.h"
#include "models/scheduler_file.h"
#include "models/shared_units.h"

namespace burnish::models::flux {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";  // each with a modulation and a body
const std::string kFirstModulation = kFirst + ".modulation", kFirstBody = kFirst + ".body";
const std::string kLastModulation = kLast + ".modulation", kLastBody = kLast + ".body";

at::Tensor as_ids(const tokenizers::Encoded& encoded) { return at::tensor(encoded.ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0); }

}  // namespace

FluxModel::FluxModel(const ModelFiles& files, const ModelOptions& options) : FileModel(files, options) {
  auto sources = find_sources(files_);
  add_component("dit", "transformer", sources.dit);
  add_component("text_encoder", "CLIP text encoder", sources.text_encoder);
  add_component("text_encoder_2", "T5 encoder", sources.text_encoder_2);
  add_component("vae", "KL autoencoder", sources.vae);
  const auto& [dit, clip, t5, vae] = sources;
  if (dit.entry) config_ = detect(dit.entry->config.is_null() ? nullptr : &dit.entry->config, dit.shapes());
  if (clip.entry) clip_config_ = text::clip_config(clip.entry->config, clip.shapes());
  if (t5.entry) t5_config_ = text::t5_config(t5.entry->config, t5.shapes());
  if (vae.entry) vae_config_ = models::vae::kl_config(vae.entry->config, vae.shapes());
  if (vae_config_.latent_channels * 4 != config_.in_channels && vae.entry && dit.entry) {
    data_error("models", "the transformer takes {} latent channels and the autoencoder makes {}; they belong to different models",
               config_.in_channels / 4, vae_config_.latent_channels);
  }
  foreign_layers_["dit"] = foreign_layers(config_);
  process_ = std::make_unique<diffusion::FlowProcess>(sampler_config());
}

std::vector<std::string> FluxModel::parts(const std::string& component) const {
  if (component != "dit") return {component};
  if (num_first_ > 0) return {kFirstModulation, kFirstBody, kLastModulation, kLastBody};
  return {kModulation, kBody};
}

Part FluxModel::part_of(const std::string& name) const {
  Part part{.modulation = !name.ends_with(".body"), .body = !name.ends_with(".modulation")};
  if (name.starts_with(kFirst)) part.end = num_first_;
  if (name.starts_with(kLast)) part.begin = num_first_;
  return part;
}

std::string FluxModel::split_first_blocks(const std::function<bool(const std::string& path)>& trains) {
  num_first_ = config_.num_double_blocks + config_.num_single_blocks;
  for (const auto& [path, slot] : skeleton("dit")->parameters()) {
    if (trains(path)) num_first_ = std::min(num_first_, blocks_before(path, config_));
  }
  return num_first_ > 0 ? kFirst : "";
}

std::unique_ptr<nn::Module> FluxModel::build(const std::string& component, const at::TensorOptions& options) const {
  if (component_of(component) == "dit") return std::make_unique<Transformer>(config_, options, part_of(component));
  if (component == "text_encoder") return std::make_unique<text::ClipTextModel>(clip_config_, options);
  if (component == "text_encoder_2") return std::make_unique<text::T5Encoder>(t5_config_, options);
  return std::make_unique<vae::AutoencoderKL>(vae_config_, options);
}

std::vector<std::string> FluxModel::high_precision(const std::string& component) const {
  if (component == "vae") return {".*"};
  if (component_of(component) != "dit") return {};  // the encoders' linear layers all lie in their blocks
  return {"x_embedder",
          "context_embedder",
          "time_text_embed\\..*",
          R"(transformer_blocks\..*\.norm1(_context)?\.linear)",
          R"(single_transformer_blocks\..*\.norm\.linear)",
          "norm_out\\.linear",
          "proj_out"};
}

std::string FluxModel::settings(const std::string& component) const {
  std::vector<std::string> own;
  if (component.starts_with(kFirst) || component.starts_with(kLast)) own.push_back(fmt::format("split after {} blocks", num_first_));
  if ((component == kModulation || component == kFirstModulation) && config_.guidance_embeds)
    own.push_back(fmt::format("embedded_guidance {}", options_.embedded_guidance));
  if (component == "text_encoder_2") own.push_back(fmt::format("max_sequence_length {}", options_.max_sequence_length));
  return join(own);
}

std::filesystem::path FluxModel::tokenizer_folder(const std::string& component) const {
  if (!component.starts_with("text_encoder")) return {};
  bool second = component == "text_encoder_2";
  const auto& chosen = second ? options_.tokenizer_2_path : options_.tokenizer_path;
  const auto* usual = second ? "tokenizer_2" : "tokenizer";
  if (!chosen.empty()) return chosen;
  if (auto found = files_.in_pipeline(usual)) return *found;
  data_error("models", "no {} tokenizer beside the model; name its folder with --{}_path", second ? "T5" : "CLIP", usual);
}

void FluxModel::load_tokenizer(const std::string& component) {
  if (component == "text_encoder" && !tokenizer_) tokenizer_ = tokenizers::load_clip(tokenizer_folder(component));
  if (component == "text_encoder_2" && !tokenizer_2_) tokenizer_2_ = tokenizers::load_t5(tokenizer_folder(component));
}

std::vector<int64_t> FluxModel::latent_shape(int64_t height, int64_t width) const {
  check_size(height, width);
  return {vae_config_.latent_channels, height / vae_config_.downsampling(), width / vae_config_.downsampling()};
}

diffusion::FlowSamplerConfig FluxModel::sampler_config() const {
  if (auto values = read_scheduler(files_)) return diffusion::flow_sampler_config(*values);
  diffusion::FlowSamplerConfig c;
  c.use_dynamic_shifting = config_.guidance_embeds;
  c.shift = config_.guidance_embeds ? 3.0 : 1.0;
  return c;
}

// diffusers' and sd-scripts' prefixes (lora_te3_ is what sd-scripts calls T5, OneTrainer's lora_transformer_ stands before diffusers'
// names).
LayerNames FluxModel::layer_names(const std::string& component) const {
  if (component == "dit") return {"", "transformer.", "lora_transformer_"};
  if (component == "text_encoder") return {"text_model.", "text_encoder.", "lora_te1_"};
  if (component == "text_encoder_2") return {"", "text_encoder_2.", "lora_te3_"};
  return FileModel::layer_names(component);
}

std::vector<std::string> FluxModel::target_names(const std::string& component, const std::string& path) const {
  return component == "dit" ? flux::target_names(path) : std::vector<std::string>{};
}

std::string FluxModel::default_lora_targets(const std::string& component) const {
  if (component == "text_encoder") return "q_proj,k_proj,v_proj,out_proj,fc1,fc2";
  if (component == "text_encoder_2") return "q,k,v,o,wi,wi_0,wi_1,wo";
  if (component != "dit") return "all-linear";
  return "a_to_qkv,b_to_qkv,ff_a.0,ff_a.2,ff_b.0,ff_b.2,a_to_out,b_to_out,proj_out,norm.linear,norm1_a.linear,norm1_b.linear,to_qkv_mlp";
}

void FluxModel::encode_prompt_1(pipeline::Scope& scope) {
  scope.uses("text_encoder");
  auto& clip = loaded<text::ClipTextModel>("text_encoder");
  auto ids = as_ids(tokenizer_->encode_padded(scope.text("prompt"), std::min<int64_t>(77, clip_config_.max_positions))).to(options_.device);
  scope.write("pooled_embedding", clip.forward(ids).pooled_BE);
}

void FluxModel::encode_prompt_2(pipeline::Scope& scope) {
  scope.uses("text_encoder_2");
  auto& t5 = loaded<text::T5Encoder>("text_encoder_2");
  auto limit = tokenizer_2_->model_max_length() > 0 ? std::min<int64_t>(512, tokenizer_2_->model_max_length()) : 512;
  auto length = options_.max_sequence_length > 0 ? options_.max_sequence_length : limit;
  scope.write("text_embedding", t5.forward(as_ids(tokenizer_2_->encode_padded(scope.text("prompt"), length)).to(options_.device)));
}

Transformer::Conditions FluxModel::conditions(pipeline::Scope& scope) const {
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  return {.pooled_BE = scope.tensor("pooled_embedding").to(options_.device, options_.dtype),
          .sigma_B = sigma,
          .guidance_B = at::full(sigma.sizes(), options_.embedded_guidance, sigma.options())};
}

void FluxModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(conditions(scope)));
}

void FluxModel::modulate_first(pipeline::Scope& scope) {
  scope.uses(kFirstModulation);
  const auto& transformer = loaded<Transformer>(kFirstModulation);
  auto conditioning = transformer.condition(conditions(scope));
  scope.write("conditioning", conditioning);
  scope.write("first_modulation", transformer.modulate(conditioning));
}

/// What the blocks from the first on read.
Transformer::Inputs FluxModel::inputs(pipeline::Scope& scope, const std::string& modulation) const {
  const auto& noisy = scope.tensor("noisy");
  return {.latents_BIC = pack_latents(noisy).to(options_.dtype),
          .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
          .modulation_BM = scope.tensor(modulation),
          .rows = noisy.size(2) / 2,
          .columns = noisy.size(3) / 2};
}

void FluxModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  auto in = inputs(scope, "modulation");
  scope.write("prediction", unpack_latents(loaded<Transformer>(kBody).forward(in), in.rows, in.columns));
}

void FluxModel::run_first_blocks(pipeline::Scope& scope) {
  scope.uses(kFirstBody);
  scope.write("hidden_states", loaded<Transformer>(kFirstBody).forward(inputs(scope, "first_modulation")));
}

void FluxModel::finish_blocks(pipeline::Scope& scope) {
  scope.uses(kLastBody);
  auto rows = scope.tensor("noisy").size(2) / 2, columns = scope.tensor("noisy").size(3) / 2;
  Transformer::Inputs in;
  in.hidden_BLD = scope.tensor("hidden_states");
  in.modulation_BM = scope.tensor("last_modulation");
  in.rows = rows;
  in.columns = columns;
  scope.write("prediction", unpack_latents(loaded<Transformer>(kLastBody).forward(in), rows, columns));
}

pipeline::Units FluxModel::denoise_units() {
  using pipeline::Scope;
  if (num_first_ == 0)
    return {{"modulate", {"sigma", "pooled_embedding"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
            {"denoise", {"noisy", "text_embedding", "modulation"}, {"prediction"}, {kBody}, [this](Scope& s) { denoise(s); }}};
  auto modulate_last = [this](Scope& s) {
    s.uses(kLastModulation);
    s.write("last_modulation", loaded<Transformer>(kLastModulation).modulate(s.tensor("conditioning")));
  };
  return {{"modulate_first",
           {"sigma", "pooled_embedding"},
           {"conditioning", "first_modulation"},
           {kFirstModulation},
           [this](Scope& s) { modulate_first(s); }},
          {"modulate_last", {"conditioning"}, {"last_modulation"}, {kLastModulation}, modulate_last},
          {"run_first_blocks",
           {"noisy", "text_embedding", "first_modulation"},
           {"hidden_states"},
           {kFirstBody},
           [this](Scope& s) { run_first_blocks(s); }},
          {"denoise", {"noisy", "hidden_states", "last_modulation"}, {"prediction"}, {kLastBody}, [this](Scope& s) { finish_blocks(s); }}};
}

std::map<std::string, std::vector<int64_t>> FluxModel::value_shapes() const {
  return {{"latents", {-1, config_.in_channels / 4, -1, -1}},
          {"text_embedding", {-1, -1, config_.joint_attention_dim}},
          {"pooled_embedding", {-1, config_.pooled_projection_dim}}};
}

UnitGroups FluxModel::units() {
  using pipeline::Scope;
  UnitGroups groups;
  groups.encode_prompt = {
      {"encode_prompt_clip", {"prompt"}, {"pooled_embedding"}, {"text_encoder"}, [this](Scope& s) { encode_prompt_1(s); }},
      {"encode_prompt_t5", {"prompt"}, {"text_embedding"}, {"text_encoder_2"}, [this](Scope& s) { encode_prompt_2(s); }},
  };
  groups.encode_image = latent_units(options_.latents, "vae", [this](const at::Tensor& image) {
    return loaded<vae::AutoencoderKL>("vae").encode(image.to(options_.device));
  });
  groups.add_noise = noise_units(*process_);
  groups.denoise = denoise_units();
  groups.loss = loss_units();
  groups.decode = decode_units("vae", [this](const at::Tensor& latents) { return loaded<vae::AutoencoderKL>("vae").decode(latents); });
  return groups;
}

}  // namespace burnish::models::flux
