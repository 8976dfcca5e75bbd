#include "models/families/qwen_image/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/lerp.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/parts/token_guidance.h"
#include "models/text/resample.h"

namespace burnish::models::qwen_image {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
/// Tokens of a text as Qwen-Image was trained.
constexpr int64_t kTextLength = 1024;
/// The conversation that the text encoder reads; the states of what comes before the prompt are dropped (diffusers:
/// pipeline_qwenimage.py).
const tokenizers::ChatTemplate kChat{
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the "
    "objects and background:<|im_end|>\n<|im_start|>user\n",
    "<|im_end|>\n<|im_start|>assistant\n"};

/// Guided predictions of layers, brought back so by a share (diffusers: cfg_normalize of pipeline_qwenimage_layered.py, which is 1).
at::Tensor guide_layers(const at::Tensor& conditional, const at::Tensor& unconditional, double scale, double rescale) {
  auto guided = diffusion::guide(conditional, unconditional, scale, 0);
  if (rescale == 0) return guided;
  return at::lerp(guided, guide_tokens(conditional, unconditional, scale, 0), rescale);
}

}  // namespace

QwenImageModel::QwenImageModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  config_ = read_named(dit, detect);
  text_config_ = read_named(text, text::qwen_config, text::qwen25_vl_7b());
  read_layers(sources);
  read_editing(sources);
  autoencoder_ = causal_part(vae, options_, is_layered_ ? vae::CausalFor::layers : vae::CausalFor::pictures);
  check_latents(dit, config_.in_channels / 4, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config_.width);
  control_ = std::make_unique<Control>(options_, components_, files_, config_, dit.entry != nullptr);
  if (is_layered_ && control_->is_read())
    config_error("models", "{} is for a ControlNet, and there is none of Qwen-Image-Layered; take it out", kExtraInputs[0].name);
  add_transformer(dit);
  add_encoders(sources);
  add(autoencoder_, /*patch=*/2);
  if (is_layered_) add_layers(latent_space_, without_whole_);
  add(control_->components(names_.of("dit")));
  fill_names();
  const diffusion::FlowSamplerConfig without_file{.max_shift = 0.9, .max_image_seq_len = 8192, .shift_terminal = 0.02};
  const diffusion::GridConfig grid{.shift = std::exp(0.8), .last = 0, .terminal = 0.02};
  auto sampling = flow_config(files_, without_file);
  if (is_layered_) sampling.mu_of = layered_mu;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, grid);
}

void QwenImageModel::read_layers(const Sources& sources) {
  const auto& vae = sources.vae;
  is_layered_ = sources.dit.entry ? config_.has_layers : vae.entry && read_named(vae, vae::causal_config).pixels.channels == 4;
  without_whole_ = options_.get<bool>("without_whole");
  if (without_whole_ && !is_layered_)
    config_error("models", "without_whole is of Qwen-Image-Layered, and these are files of another Qwen-Image; take it out");
  if (is_layered_ && options_.get<bool>("zero_cond_t"))
    config_error("models", "zero_cond_t is of Qwen-Image-Edit-2511, and these are files of Qwen-Image-Layered; take it out");
}

/// Reads what reference pictures are for.
void QwenImageModel::read_editing(const Sources& sources) {
  const auto& dit = sources.dit;
  if (edits()) {
    vision_config_ = read_named(sources.image_encoder, text::vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), {});
  }
  naming_ = naming_of(options_.get<std::string>("reference_prompt"), files_);
  auto is_mark = [](const std::string& name) { return name.ends_with(kZeroMark); };
  bool is_marked = dit.entry && dit.entry->tensors && std::ranges::any_of(dit.entry->tensors->names(), is_mark);
  config_.zero_cond_t |= is_marked || options_.get<bool>("zero_cond_t");
}

