#include "models/families/stable_diffusion/model.h"

#include <fmt/core.h>

#include "base/input_error.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/families/stable_diffusion/stated_prediction.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"

namespace burnish::models::stable_diffusion {

namespace {

/// Returns what a text encoder's config.json would say where there is none: heads of 64 channels, and exact GELU in the second one.
text::ClipConfig published(const io::Shapes& shapes, bool second) {
  text::ClipConfig c;
  auto table = shapes.find("embeddings.token_embedding.weight");
  if (table != shapes.end() && !table->second.empty()) c.num_heads = std::max<int64_t>(1, table->second.back() / 64);
  c.quick_gelu = !second;
  return c;
}

const Source& source_of(const Sources& sources, const std::string& text_encoder) {
  return text_encoder == "text_encoder_2" ? sources.text_encoder_2 : sources.text_encoder;
}

}  // namespace

StableDiffusionModel::StableDiffusionModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  auto sources = find_sources(files_);
  read_configs(sources);
  add_unet(sources.unet);
  for (const auto& name : text_encoders()) add_text_encoder(name, source_of(sources, name));
  add(autoencoder_, /*patch=*/1);
  // StableDiffusionXLPipeline.load_lora_weights refuses names without "lora" in them.
  for (auto& [name, names] : names_.components) names.layers.diffusers_alpha = false;
  fill_names();
  check_fit(sources);
  auto discrete = schedule(sources.unet);
  if (discrete.prediction_type == "v_prediction") names_.marks.emplace_back("v_pred");
  if (discrete.zero_terminal_snr) names_.marks.emplace_back("ztsnr");
  names_.file_words.prediction = words_of_prediction(discrete.prediction_type == "v_prediction", discrete.zero_terminal_snr);
  process_ = std::make_unique<diffusion::DiscreteProcess>(discrete);
}

void StableDiffusionModel::read_configs(const Sources& sources) {
  config_ = sources.text_encoder_2.entry ? Config{} : sd15();
  if (sources.unet.entry) config_ = read_named(sources.unet, detect);
  for (const auto& name : text_encoders()) {
    auto& config = clip_configs_[name];
    const auto& from = source_of(sources, name);
    if (!from.entry && name == "text_encoder_2") config = text::open_clip_big_g();
    if (!from.entry) continue;
    config = naming(from.entry->label, [&] {
      return text::clip_config(from.entry->config, from.shapes(), published(from.shapes(), name == "text_encoder_2"));
    });
  }
  autoencoder_ =
      kl_part(sources.vae, options_,
              {.channels = config_.out_channels, .latents = {.scale = is_xl() ? 0.13025 : 0.18215}, .single_prefix = "first_stage_model."});
}

std::vector<std::string> StableDiffusionModel::text_encoders() const {
  return is_xl() ? std::vector<std::string>{"text_encoder", "text_encoder_2"} : std::vector<std::string>{"text_encoder"};
}

/// Parts that belong to different models are told apart by their widths.
void StableDiffusionModel::check_fit(const Sources& sources) const {
  if (!sources.unet.entry) return;
  if (sources.vae.entry && autoencoder_.channels != config_.in_channels) {
    data_error("models", "the UNet takes {} latent channels and the autoencoder makes {}; {}", config_.in_channels, autoencoder_.channels,
               config_.in_channels > autoencoder_.channels ? "inpainting and other UNets with further inputs are not supported"
                                                           : "they belong to different models");
  }
  int64_t width = 0;
  auto skip = options_.get<int64_t>("clip_skip");
  for (const auto& name : text_encoders()) {
    if (!source_of(sources, name).entry) return;
    width += clip_configs_.at(name).width;
    if (auto layers = clip_configs_.at(name).num_layers; skip > layers)
      config_error("models", "clip_skip {} goes back beyond the {} layers of {}", skip, layers, name);
  }
  if (width != config_.cross_attention_dim) {
    data_error("models", "the UNet reads text embeddings of width {} and the text encoders make {}; they belong to different models",
               config_.cross_attention_dim, width);
  }
}

/// The scheduler file's schedule, but for what the UNet's own file says.
diffusion::DiscreteConfig StableDiffusionModel::schedule(const Source& unet) const {
  diffusion::DiscreteConfig c;
  if (auto values = read_scheduler(files_))
    c = naming(files_.in_pipeline("scheduler")->string(), [&] { return diffusion::discrete_config(*values); });
  const auto stated = unet.entry && unet.entry->tensors ? stated_prediction(*unet.entry) : StatedPrediction{};
  if (!stated.type.empty()) c.prediction_type = stated.type;
  if (const auto& chosen = options_.get<std::string>("prediction_type"); !chosen.empty()) c.prediction_type = chosen;
  if ((stated.zero_terminal_snr || options_.get<bool>("zero_terminal_snr")) && !c.zero_terminal_snr) {
    c.zero_terminal_snr = true;
    c.timestep_spacing = "trailing";  // leading steps never come to the last timestep
  }
  return c;
}

