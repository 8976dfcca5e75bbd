#include "models/families/krea2/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/families/krea2/keys.h"
#include "models/files/config_values.h"
#include "models/files/scheduler_file.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

namespace burnish::models::krea2 {

namespace {

const std::string kEncoder = "text_encoder", kTower = "image_encoder";
/// What stands before the text encoder's layers in diffusers' folders, whose Qwen3VLModel sees too.
const std::string kTextWeights = "language_model.";
/// Tokens of a text, those behind the prompt counted, as Krea 2 was trained.
constexpr int64_t kTextLength = 512;
/// Layers of Qwen3-VL-4B that are read where no model_index.json says which.
const std::vector<int64_t> kPublishedLayers{2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35};
/// The conversation that the text encoder reads; the states of what comes before the prompt are dropped (diffusers: pipeline_krea2.py).
const tokenizers::ChatTemplate kChat{
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the "
    "objects and background:<|im_end|>\n<|im_start|>user\n",
    "<|im_end|>\n<|im_start|>assistant\n"};

/// The model_index.json of a run's files; null where there is none.
nlohmann::json index_of(const ModelFiles& files) {
  auto path = files.in_pipeline("model_index.json");
  return path ? io::read_json(*path) : nlohmann::json();
}

/// The shift of a distilled model, which does not depend on the size of a picture (diffusers: pipeline_krea2.py).
double distilled_mu(int64_t /*num_image_tokens*/, int64_t /*num_steps*/) { return 1.15; }

/// Tells whether the files say that the model is distilled, which no tensor does.
bool is_distilled_by(const ModelFiles& files, const Source& transformer) {
  if (transformer.entry && transformer.entry->is_sizes) return transformer.entry->label == kTurbo;
  bool is_distilled = false;
  io::take(index_of(files), "is_distilled", is_distilled, "model_index.json");
  return is_distilled;
}

/// The layers of the text encoder whose states are read.
std::vector<int64_t> layers_to_read(const ModelFiles& files) {
  auto layers = kPublishedLayers;
  io::take(index_of(files), "text_encoder_select_layers", layers, "model_index.json");
  if (layers.empty() || !std::ranges::is_sorted(layers) || layers.front() < 0 || layers.back() > kLargestSize)
    data_error("models", "the model_index.json names the text_encoder_select_layers {}, and layers in ascending order were expected",
               nlohmann::json(layers).dump());
  return layers;
}

/// Throws a data Error for a reference that lies in its target's place and has another size.
void check_size(const at::Tensor& reference, const at::Tensor& noisy, int64_t downsampling) {
  if (reference.sizes() == noisy.sizes()) return;
  data_error("models",
             "a reference picture is of {} by {} pixels and its target of {} by {}, and reference_form overlaid asks for one size; cut "
             "them alike, or choose reference_form frames",
             reference.size(3) * downsampling, reference.size(2) * downsampling, noisy.size(3) * downsampling,
             noisy.size(2) * downsampling);
}

/// Reads what lies at the tokens of a text in a cache of DiffSynth-Studio, which has padding before the tokens that end it.
DiffsynthValue of_tokens(const std::string& name, bool is_mask) {
  return {.name = name, .make = [is_mask, name](const DiffsynthValue::Find& find) -> pipeline::Value {
            const auto values = find(name), masks = find("prompt_emb_mask");
            bool fits = values.size() == 1 && masks.size() == 1 && masks[0].dim() == 2 && masks[0].size(0) == 1 && values[0].dim() >= 2 &&
                        values[0].size(1) == masks[0].size(1);
            if (!fits) data_error("models", "'{}' and 'prompt_emb_mask' of a sample are not of the tokens of one text", name);
            auto tokens = at::nonzero(masks[0][0]).squeeze(-1);
            if (is_mask) return at::ones({1, tokens.size(0)}, at::kFloat);
            return values[0].index_select(1, tokens);
          }};
}

}  // namespace

Krea2Model::Krea2Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::qwen3_vl_config, text::qwen3_vl_4b());
  read_layers_ = layers_to_read(files_);
  num_text_layers_ = text_config.num_layers;
  autoencoder_ = causal_part(vae, options_);
  check_latents(dit, config_.in_channels / 4, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  form_ = form_of(options_.get<std::string>("reference_form"));
  if (options_.references) {
    vision_config_ = read_named(image, text::qwen3_vl_vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), text::qwen3_vl_pixels());
  }
  add_transformer(dit);
  add_encoders(sources, text_config);
  add(autoencoder_, /*patch=*/2);
  const bool is_distilled = is_distilled_by(files_, dit) || options_.get<bool>("is_distilled");
  fill_names(is_distilled);
  auto sampling = flow_config(files_, {.max_image_seq_len = 6400});
  if (is_distilled) sampling.mu_of = distilled_mu;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.shift = std::exp(0.8), .last = 0});
}

