#include "models/stable_diffusion/model.h"

#include <fmt/core.h>

#include "base/error.h"
#include "io/json.h"
#include "models/scheduler_file.h"

namespace burnish::models::stable_diffusion {

namespace {

/// What a text encoder's config.json would say where there is none: heads of 64 channels, and exact GELU in the second one.
text::ClipConfig published(const io::Shapes& shapes, bool second) {
  text::ClipConfig c;
  auto table = shapes.find("embeddings.token_embedding.weight");
  if (table != shapes.end()) c.num_heads = std::max<int64_t>(1, table->second.back() / 64);
  c.quick_gelu = !second;
  return c;
}

}  // namespace

StableDiffusionModel::StableDiffusionModel(const ModelFiles& files, const ModelOptions& options) : FileModel(files, options) {
  auto sources = find_sources(files_);
  config_ = sources.text_encoder_2.entry ? Config{} : sd15();
  add_component("unet", "UNet", sources.unet);
  if (const auto* entry = sources.unet.entry) config_ = detect(entry->config.is_null() ? nullptr : &entry->config, sources.unet.shapes());
  add_component("text_encoder", "CLIP text encoder", sources.text_encoder);
  if (is_xl()) add_component("text_encoder_2", "second text encoder (OpenCLIP bigG)", sources.text_encoder_2);
  add_component("vae", "KL autoencoder", sources.vae);
  for (const auto& name : text_encoders()) {
    const auto& from = source(name);
    bool second = name == "text_encoder_2";
    if (from.entry) clip_configs_[name] = text::clip_config(from.entry->config, from.shapes(), published(from.shapes(), second));
    foreign_layers_[name] = foreign_text_layers(clip_configs_[name].num_layers, second);
  }
  foreign_layers_["unet"] = foreign_unet_layers(config_);
  vae_config_.latent_channels = config_.out_channels;
  if (sources.vae.entry) vae_config_ = vae::kl_config(sources.vae.entry->config, sources.vae.shapes(), is_xl() ? 0.13025 : 0.18215);
  check_fit();
  process_ = std::make_unique<diffusion::DiscreteProcess>(schedule());
  zeros_for_no_prompt_ = is_xl();
  if (auto index = files_.in_pipeline("model_index.json"))
    zeros_for_no_prompt_ = io::read_json(*index).value("force_zeros_for_empty_prompt", zeros_for_no_prompt_);
}

std::vector<std::string> StableDiffusionModel::text_encoders() const {
  return is_xl() ? std::vector<std::string>{"text_encoder", "text_encoder_2"} : std::vector<std::string>{"text_encoder"};
}

/// Parts that belong to different models are told apart by their widths.
void StableDiffusionModel::check_fit() const {
  if (!source("unet").entry) return;
  if (source("vae").entry && vae_config_.latent_channels != config_.in_channels) {
    data_error("models", "the UNet takes {} latent channels and the autoencoder makes {}; {}", config_.in_channels,
               vae_config_.latent_channels,
               config_.in_channels > vae_config_.latent_channels ? "inpainting and other UNets with further inputs are not supported"
                                                                 : "they belong to different models");
  }
  int64_t width = 0;
  for (const auto& name : text_encoders()) {
    if (!source(name).entry) return;
    width += clip_configs_.at(name).width;
    if (auto layers = clip_configs_.at(name).num_layers; options_.clip_skip > layers)
      config_error("models", "clip_skip {} goes back beyond the {} layers of {}", options_.clip_skip, layers, name);
  }
  if (width != config_.cross_attention_dim) {
    data_error("models", "the UNet reads text embeddings of width {} and the text encoders make {}; they belong to different models",
               config_.cross_attention_dim, width);
  }
}

/// The scheduler file's schedule; single files of models with v-prediction may hold the marks "v_pred" and "ztsnr".
diffusion::DiscreteConfig StableDiffusionModel::schedule() const {
  diffusion::DiscreteConfig c;
  if (auto values = read_scheduler(files_)) c = diffusion::discrete_config(*values);
  const auto* entry = source("unet").entry;
  auto has = [&](const char* mark) { return entry && entry->tensors && entry->tensors->contains(mark); };
  if (has("v_pred")) c.prediction_type = "v_prediction";
  if (!options_.prediction_type.empty()) c.prediction_type = options_.prediction_type;
  if ((has("ztsnr") || options_.zero_terminal_snr) && !c.zero_terminal_snr) {
    c.zero_terminal_snr = true;
    c.timestep_spacing = "trailing";  // leading steps never come to the last timestep
  }
  return c;
}

std::unique_ptr<nn::Module> StableDiffusionModel::build(const std::string& component, const at::TensorOptions& options) const {
  if (component == "unet") return std::make_unique<UNet>(config_, options);
  if (component == "vae") return std::make_unique<vae::AutoencoderKL>(vae_config_, options);
  return std::make_unique<text::ClipTextModel>(clip_configs_.at(component), options);
}

std::vector<std::string> StableDiffusionModel::high_precision(const std::string& component) const {
  if (component == "vae") return {".*"};
  if (component != "unet") return {"text_projection"};
  return {"conv_in", "conv_out", "time_embedding\\..*", "add_embedding\\..*", R"(.*\.time_emb_proj)"};
}

std::string StableDiffusionModel::settings(const std::string& component) const {
  if (!component.starts_with("text_encoder")) return "";
  return fmt::format("clip_skip {}, max_token_length {}", options_.clip_skip, options_.max_token_length);
}

std::vector<nn::Block*> StableDiffusionModel::blocks(const std::string& component) {
  return component == "unet" ? loaded<UNet>("unet").blocks() : Model::blocks(component);
}

/// SDXL's two tokenizers have one vocabulary, so either folder does for both; the second one pads with id 0.
std::filesystem::path StableDiffusionModel::tokenizer_folder(const std::string& component) const {
  if (!component.starts_with("text_encoder")) return {};
  bool second = component == "text_encoder_2";
  const auto& chosen = second ? options_.tokenizer_2_path : options_.tokenizer_path;
  if (!chosen.empty()) return chosen;
  if (auto found = files_.in_pipeline(second ? "tokenizer_2" : "tokenizer")) return *found;
  if (second && !options_.tokenizer_path.empty()) return options_.tokenizer_path;
  if (auto found = files_.in_pipeline("tokenizer")) return *found;
  data_error("models", "no CLIP tokenizer beside the model; name its folder with --tokenizer_path");
}

void StableDiffusionModel::load_tokenizer(const std::string& component) {
  if (component == "text_encoder" && !tokenizer_) tokenizer_ = tokenizers::load_clip(tokenizer_folder(component));
  if (component != "text_encoder_2" || tokenizer_2_) return;
  auto folder = tokenizer_folder(component);
  bool own = folder.filename() == "tokenizer_2" || !options_.tokenizer_2_path.empty();
  tokenizer_2_ = tokenizers::load_clip(folder, own ? "" : "!");
}

std::vector<int64_t> StableDiffusionModel::latent_shape(int64_t height, int64_t width) const {
  check_size(height, width);
  return {vae_config_.latent_channels, height / size_division(), width / size_division()};
}

std::map<std::string, std::vector<int64_t>> StableDiffusionModel::value_shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes{{"latents", {-1, config_.in_channels, -1, -1}}};
  if (is_xl()) shapes.insert({{"pooled_embedding", {-1, config_.pooled_dim}}, {"time_ids", {-1, 6}}});
  else shapes["text_embedding"] = {-1, -1, config_.cross_attention_dim};
  return shapes;
}

std::vector<std::string> StableDiffusionModel::prompt_values() const {
  if (!is_xl()) return {"text_embedding"};
  return {"text_embedding", "text_embedding_2", "pooled_embedding"};
}

LayerNames StableDiffusionModel::layer_names(const std::string& component) const {
  constexpr bool kAlpha = false;  // StableDiffusionXLPipeline.load_lora_weights refuses names without "lora" in them
  if (component == "unet") return {"", "unet.", "lora_unet_", kAlpha};
  if (component == "text_encoder") return {"text_model.", "text_encoder.", is_xl() ? "lora_te1_" : "lora_te_", kAlpha};
  if (component == "text_encoder_2") return {"text_model.", "text_encoder_2.", "lora_te2_", kAlpha};
  return {"", component + ".", "lora_" + component + "_", kAlpha};
}

std::string StableDiffusionModel::default_lora_targets(const std::string& component) const {
  if (component == "unet") return "to_q,to_k,to_v,to_out.0,ff.net.0.proj,ff.net.2,proj_in,proj_out";
  return component == "vae" ? "all-linear" : "q_proj,k_proj,v_proj,out_proj,fc1,fc2";
}

}  // namespace burnish::models::stable_diffusion