// ai-toolkit and ComfyUI have our paths behind "diffusion_model.", DiffSynth-Studio behind nothing, kohya's and musubi-tuner's files with
// underscores.
void QwenImageModel::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, mmdit::layers_of_part);
  recipe.parts = {kModulation, kBody};
  recipe.settings = [this](const std::string& part) {
    return part != kBody && config_.zero_cond_t && options_.references ? "reference pictures by the time 0" : "";
  };
  auto last = fmt::format("transformer_blocks.{}.", config_.num_layers - 1);
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .diffusers_alpha = false,
                          .onetrainer = "lora_transformer_",
                          .comfyui = "diffusion_model.",
                          .diffsynth = ""},
               .lora_targets = "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,img_mlp.net.0.proj,img_mlp.net.2,"
                               "txt_mlp.net.0.proj,txt_mlp.net.2,img_mod.1,txt_mod.1",
               .high_precision = {"img_in", "txt_in", "time_text_embed\\..*", ".*\\.img_mod\\.1", ".*\\.txt_mod\\.1", "norm_out\\.linear",
                                  "proj_out"},
               // Nothing reads the caption behind the last block.
               .without_gradient = {last + "attn.to_add_out", last + "attn.add_q_proj", last + "attn.norm_added_q", last + "txt_mlp"},
               .single_file = {"model.diffusion_model.", {}}});
}

void QwenImageModel::add_encoders(const Sources& sources) {
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen25_7b.transformer.", .length = kTextLength},
                    .chat = kChat,
                    .drops_before = true,
                    .num_read = text_config_.num_layers};
  auto part = qwen_part(sources.text_encoder, text_config_, use, files_, options_);
  if (edits()) part.recipe.tokenizer->load = [](const auto& folder) { return load_seeing_qwen(folder, kChat); };
  add(part);
  if (edits())
    add(vision_recipe("image_encoder", sources.image_encoder, vision_config_, pixels_), vision_names("image_encoder", "lora_vis_"));
}

void QwenImageModel::fill_names() {
  names_.family = "qwen_image";
  const bool is_edit = published_naming(files_).has_value() || config_.zero_cond_t;
  if (is_edit) names_.references.expected = kReferenceColumn;
  if (config_.zero_cond_t) names_.marks.emplace_back(kZeroMark);
  names_.variant = is_layered_ ? "Qwen-Image-Layered" : is_edit || edits() ? "Qwen-Image-Edit" : "Qwen-Image";
  names_.file_words = {names_.variant,
                       is_layered_ ? "https://github.com/QwenLM/Qwen-Image-Layered" : "https://github.com/QwenLM/Qwen-Image", "qwen_image"};
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  if (is_layered_) names_.references = {.are_needed = true, .most = 1};
  if (options_.references) names_.references.column = is_layered_ ? kWholeColumn : kReferenceColumn;
  if (is_layered_ && options_.extra_inputs.contains(kLayerCount.name)) names_.extra_inputs.push_back(kLayerCount);
  control_->add_names(names_);
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels / 4, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .diffsynth = {"prompt_emb"}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = {"prompt_emb_mask"}, .of_prompt = true, .padded = true}},
      {"latents_of_references", {.diffsynth = references_in_list("edit_latents")}},
  };
  if (!is_layered_) return;
  names_.values["latents"] = {.shape = {-1, config_.in_channels / 4, -1, -1, -1}, .diffsynth = layers_in_batch("input_latents")};
  names_.values["whole_latents"] = {.shape = {-1, config_.in_channels / 4, -1, -1}, .diffsynth = {"layer_input_latents"}};
}

// The pipeline of Qwen-Image-Layered leaves guided predictions as they are, unless it is asked otherwise.
diffusion::Guide QwenImageModel::guide() const { return is_layered_ ? guide_layers : guide_tokens; }

int64_t QwenImageModel::text_length() const { return prompt_length(options_, kTextLength); }

at::Tensor QwenImageModel::see(nn::Module& tower, const at::Tensor& image_3HW, size_t num_pictures) const {
  const auto area = is_numbered(naming_, num_pictures) ? kNumberedArea : reference_area();
  return static_cast<text::QwenVision&>(tower).forward(
      text::patches_of(levels_at(image_3HW.to(options_.device), area), vision_config_, pixels_));
}

