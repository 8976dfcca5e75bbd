#include "models/flux/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/dtype.h"
#include "base/error.h"
#include "base/text.h"
#include "diffusion/flow_match.h"
#include "io/files.h"
#include "io/json.h"
#include "models/flux/keys.h"
#include "models/latents.h"
#include "models/loading.h"

namespace burnish::models::flux {

namespace {

const std::vector<std::string> kComponents{"dit", "text_encoder", "text_encoder_2", "vae"};
const std::string kModulation = "dit.modulation", kBody = "dit.body";

Part part_of(const std::string& name) { return name == kModulation ? Part::modulation : name == kBody ? Part::body : Part::whole; }

/// Without the layers that `wanted` has nothing of. Every layer in a file belongs to one part as a whole.
io::TensorSource only(const io::TensorSource& tensors, const io::KeyMap& keys, const io::Shapes& wanted) {
  std::vector<std::string> others;
  for (const auto& name : without_scales(tensors).names()) {
    if (!wanted.contains(keys.to_ours(name).ours[0])) others.push_back(name.substr(0, name.rfind('.') + 1));
  }
  return tensors.without(others);
}

io::Shapes shapes_of(const Source& source) { return source.tensors ? io::shapes_in_our_names(*source.tensors, source.keys) : io::Shapes{}; }

io::Shapes shapes_of(nn::Module& module) {
  io::Shapes shapes;
  module.visit_parameters([&](const std::string& name, at::Tensor& p) { shapes[name] = p.sizes().vec(); });
  return shapes;
}

at::Tensor as_ids(const tokenizers::Encoded& encoded) { return at::tensor(encoded.ids, at::TensorOptions().dtype(at::kLong)).unsqueeze(0); }

}  // namespace

FluxModel::FluxModel(const ModelFiles& files, const ModelOptions& options)
    : files_(files), options_(options), sources_(find_sources(files_)) {
  if (sources_.dit.entry) {
    const auto& config_json = sources_.dit.entry->config;
    config_ = detect(config_json.is_null() ? nullptr : &config_json, shapes_of(sources_.dit));
  }
  if (sources_.dit.entry && !sources_.dit.tensors && options_.init != "random") {
    data_error("models", "{} holds a config.json and no weights; add the weights, or train from scratch with --init random",
               sources_.dit.entry->label);
  }
  if (sources_.text_encoder.entry) clip_config_ = text::clip_config(sources_.text_encoder.entry->config, shapes_of(sources_.text_encoder));
  if (sources_.text_encoder_2.entry)
    t5_config_ = text::t5_config(sources_.text_encoder_2.entry->config, shapes_of(sources_.text_encoder_2));
  if (sources_.vae.entry) vae_config_ = vae::kl_config(sources_.vae.entry->config, shapes_of(sources_.vae));
  if (vae_config_.latent_channels * 4 != config_.in_channels && sources_.vae.entry && sources_.dit.entry) {
    data_error("models", "the transformer takes {} latent channels and the autoencoder makes {}; they belong to different models",
               config_.in_channels / 4, vae_config_.latent_channels);
  }
  foreign_layers_ = foreign_layers(config_);
  process_ = std::make_unique<diffusion::FlowProcess>(sampler_config());
}

Source& FluxModel::source(const std::string& name) {
  auto component = component_of(name);
  if (component == "dit") return sources_.dit;
  if (component == "text_encoder") return sources_.text_encoder;
  if (component == "text_encoder_2") return sources_.text_encoder_2;
  if (component == "vae") return sources_.vae;
  throw std::logic_error("no component " + component);
}

std::vector<std::string> FluxModel::parts(const std::string& component) const {
  return component == "dit" ? std::vector{kModulation, kBody} : std::vector{component};
}

at::TensorOptions FluxModel::options_for(const std::string& component) const {
  return at::TensorOptions().dtype(component == "vae" ? at::kFloat : options_.dtype).device(options_.device);
}

std::unique_ptr<nn::Module> FluxModel::build(const std::string& component, const at::TensorOptions& options) const {
  if (component_of(component) == "dit") return std::make_unique<Transformer>(config_, options, part_of(component));
  if (component == "text_encoder") return std::make_unique<text::ClipTextModel>(clip_config_, options);
  if (component == "text_encoder_2") return std::make_unique<text::T5Encoder>(t5_config_, options);
  return std::make_unique<vae::AutoencoderKL>(vae_config_, options);
}

std::unique_ptr<nn::Module> FluxModel::skeleton(const std::string& component) const {
  return build(component, options_for(component).device(at::kMeta));
}

std::vector<Component> FluxModel::components() const {
  std::vector<Component> list;
  for (const auto& name : kComponents) {
    if (const_cast<FluxModel*>(this)->source(name).entry) list.push_back(held(name));
  }
  return list;
}

/// How a component or a part will be held; without a name when the files hold no such component.
Component FluxModel::held(const std::string& component) const {
  const auto& from = const_cast<FluxModel*>(this)->source(component);
  if (!from.entry) return {};
  auto on_meta = skeleton(component);
  if (!store_of(component)) return {component, from.entry->label, on_meta->num_bytes()};
  auto plan = plan_storage(*on_meta, from.tensors ? &*from.tensors : nullptr, from.keys, *store_of(component));
  auto share = static_cast<double>(plan.stored_elements) / static_cast<double>(plan.elements);
  return {component, from.entry->label, plan.num_bytes, plan.num_stored, plan.num_kept, share};
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

void FluxModel::check(const std::string& component) {
  static const std::map<std::string, const char*> kWhat{
      {"dit", "transformer"}, {"text_encoder", "CLIP text encoder"}, {"text_encoder_2", "T5 encoder"}, {"vae", "KL autoencoder"}};
  const auto& from = source(component);
  if (!from.entry) {
    data_error("models", "this run needs a {}, and there is none in {}; name it with a further --model", kWhat.at(component_of(component)),
               files_.describe());
  }
  load_tokenizer(component);
  if (is_random(component)) return;
  if (!from.tensors)
    data_error("models", "{} holds a config.json and no weights; add the weights of the {}", from.entry->label,
               kWhat.at(component_of(component)));
  io::check_named(without_scales(*from.tensors), from.keys, shapes_of(*skeleton(component_of(component))), from.entry->label);
}

Provenance FluxModel::provenance(const std::string& component) const {
  const auto& from = const_cast<FluxModel*>(this)->source(component);
  Provenance made;
  if (!from.entry) return made;
  if (from.tensors) {
    for (const auto& file : from.tensors->files()) made.files.push_back(file->path());
  }
  auto dtype = c10::typeMetaToScalarType(options_for(component).dtype());
  made.settings = fmt::format("config {}, {}", from.entry->config.dump(), dtype_name(dtype));
  if (const auto* store = store_of(component); store && !store->settings().empty()) made.settings += ", " + store->settings();
  if (component == kModulation && config_.guidance_embeds)
    made.settings += fmt::format(", embedded_guidance {}", options_.embedded_guidance);
  if (component == "text_encoder_2") made.settings += fmt::format(", max_sequence_length {}", options_.max_sequence_length);
  if (component == "text_encoder" || component == "text_encoder_2") {
    for (const auto& file : io::glob(tokenizer_folder(component), "*")) {
      if (std::filesystem::is_regular_file(file)) made.files.push_back(file);
    }
  }
  return made;
}

void FluxModel::load(const std::string& component) {
  if (loaded_.contains(component)) return;
  check(component);
  auto built = skeleton(component);
  if (is_random(component)) {
    Transformer whole(config_, options_for(component).device(at::kMeta));
    whole.initialise(options_.seed);
    auto made = whole.parameters();
    built->visit_parameters([&](const std::string& path, at::Tensor& p) { p = made.at(path)->to(options_.device); });
  } else {
    const auto& from = source(component);
    load_weights(*built, only(*from.tensors, from.keys, shapes_of(*built)), from.keys, options_for(component), store_of(component),
                 from.entry->label);
  }
  loaded_[component] = std::move(built);
}

std::filesystem::path FluxModel::tokenizer_folder(const std::string& component) const {
  bool second = component == "text_encoder_2";
  const auto& chosen = second ? options_.tokenizer_2_path : options_.tokenizer_path;
  const auto* usual = second ? "tokenizer_2" : "tokenizer";
  if (!chosen.empty()) return chosen;
  if (auto found = files_.in_pipeline(usual)) return *found;
  data_error("models", "no {} tokenizer beside the model; name its folder with --{}_path", second ? "T5" : "CLIP", usual);
}

/// The tokenizer that belongs to a text encoder, once.
void FluxModel::load_tokenizer(const std::string& component) {
  if (component == "text_encoder" && !tokenizer_) tokenizer_ = tokenizers::load_clip(tokenizer_folder(component));
  if (component == "text_encoder_2" && !tokenizer_2_) tokenizer_2_ = tokenizers::load_t5(tokenizer_folder(component));
}

void FluxModel::unload(const std::string& component) { loaded_.erase(component); }

nn::Module& FluxModel::module(const std::string& component) {
  auto it = loaded_.find(component);
  if (it == loaded_.end()) it = loaded_.find(component_of(component));
  if (it == loaded_.end() && component == component_of(component))
    it = std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& item) { return component_of(item.first) == component; });
  if (it == loaded_.end()) throw std::logic_error("component " + component + " is not loaded");
  return *it->second;
}