void StableDiffusionModel::add_unet(const Source& source) {
  add({.name = "unet",
       .what = "UNet",
       .source = source,
       .build = [this](const std::string&, const at::TensorOptions& options) { return std::make_unique<UNet>(config_, options); },
       .initialise = [this](nn::Module& whole) { static_cast<UNet&>(whole).initialise(options_.seed); },
       .blocks = [](nn::Module& whole) { return static_cast<UNet&>(whole).blocks(); }},
      {.layers = {"", "unet.", "lora_unet_"},
       .lora_targets = "to_q,to_k,to_v,to_out.0,ff.net.0.proj,ff.net.2,proj_in,proj_out",
       .high_precision = {"conv_in", "conv_out", "time_embedding\\..*", "add_embedding\\..*", R"(.*\.time_emb_proj)"},
       .foreign_layers = foreign_unet_layers(config_),
       .written = written_unet_layers(config_),
       .single_file = {"model.diffusion_model.", ldm_keys(config_)}});
}

/// Returns the names of one of the text encoders; `names` are what all CLIP encoders have in common.
ComponentNames StableDiffusionModel::text_names(const std::string& name, ComponentNames names) const {
  bool second = name == "text_encoder_2";
  auto num_layers = clip_configs_.at(name).num_layers;
  names.high_precision = {"text_projection"};
  names.foreign_layers = foreign_text_layers(num_layers, second);
  if (second) {  // its pooled embedding comes from the last layer
    names.single_file = {"conditioner.embedders.1.model.", text::open_clip_keys()};
    return names;
  }
  names.single_file.prefix = is_xl() ? "conditioner.embedders.0.transformer." : "cond_stage_model.transformer.";
  names.not_run = {"text_projection"};
  for (auto layer = num_layers - layers_back() + 1; layer < num_layers; ++layer)
    names.without_gradient.push_back(fmt::format("encoder.layers.{}", layer));
  if (is_xl()) names.without_gradient.emplace_back("final_layer_norm");
  return names;
}

void StableDiffusionModel::fill_names() {
  names_.family = "stable_diffusion";
  names_.variant = is_xl() ? "SDXL" : "SD 1.5";
  names_.file_words = is_xl()
                          ? FileWords{"stable-diffusion-xl-v1-base", "https://github.com/Stability-AI/generative-models", "sdxl_base_v1-0"}
                          : FileWords{"stable-diffusion-v1", "", "sd_v1"};
  names_.experts = {{"unet"}};
  names_.values["latents"] = {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = {"input_latents"}};
  if (is_xl()) {
    // DiffSynth-Studio has the states of both encoders in one tensor.
    const auto width = clip_configs_.at("text_encoder").width;
    names_.values["text_embedding"] = {.diffsynth = channels_of("prompt_embeds", 0, width), .of_prompt = true};
    names_.values["text_embedding_2"] = {.diffsynth = channels_of("prompt_embeds", width, -1), .of_prompt = true};
    names_.values["pooled_embedding"] = {.shape = {-1, config_.pooled_dim}, .diffsynth = {"pooled_prompt_embeds"}, .of_prompt = true};
    names_.values["time_ids"] = {.shape = {-1, 6}, .diffsynth = {"add_time_ids"}};
  } else {
    names_.values["text_embedding"] = {.shape = {-1, -1, config_.cross_attention_dim}, .diffsynth = {"prompt_embeds"}, .of_prompt = true};
  }
  names_.zeros_for_no_prompt = is_xl();
  if (auto index = files_.in_pipeline("model_index.json"))
    io::take(io::read_json(*index), "force_zeros_for_empty_prompt", names_.zeros_for_no_prompt, "pipeline");
}

void StableDiffusionModel::add_text_encoder(const std::string& name, const Source& source) {
  bool second = name == "text_encoder_2";
  auto part = clip_part(source, clip_configs_.at(name),
                        {.name = name,
                         .kohya = second    ? "lora_te2_"
                                  : is_xl() ? "lora_te1_"
                                            : "lora_te_",
                         .comfyui = second ? "text_encoders.clip_g.transformer." : "text_encoders.clip_l.transformer."},
                        files_, options_);
  auto& recipe = part.recipe;
  if (second) recipe.what = "second text encoder (OpenCLIP bigG)";
  recipe.settings = [this](const std::string&) {
    return fmt::format("clip_skip {}, max_token_length {}", options_.get<int64_t>("clip_skip"), options_.get<int64_t>("max_token_length"));
  };
  recipe.tokenizer = {.folder = [this, name] { return tokenizer_of(name); },
                      .load =
                          [this, second](const std::filesystem::path& folder) {
                            bool own = folder.filename() == "tokenizer_2" || !options_.tokenizer_2_path.empty();
                            return tokenizers::load_clip(folder, second && !own ? "!" : "");
                          },
                      .limit = [this, name](const auto&) { return num_chunks() * (chunk_length(name) - 2) + 2; },
                      .option = "max_token_length",
                      .vocab_size = clip_configs_.at(name).vocab_size,
                      .table = recipe.tokenizer->table,
                      .vectors = second ? "clip_g" : "clip_l"};
  add(recipe, text_names(name, part.names));
}

/// SDXL's two tokenizers have one vocabulary, so either folder does for both; the second one pads with id 0.
std::filesystem::path StableDiffusionModel::tokenizer_of(const std::string& text_encoder) const {
  if (text_encoder == "text_encoder_2") {
    if (auto own = find_tokenizer(files_, options_.tokenizer_2_path, "tokenizer_2")) return *own;
  }
  return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "CLIP");
}

}  // namespace burnish::models::stable_diffusion
