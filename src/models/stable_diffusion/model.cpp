#include "models/stable_diffusion/model.h"

#include <fmt/core.h>

#include "base/dtype.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "models/loading.h"
#include "models/scheduler_file.h"

namespace burnish::models::stable_diffusion {

namespace {

const std::vector<std::string> kComponents{"unet", "text_encoder", "text_encoder_2", "vae"};

io::Shapes shapes_of(const Source& source) { return source.part ? source.part->shapes() : io::Shapes{}; }

io::Shapes shapes_of(nn::Module& module) {
  io::Shapes shapes;
  module.visit_parameters([&](const std::string& name, at::Tensor& p) { shapes[name] = p.sizes().vec(); });
  return shapes;
}

/// What a text encoder's config.json would say where there is none: heads of 64 channels, and exact GELU in the second one.
text::ClipConfig published(const io::Shapes& shapes, bool second) {
  text::ClipConfig c;
  auto table = shapes.find("embeddings.token_embedding.weight");
  if (table != shapes.end()) c.num_heads = std::max<int64_t>(1, table->second.back() / 64);
  c.quick_gelu = !second;
  return c;
}

}  // namespace

StableDiffusionModel::StableDiffusionModel(const ModelFiles& files, const ModelOptions& options)
    : files_(files), options_(options), sources_(find_sources(files_)) {
  config_ = sources_.text_encoder_2.entry ? Config{} : sd15();
  if (const auto* entry = sources_.unet.entry) {
    config_ = detect(entry->config.is_null() ? nullptr : &entry->config, shapes_of(sources_.unet));
    if (!sources_.unet.part && options_.init != "random") {
      data_error("models", "{} holds a config.json and no weights; add the weights, or train from scratch with --init random",
                 entry->label);
    }
  }
  for (const std::string name : {"text_encoder", "text_encoder_2"}) {
    const auto& from = source(name);
    bool second = name == "text_encoder_2";
    if (from.entry) clip_configs_[name] = text::clip_config(from.entry->config, shapes_of(from), published(shapes_of(from), second));
    foreign_layers_[name] = foreign_text_layers(clip_configs_[name].num_layers, second);
  }
  foreign_layers_["unet"] = foreign_unet_layers(config_);
  vae_config_.latent_channels = config_.out_channels;
  if (const auto* entry = sources_.vae.entry)
    vae_config_ = vae::kl_config(entry->config, shapes_of(sources_.vae), is_xl() ? 0.13025 : 0.18215);
  check_fit();
  process_ = std::make_unique<diffusion::DiscreteProcess>(schedule());
  zeros_for_no_prompt_ = is_xl();
  if (auto index = files_.in_pipeline("model_index.json"))
    zeros_for_no_prompt_ = io::read_json(*index).value("force_zeros_for_empty_prompt", zeros_for_no_prompt_);
}

/// Parts that belong to different models are told apart by their widths.
void StableDiffusionModel::check_fit() const {
  if (!sources_.unet.entry) return;
  if (sources_.vae.entry && vae_config_.latent_channels != config_.in_channels) {
    data_error("models", "the UNet takes {} latent channels and the autoencoder makes {}; {}", config_.in_channels,
               vae_config_.latent_channels,
               config_.in_channels > vae_config_.latent_channels ? "inpainting and other UNets with further inputs are not supported"
                                                                 : "they belong to different models");
  }
  int64_t width = 0;
  for (const std::string name : {"text_encoder", "text_encoder_2"}) {
    if (!source(name).entry && (name == "text_encoder" || is_xl())) return;
    if (name == "text_encoder" || is_xl()) width += clip_configs_.at(name).width;
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
  auto has = [&](const char* mark) {
    return sources_.unet.entry && sources_.unet.entry->tensors && sources_.unet.entry->tensors->contains(mark);
  };
  if (has("v_pred")) c.prediction_type = "v_prediction";
  if (!options_.prediction_type.empty()) c.prediction_type = options_.prediction_type;
  if ((has("ztsnr") || options_.zero_terminal_snr) && !c.zero_terminal_snr) {
    c.zero_terminal_snr = true;
    c.timestep_spacing = "trailing";  // leading steps never come to the last timestep
  }
  return c;
}

const Source& StableDiffusionModel::source(const std::string& component) const {
  if (component == "unet") return sources_.unet;
  if (component == "text_encoder") return sources_.text_encoder;
  if (component == "text_encoder_2") return sources_.text_encoder_2;
  if (component == "vae") return sources_.vae;
  throw std::logic_error("no component " + component);
}

at::TensorOptions StableDiffusionModel::options_for(const std::string& component) const {
  return at::TensorOptions().dtype(component == "vae" ? at::kFloat : options_.dtype).device(options_.device);
}

std::unique_ptr<nn::Module> StableDiffusionModel::build(const std::string& component, const at::TensorOptions& options) const {
  if (component == "unet") return std::make_unique<UNet>(config_, options);
  if (component == "vae") return std::make_unique<vae::AutoencoderKL>(vae_config_, options);
  return std::make_unique<text::ClipTextModel>(clip_configs_.at(component), options);
}

std::unique_ptr<nn::Module> StableDiffusionModel::skeleton(const std::string& component) const {
  return build(component, options_for(component).device(at::kMeta));
}

std::vector<Component> StableDiffusionModel::components() const {
  std::vector<Component> list;
  for (const auto& name : kComponents) {
    const auto& from = source(name);
    if (!from.entry || (name == "text_encoder_2" && !is_xl())) continue;
    auto on_meta = skeleton(name);
    list.push_back({name, from.entry->label, on_meta->num_bytes()});
    if (!store_of(name)) continue;
    auto plan =
        plan_storage(*on_meta, from.part ? &from.part->tensors : nullptr, from.part ? from.part->keys : io::KeyMap(), *store_of(name));
    auto share = static_cast<double>(plan.stored_elements) / static_cast<double>(plan.elements);
    list.back() = {name, from.entry->label, plan.num_bytes, plan.num_stored, plan.num_kept, share};
  }
  return list;
}

std::vector<std::string> StableDiffusionModel::high_precision(const std::string& component) const {
  if (component == "vae") return {".*"};
  if (component != "unet") return {"text_projection"};
  return {"conv_in", "conv_out", "time_embedding\\..*", "add_embedding\\..*", R"(.*\.time_emb_proj)"};
}

void StableDiffusionModel::check(const std::string& component) {
  static const std::map<std::string, const char*> kWhat{{"unet", "UNet"},
                                                        {"text_encoder", "CLIP text encoder"},
                                                        {"text_encoder_2", "second text encoder (OpenCLIP bigG)"},
                                                        {"vae", "KL autoencoder"}};
  const auto& from = source(component);
  if (!from.entry) {
    data_error("models", "this run needs a {}, and there is none in {}; name it with a further --model", kWhat.at(component),
               files_.describe());
  }
  load_tokenizer(component);
  if (is_random(component)) return;
  if (!from.part)
    data_error("models", "{} holds a config.json and no weights; add the weights of the {}", from.entry->label, kWhat.at(component));
  io::check_named(without_scales(from.part->tensors), from.part->keys, shapes_of(*skeleton(component)), from.entry->label);
}

Provenance StableDiffusionModel::provenance(const std::string& component) const {
  const auto& from = source(component);
  Provenance made;
  if (!from.entry) return made;
  if (from.part) {
    for (const auto& file : from.part->tensors.files()) made.files.push_back(file->path());
  }
  auto dtype = c10::typeMetaToScalarType(options_for(component).dtype());
  made.settings = fmt::format("config {}, {}", from.entry->config.dump(), dtype_name(dtype));
  if (const auto* store = store_of(component); store && !store->settings().empty()) made.settings += ", " + store->settings();
  if (component == "text_encoder" || component == "text_encoder_2") {
    made.settings += fmt::format(", clip_skip {}, max_token_length {}", options_.clip_skip, options_.max_token_length);
    for (const auto& file : io::glob(tokenizer_folder(component), "*")) {
      if (std::filesystem::is_regular_file(file)) made.files.push_back(file);
    }
  }
  return made;
}

void StableDiffusionModel::load(const std::string& component) {
  if (loaded_.contains(component)) return;
  check(component);
  auto built = skeleton(component);
  if (is_random(component)) {
    auto& unet = static_cast<UNet&>(*built);
    unet.initialise(options_.seed);
    unet.visit_parameters([&](const std::string&, at::Tensor& p) { p = p.to(options_.device); });
  } else {
    const auto& from = source(component);
    load_weights(*built, from.part->tensors, from.part->keys, options_for(component), store_of(component), from.entry->label);
  }
  loaded_[component] = std::move(built);
}

nn::Module& StableDiffusionModel::module(const std::string& component) {
  auto it = loaded_.find(component);
  if (it == loaded_.end()) throw std::logic_error("component " + component + " is not loaded");
  return *it->second;
}

std::vector<nn::Block*> StableDiffusionModel::blocks(const std::string& component) {
  return component == "unet" ? loaded<UNet>("unet").blocks() : Model::blocks(component);
}

/// SDXL's two tokenizers have one vocabulary, so either folder does for both; the second one pads with id 0.
std::filesystem::path StableDiffusionModel::tokenizer_folder(const std::string& component) const {
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
  auto division = size_division();
  if (height < division || width < division || height % division || width % division) {
    config_error("models", "height and width must be multiples of {} pixels for this model, not {} and {}", division, height, width);
  }
  return {vae_config_.latent_channels, height / division, width / division};
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

std::vector<std::string> StableDiffusionModel::foreign_layer(const std::string& component, const std::string& name) const {
  auto table = foreign_layers_.find(component);
  if (table == foreign_layers_.end()) return {};
  auto it = table->second.find(name);
  return it == table->second.end() ? std::vector<std::string>{} : it->second;
}

}  // namespace burnish::models::stable_diffusion