// diffusers and SimpleTuner have our paths; Krea's trainer, ai-toolkit, ComfyUI, musubi-tuner and DiffSynth-Studio the original ones.
void Krea2Model::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(source, config_, {.stacks = {{"transformer_blocks.", config_.num_layers}}, .behind = {"final_layer"}});
  recipe.settings = [this](const std::string& part) {
    if (part == denoiser_.blocks().modulation()) return std::string(has_frames() ? "reference pictures by the time 0" : "");
    return denoiser_.blocks().settings(part);
  };
  add(recipe,
      {.layers = {.weights = "",
                  .diffusers = "transformer.",
                  .kohya = "lora_transformer_",
                  .others = {"lora_unet_"},
                  .diffusers_alpha = false,
                  .comfyui_alpha = false},  // diffusers' loader refuses a file with one
       .high_precision = {"img_in", "time_embed\\..*", "time_mod_proj", "txt_in\\..*", "text_fusion\\.projector", "final_layer\\.linear"},
       .foreign_layers = foreign_layers(config_),
       .written = written_layers(config_),
       .single_file = {"model.diffusion_model.", original_keys()},
       .aliases = target_names});
}

void Krea2Model::add_encoders(const Sources& sources, const text::QwenConfig& text_config) {
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3vl_4b.transformer.", .length = kTextLength},
                    .chat = kChat,
                    .drops_before = true,
                    .num_read = read_layers_.back(),
                    .below = kTextWeights};
  auto part = qwen_part(sources.text_encoder, text_config, use, files_, options_);
  if (options_.references) part.recipe.tokenizer->load = [](const auto& folder) { return load_seeing_qwen(folder, kChat); };
  add(part);
  if (options_.references)
    add(vision_recipe(kTower, sources.image_encoder, vision_config_, pixels_), qwen3_vl_vision_names(kTower, "lora_vis_"));
}

void Krea2Model::fill_names(bool is_distilled) {
  names_.family = "krea2";
  names_.variant = is_distilled ? "Krea 2 Turbo" : "Krea 2 Raw";
  names_.file_words.base_version = "krea2";
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references.column = kReferenceColumn;
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels / 4, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding",
       {.shape = {-1, -1, config_.num_caption_layers, config_.caption_width},
        .diffsynth = of_tokens("prompt_emb", false),
        .of_prompt = true,
        .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = of_tokens("prompt_emb_mask", true), .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
  };
}

/// Refuses a text encoder that is to be run and has not the layers that are read.
void Krea2Model::check_layers() const {
  if (!components_.has(kEncoder)) return;
  if (components_.has("dit") && std::ssize(read_layers_) != config_.num_caption_layers)
    data_error("models",
               "the transformer reads {} layers of the text encoder and the model names {}; name its diffusers folder, whose "
               "model_index.json has text_encoder_select_layers",
               config_.num_caption_layers, read_layers_.size());
  if (num_text_layers_ < read_layers_.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of Krea 2",
               num_text_layers_, read_layers_.back());
}

