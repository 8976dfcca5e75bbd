#include "models/families/moss_image/model.h"

#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include <functional>

#include "base/input_error.h"
#include "base/text.h"
#include "diffusion/flow_process.h"
#include "models/families/moss_image/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/text/resample.h"

namespace burnish::models::moss_image {

namespace {

const std::string kEncoder = "text_encoder", kTower = "image_encoder";
/// What stands before the text encoder's layers in its folder, whose Qwen3_5Model sees too.
const std::string kTextWeights = "language_model.";
/// The most tokens of a text with those around it, and as many as are counted on where no text is known.
constexpr int64_t kTextLength = 4096, kUnknownTextLength = 512;
/// The conversation that the text encoder reads, the beginning of its thoughts with it; all states are kept.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n<think>\n"};
/// The area in which the vision tower sees a picture that is larger.
constexpr int64_t kSeenArea = 384 * 384;
/// The block that is left out where guidance leads away, by the makers' settings.
constexpr const char* kSkipOption = "uncond_skip_layer";
constexpr int64_t kSkippedLayer = 22;

/// Writes what stands for so many pictures before the prompt.
std::string told_pictures(size_t count) {
  std::string told;
  for (size_t i = 1; i <= count; ++i) told += fmt::format("Picture {}: {}", i, kPictureInText);
  return told;
}

}  // namespace

Option skipped_layer_option() {
  return {.name = kSkipOption,
          .help = "block that is left out in the prediction that guidance leads away from; -1: none",
          .otherwise = kSkippedLayer,
          .elsewhere = "its guidance leaves out no block, leave it out",
          .least = -1,
          .most = 4096};
}

MossImageModel::MossImageModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::qwen35_config, text::qwen35_9b());
  num_text_layers_ = text_config.num_layers;
  autoencoder_ = patch_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  if (options_.references) {
    vision_config_ = read_named(image, text::qwen3_vl_vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), text::qwen3_vl_pixels());
  }
  add_transformer(dit);
  add_encoders(sources, text_config);
  add(autoencoder_, /*patch=*/1);
  fill_names();
  left_out();  // so that a block that there is not is refused before anything is encoded
  auto sampling = flow_config(files_, {.shift = 5.0, .use_dynamic_shifting = false});
  sampling.ends_at = diffusion::LineEnd::shifted_thousandth;
  sampling.in_thousandths = true;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.shift = 1, .last = 0.001, .in_thousandths = true});
}

// All programs have our paths: ai-toolkit, ComfyUI and KohakuMoss behind "diffusion_model.", SimpleTuner behind "transformer.".
void MossImageModel::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(source, config_,
                                 {.stacks = {{"layers.", config_.num_layers}}, .behind = {"final_norm_video", "final_linear_video"}});
  recipe.settings = [this](const std::string& part) {
    if (part == denoiser_.blocks().modulation()) return std::string(options_.references ? "reference pictures by the time 0" : "");
    return denoiser_.blocks().settings(part);
  };
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .diffusers_alpha = false,
                          .comfyui = "diffusion_model.",
                          .diffsynth = ""},
               .lora_targets = "proj.q,proj.k,proj.v,proj.o,proj.ffn_up_gate,proj.ffn_down",
               .high_precision = {"video_embedder", "text_embedder\\.proj", "time_embedding\\..*", "shared_block_modulation",
                                  "video_head_modulation", "final_linear_video"},
               .foreign_layers = foreign_layers(config_),
               .single_file = {"model.diffusion_model.", {}}});
}

void MossImageModel::add_encoders(const Sources& sources, const text::QwenConfig& text_config) {
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen35_9b.transformer.", .length = text_length()},
                    .chat = kChat,
                    .num_read = text_config.num_layers,
                    .load = tokenizers::load_qwen35,
                    .below = kTextWeights};
  auto part = qwen_part(sources.text_encoder, text_config, use, files_, options_);
  // Of how far a state fades a few numbers decide, which few bits would move.
  part.names.high_precision = {".*in_proj_[ab]"};
  part.names.lora_targets += ",in_proj_qkv,in_proj_z,out_proj";
  add(part);
  if (!options_.references) return;
  add(vision_recipe(kTower, sources.image_encoder, vision_config_, pixels_), qwen3_vl_vision_names(kTower, "lora_vis_"));
}