void QwenImageModel::encode_prompt(pipeline::Scope& scope) {
  if (edits()) {
    if (const auto& seen = scope.lists("seen_references").at(0); !seen.empty()) return encode_edit_prompt(scope, seen);
  }
  const auto num_before = components_.tokenizer("text_encoder").num_before();
  encode_by_qwen(scope, components_, options_.device, text_config_.num_layers, num_before);
}

void QwenImageModel::encode_edit_prompt(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) {
  scope.uses("text_encoder");
  const auto& tokenizer = components_.tokenizer("text_encoder");
  bool is_named = components_.source("text_encoder").entry->is_sizes;
  auto text = is_named ? longest_picture_text(seen, text_length())
                       : edit_text(static_cast<const tokenizers::ChatTokenizer&>(tokenizer), scope.text("prompt"), seen,
                                   is_numbered(naming_, seen.size()), text_length());
  auto ids_BL = as_batch(text.ids, options_.device);
  auto states = loaded<text::QwenEncoder>("text_encoder").forward(ids_BL, {text_config_.num_layers}, text.pictures).front();
  write_text(scope, states.narrow(1, text.num_dropped, states.size(1) - text.num_dropped));
}

void QwenImageModel::modulate(pipeline::Scope& scope) {
  scope.uses(kModulation);
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  scope.write("modulation", loaded<Transformer>(kModulation).modulate(sigma, options_.dtype, edits()));
}

void QwenImageModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  std::vector<at::Tensor> references;
  if (edits()) references = stack_lists(scope.lists("latents_of_references"));
  if (is_layered_) references = {scope.tensor("whole_latents").to(options_.device)};
  Transformer::Inputs in{.noisy_BCHW = scope.tensor("noisy"),
                         .references = references,
                         .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
                         .mask_BT = scope.tensor("text_mask").to(options_.device),
                         .modulation_BM = scope.tensor("modulation")};
  control_->give(scope, "dit", in);
  scope.write("prediction", loaded<Transformer>(kBody).forward(in));
}

pipeline::Units QwenImageModel::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  if (!edits()) return {{"encode_prompt", {"prompt"}, writes, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  pipeline::Units units{seeing_unit(components_, "image_encoder", std::bind_front(&QwenImageModel::see, this)),
                        {"encode_prompt", {"prompt", "seen_references"}, writes, {"text_encoder"}, [this](Scope& s) { encode_prompt(s); }}};
  for (auto& unit : units) unit.settings = fmt::format("reference_prompt {}, reference_pixels {}", word_of(naming_), reference_area());
  return units;
}

pipeline::Units QwenImageModel::reference_units(const Encode& encode) {
  if (is_layered_) return whole_picture_units("vae", encode, options_.references);
  if (!options_.references) return {};
  return scaled_reference_units("vae", encode, reference_area(), options_.device);
}

UnitGroups QwenImageModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  auto encode = encoding_by(autoencoder_, components_, options_.device);
  groups.encode_references = reference_units(encode);
  if (without_whole_) {
    groups.encode_image = latent_units(options_.latents, "vae", encoding_behind_whole(encode));
    groups.encode_image.front().settings = "without the whole picture";
  }
  std::vector<std::string> reads{"noisy", "text_embedding", "text_mask", "modulation"};
  if (edits()) reads.emplace_back("latents_of_references");
  if (is_layered_) reads.emplace_back("whole_latents");
  groups.denoise = {{"modulate", {"sigma"}, {"modulation"}, {kModulation}, [this](Scope& s) { modulate(s); }},
                    {"denoise", reads, {"prediction"}, {kBody}, [this](Scope& s) { denoise(s); }}};
  control_->add_units(groups, {"dit", "vae", encode, autoencoder_.downsampling});
  return groups;
}

}  // namespace burnish::models::qwen_image