at::Tensor Krea2Model::see(nn::Module& tower, const at::Tensor& image_3HW, size_t num_pictures) const {
  if (num_pictures > 1 && form_ == Form::overlaid)
    data_error("models",
               "a row or a prompt has {} reference pictures, and the reference_form overlaid has one; take the others out, or "
               "choose reference_form frames",
               num_pictures);
  return static_cast<text::Qwen3VlVision&>(tower).forward(
      text::patches_of(levels_to_see(image_3HW.to(options_.device), form_), vision_config_, pixels_));
}

PictureText Krea2Model::edit_text(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) const {
  const auto limit = prompt_length(options_, kTextLength);
  if (components_.source(kEncoder).entry->is_sizes) return longest_picture_text(seen, limit);
  return picture_text(static_cast<const tokenizers::ChatTokenizer&>(components_.tokenizer(kEncoder)), kChat,
                      {told_pictures(form_, seen.size())}, scope.text("prompt"), seen, limit);
}

void Krea2Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto seen = options_.references ? scope.lists("seen_references").at(0) : std::vector<at::Tensor>{};
  const auto text = seen.empty() ? PictureText{.ids = ids_in_chat(components_, kEncoder, kChat, scope.text("prompt")),
                                               .num_dropped = components_.tokenizer(kEncoder).num_before()}
                                 : edit_text(scope, seen);
  auto ids_BL = as_batch(text.ids, options_.device);
  const text::QwenReading reading{.after = read_layers_, .pictures = text.pictures};
  auto states = at::stack(loaded<text::QwenEncoder>(kEncoder).forward(ids_BL, reading), 2);
  write_text(scope, states.narrow(1, text.num_dropped, states.size(1) - text.num_dropped));
}

void Krea2Model::give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const {
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  if (options_.references) in.references = stack_lists(scope.lists("latents_of_references"));
  for (const auto& reference : in.references) {
    if (!has_frames()) check_size(reference, in.noisy_BCHW, autoencoder_.downsampling);
  }
  if (!goes_on) in.text_BTD = scope.tensor("text_tokens");
}

pipeline::Units Krea2Model::denoise_units() {
  std::vector<std::string> reads{"noisy", "text_tokens", "text_mask", "modulation"};
  if (options_.references) reads.emplace_back("latents_of_references");
  auto modulate = [this](pipeline::Scope& scope, const std::string& part) {
    return denoiser_.loaded(part).modulate(denoiser_.time(scope), options_.dtype, has_frames());
  };
  auto fuse = [this](const Transformer& layers, pipeline::Scope& scope) {
    return layers.fuse(scope.tensor("text_embedding").to(options_.dtype), scope.tensor("text_mask").to(options_.device));
  };
  auto units = denoiser_.units({.reads = reads, .modulate = modulate, .give = std::bind_front(&Krea2Model::give, this)});
  units.insert(units.begin(), denoiser_.text_unit("fuse_text", {"text_embedding", "text_mask"}, fuse));
  return units;
}

pipeline::Units Krea2Model::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  if (!options_.references) return {{"encode_prompt", {"prompt"}, writes, {kEncoder}, [this](Scope& s) { encode_prompt(s); }}};
  pipeline::Units units{seeing_unit(components_, kTower, std::bind_front(&Krea2Model::see, this)),
                        {"encode_prompt", {"prompt", "seen_references"}, writes, {kEncoder}, [this](Scope& s) { encode_prompt(s); }}};
  for (auto& unit : units) unit.settings = "reference_form " + options_.get<std::string>("reference_form");
  return units;
}

UnitGroups Krea2Model::units_of(const Expert&) {
  using pipeline::Scope;
  check_layers();
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  if (has_frames()) {
    auto encode = encoding_by(autoencoder_, components_, options_.device);
    groups.encode_references = reference_picture_units("vae", [this, encode](const at::Tensor& image_13HW) {
      return encode(fitted(image_13HW[0].to(options_.device), reference_area()).unsqueeze(0));
    });
    groups.encode_references.front().settings = fmt::format("reference_pixels at most {}", reference_area());
  }
  groups.denoise = denoise_units();
  return groups;
}

}  // namespace burnish::models::krea2