int64_t MossImageModel::text_length() const {
  const auto sources = find_sources(files_);
  const bool is_named = sources.text_encoder.entry && sources.text_encoder.entry->is_sizes;
  return is_named ? kUnknownTextLength : kTextLength;
}

void MossImageModel::fill_names() {
  names_.family = "moss_image";
  names_.variant = "MOSS-Image";
  names_.file_words.base_version = "moss_image";
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references.column = kReferenceColumn;
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .diffsynth = {"prompt_embeds"}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text("prompt_embeds"), .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
      {"latents_of_references", {.diffsynth = references_in_list("edit_latents")}},
  };
}

int64_t MossImageModel::left_out() const {
  const auto number = options_.get<int64_t>(kSkipOption);
  if (number < config_.num_layers) return number;
  if (options_.own.is_given(skipped_layer_option()))
    config_error("models", "{} {} asks for a block that there is not; the transformer has {}, counted from 0", kSkipOption, number,
                 config_.num_layers);
  return -1;
}

at::Tensor MossImageModel::see(nn::Module& tower, const at::Tensor& image_3HW, size_t) const {
  const auto image = image_3HW.to(options_.device);
  const auto levels = image[0].numel() > kSeenArea ? levels_at(image, kSeenArea) : text::to_levels(image);
  return static_cast<text::Qwen3VlVision&>(tower).forward(text::patches_of(levels, vision_config_, pixels_));
}

PictureText MossImageModel::text_of(pipeline::Scope& scope) const {
  const auto seen = options_.references ? scope.lists("seen_references").at(0) : std::vector<at::Tensor>{};
  const auto limit = prompt_length(options_, text_length());
  // A model that is only named has no text that is known; it may be as long as any. Its tokenizer knows no template.
  if (components_.source(kEncoder).entry->is_sizes) return longest_picture_text(seen, limit);
  const auto& tokenizer = static_cast<const tokenizers::ChatTokenizer&>(components_.tokenizer(kEncoder));
  if (!seen.empty()) picture_token(tokenizer);
  return picture_text(tokenizer, kChat, {told_pictures(seen.size())}, trim(scope.text("prompt")), seen, limit);
}

void MossImageModel::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto text = text_of(scope);
  const text::QwenReading reading{.after = {num_text_layers_}, .pictures = text.pictures};
  write_text(scope, loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading).front());
}

pipeline::Units MossImageModel::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  auto encode = [this](Scope& s) { encode_prompt(s); };
  if (!options_.references) return {{"encode_prompt", {"prompt"}, writes, {kEncoder}, encode}};
  return {seeing_unit(components_, kTower, std::bind_front(&MossImageModel::see, this)),
          {"encode_prompt", {"prompt", "seen_references"}, writes, {kEncoder}, encode}};
}

pipeline::Units MossImageModel::denoise_units(int64_t left_out) {
  using pipeline::Scope;
  std::vector<std::string> reads{"noisy", "text_tokens", "text_mask", "modulation"};
  if (options_.references) reads.emplace_back("latents_of_references");
  auto give = [this, left_out](Scope& s, bool goes_on, Transformer::Inputs& in) {
    in.mask_BT = s.tensor("text_mask").to(options_.device);
    if (options_.references) in.references_BCHW = stack_lists(s.lists("latents_of_references"));
    if (!goes_on) in.text_BTD = s.tensor("text_tokens");
    in.left_out = left_out;
  };
  auto modulate = [this](Scope& s, const std::string& part) {
    return denoiser_.loaded(part).modulate(denoiser_.time(s), options_.dtype, options_.references);
  };
  auto embed = [this](const Transformer& layers, Scope& s) {
    return layers.embed(s.tensor("text_embedding").to(options_.dtype), s.tensor("text_mask").to(options_.device));
  };
  auto units = denoiser_.units({.reads = reads, .modulate = modulate, .give = give});
  units.insert(units.begin(), denoiser_.text_unit("embed_text", {"text_embedding", "text_mask"}, embed));
  return units;
}

UnitGroups MossImageModel::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  groups.denoise = denoise_units(-1);
  if (left_out() >= 0) groups.draw_away = denoise_units(left_out());
  return groups;
}

}  // namespace burnish::models::moss_image