std::vector<int64_t> FluxModel::latent_shape(int64_t height, int64_t width) const {
  auto division = const_cast<FluxModel*>(this)->size_division();
  if (height < division || width < division || height % division || width % division) {
    config_error("models", "height and width must be multiples of {} pixels for this model, not {} and {}", division, height, width);
  }
  return {vae_config_.latent_channels, height / vae_config_.downsampling(), width / vae_config_.downsampling()};
}

diffusion::FlowSamplerConfig FluxModel::sampler_config() const {
  diffusion::FlowSamplerConfig c;
  c.use_dynamic_shifting = config_.guidance_embeds;
  c.shift = config_.guidance_embeds ? 3.0 : 1.0;
  auto path = files_.in_pipeline("scheduler/scheduler_config.json");
  if (!path) return c;
  auto json = io::read_json(*path);
  c.use_dynamic_shifting = json.value("use_dynamic_shifting", false);
  c.shift = json.value("shift", 1.0);
  c.base_shift = json.value("base_shift", 0.5);
  c.max_shift = json.value("max_shift", 1.15);
  c.base_image_seq_len = json.value("base_image_seq_len", 256.0);
  c.max_image_seq_len = json.value("max_image_seq_len", 4096.0);
  return c;
}

// diffusers' and sd-scripts' prefixes (lora_te3_ is what sd-scripts calls T5, OneTrainer's lora_transformer_ stands before diffusers'
// names).
LayerNames FluxModel::layer_names(const std::string& component) const {
  if (component == "dit") return {"", "transformer.", "lora_transformer_"};
  if (component == "text_encoder") return {"text_model.", "text_encoder.", "lora_te1_"};
  if (component == "text_encoder_2") return {"", "text_encoder_2.", "lora_te3_"};
  return {"", component + ".", "lora_" + component + "_"};
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

std::vector<std::string> FluxModel::foreign_layer(const std::string& component, const std::string& name) const {
  if (component != "dit") return {};
  auto it = foreign_layers_.find(name);
  return it == foreign_layers_.end() ? std::vector<std::string>{} : it->second;
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

void FluxModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  Transformer::Conditions conditions{.pooled_BE = scope.tensor("pooled_embedding").to(options_.device, options_.dtype),
                                     .sigma_B = sigma,
                                     .guidance_B = at::full(sigma.sizes(), options_.embedded_guidance, sigma.options())};
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(conditions));
}

void FluxModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  const auto& noisy = scope.tensor("noisy");
  auto rows = noisy.size(2) / 2, columns = noisy.size(3) / 2;
  Transformer::Inputs in{.latents_BIC = pack_latents(noisy).to(options_.dtype),
                         .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                         .modulation_BM = scope.tensor("modulation"),
                         .rows = rows,
                         .columns = columns};
  scope.write("prediction", unpack_latents(loaded<Transformer>(kBody).forward(in), rows, columns));
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
  groups.encode_image = latent_units(options_.latents, "vae", [this](const at::Tensor& image) -> Moments {
    auto moments = loaded<vae::AutoencoderKL>("vae").encode(image.to(options_.device));
    return {moments.mean_BCHW, moments.logvar_BCHW};
  });
  groups.add_noise = {{"add_noise", {"latents", "noise", "sigma"}, {"noisy", "target"}, {}, [](Scope& s) {
                         s.write("noisy", diffusion::add_noise(s.tensor("latents"), s.tensor("noise"), s.tensor("sigma")));
                         s.write("target", diffusion::velocity(s.tensor("latents"), s.tensor("noise")));
                       }}};
  groups.denoise = {
      {"modulate", {"sigma", "pooled_embedding"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
      {"denoise", {"noisy", "text_embedding", "modulation"}, {"prediction"}, {kBody}, [this](Scope& s) { denoise(s); }},
  };
  groups.loss = {{"loss", {"prediction", "target"}, {"loss"}, {}, [](Scope& s) {
                    s.write("loss", diffusion::squared_error(s.tensor("prediction"), s.tensor("target")));
                  }}};
  groups.decode = {{"decode", {"latents"}, {"image"}, {"vae"}, [this](Scope& s) {
                      s.uses("vae");
                      auto& vae = loaded<vae::AutoencoderKL>("vae");
                      s.write("image", vae.decoder.forward(vae.from_model(s.tensor("latents"))));
                    }}};
  return groups;
}

}  // namespace burnish::models::flux
