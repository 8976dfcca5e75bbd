#include "models/families/boogu/model.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"

namespace burnish::models::boogu {

namespace {

const std::string kEncoder = "text_encoder", kTower = "image_encoder";
constexpr const char* kReferenceColumn = "edit_image";
/// Tokens of a conversation, without pictures, to which the authors' program fills up.
constexpr int64_t kTextLength = 1280;
/// The largest areas of a reference picture that the autoencoder and the vision tower see (Boogu-Image: pipeline_boogu.py).
constexpr int64_t kReferenceArea = 2048 * 2048, kSeenArea = 384 * 384;
/// The shift is e to the power of this where no file says it: mu at 4096 tokens.
constexpr double kMu = 1.15;
/// The share of noise that a distilled model is told of first when it draws by a text alone.
constexpr double kFirstOfDistilled = 0.999;

// The conversations that the text encoder reads, by a text and by pictures (Boogu-Image: pipeline_boogu.py); all of their states are read.
const std::string kBefore = "<|im_start|>system\n", kBetween = "<|im_end|>\n<|im_start|>user\n", kAfter = "<|im_end|>\n";
const tokenizers::ChatTemplate kChat{
    kBefore +
        "You are a helpful assistant that generates high-quality images based on user instructions. The instructions are as follows." +
        kBetween,
    kAfter};
const tokenizers::ChatTemplate kEditChat{
    kBefore +
        "Describe the key features of the input image (color, shape, size, texture, objects, background), then explain how the user's text "
        "instruction should alter or modify the image. Generate a new image that meets the user's requirements while maintaining "
        "consistency with the original input where appropriate." +
        kBetween,
    kAfter};

bool is_empty(const std::string& prompt) { return prompt.find_first_not_of(" \t\r\n\v\f") == prompt.npos; }

/// Tells whether the files say that the model is distilled, which no tensor does.
bool is_distilled_by(const ModelFiles& files, const Source& transformer) {
  if (transformer.entry && transformer.entry->is_sizes) return transformer.entry->label == kTurbo;
  return pipeline_class(files) == "BooguImageTurboPipeline";
}

/// Reads the authors' scheduler file, whose class has the name of diffusers' and other keys.
diffusion::FlowSamplerConfig sampling_by(const ModelFiles& files) {
  diffusion::FlowSamplerConfig config{.shift = std::exp(kMu), .use_dynamic_shifting = false};
  const auto values = read_scheduler(files);
  if (!values) return config;
  if (!values->contains("do_shift") && !values->contains("dynamic_time_shift")) return flow_config(files, config);
  bool shifts = true;
  std::string version = "v2";  // that of files without the key
  double num_tokens = config.max_image_seq_len;
  config.use_dynamic_shifting = true;
  diffusion::read_value(*values, "do_shift", shifts);
  diffusion::read_value(*values, "dynamic_time_shift", config.use_dynamic_shifting);
  diffusion::read_value(*values, "time_shift_version", version);
  diffusion::read_value(*values, "seq_len", num_tokens);
  diffusion::read_value(*values, "base_shift", config.base_shift);
  diffusion::read_value(*values, "max_shift", config.max_shift);
  if (shifts && version != "v1")
    data_error("models",
               "scheduler_config.json: \"time_shift_version\" is {}, and v1 was expected, as the published models have it; take their "
               "scheduler folder",
               version);
  config.use_dynamic_shifting &= shifts;
  config.shift = shifts ? std::exp(diffusion::mu_of_tokens(num_tokens, config.base_image_seq_len, config.max_image_seq_len,
                                                           config.base_shift, config.max_shift))
                        : 1;
  return config;
}

/// Makes a walk that goes all the way at each step, and back with new noise, as distilled models do.
diffusion::FlowSamplerConfig sampling_of_distilled(bool has_references) {
  return {.shift = 1, .use_dynamic_shifting = false, .first = has_references ? 1 : kFirstOfDistilled, .sampler = "lcm"};
}

}  // namespace

BooguModel::BooguModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  if (dit.entry) config_ = read_named(dit, detect);
  text_config_ = read_named(text, text::qwen3_vl_config, text::qwen3_vl_8b());
  autoencoder_ = kl_part(vae, options_);
  check_latents(dit, config_.latent_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config_.width);
  if (options_.references) {
    vision_config_ = read_named(image, text::qwen3_vl_vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), text::qwen3_vl_pixels());
  }
  add_transformer(dit);
  add_encoders(sources);
  add(autoencoder_, /*patch=*/2);
  const bool is_distilled = is_distilled_by(files_, dit) || options_.get<bool>("is_distilled");
  fill_names(is_distilled);
  process_ = std::make_unique<diffusion::FlowProcess>(is_distilled ? sampling_of_distilled(options_.references) : sampling_by(files_),
                                                      diffusion::GridConfig{.shift = std::exp(kMu), .last = 0});
}

// All programs have our paths: the authors', SimpleTuner, ai-toolkit and ComfyUI behind a word, DiffSynth-Studio behind none.
void BooguModel::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(
      source, config_,
      {.stacks = {{"double_stream_layers.", config_.num_double}, {"single_stream_layers.", config_.num_single}}, .behind = {"norm_out"}});
  ComponentNames names{
      .layers = {.weights = "",
                 .diffusers = "transformer.",
                 .kohya = "lora_unet_",
                 .diffusers_alpha = false,
                 .comfyui = "diffusion_model.",
                 .diffsynth = ""},
      .lora_targets = "to_q,to_k,to_v,to_out.0,img_to_q,img_to_k,img_to_v,img_out,instruct_to_q,instruct_to_k,instruct_to_v,instruct_out",
      .high_precision = {"x_embedder", "ref_image_patch_embedder", "time_caption_embed\\..*", ".*norm[123]\\.linear", "norm_out\\..*"},
      .single_file = {"model.diffusion_model.", {}}};
  if (!options_.references) names.without_gradient = {"ref_image_patch_embedder", "ref_image_refiner", "image_index_embedding"};
  add(recipe, names);
}

void BooguModel::add_encoders(const Sources& sources) {
  const QwenUse use{
      .text = {.published = "Boogu/Boogu-Image-0.1-Base:mllm/", .comfyui = "text_encoders.qwen3vl_8b.transformer.", .length = kTextLength},
      .chat = kChat,
      .num_read = text_config_.num_layers,
      .below = "model.language_model."};
  auto part = qwen_part(sources.text_encoder, text_config_, use, files_, options_);
  if (options_.references) part.recipe.tokenizer->load = [](const auto& folder) { return load_seeing_qwen(folder, kChat); };
  part.names.layers.diffusers = "mllm.";  // its folder
  add(part);
  if (options_.references)
    add(vision_recipe(kTower, sources.image_encoder, vision_config_, pixels_), qwen3_vl_vision_names(kTower, "lora_vis_"));
}

void BooguModel::fill_names(bool is_distilled) {
  names_.family = "boogu";
  names_.variant = is_distilled ? "Boogu-Image 0.1 Turbo" : "Boogu-Image 0.1";
  names_.file_words = {names_.variant, "https://github.com/boogu-project/Boogu-Image", "boogu_image.0.1"};
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references = {.column = kReferenceColumn, .most = config_.most_references};
  names_.values = {
      {"latents", {.shape = {-1, config_.latent_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width}, .diffsynth = {"instruction_hidden_states"}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .diffsynth = mask_of_text("instruction_hidden_states"), .of_prompt = true, .padded = true}},
      {"text_tokens", {.padded = true}},
      {"latents_of_references", {.diffsynth = references_in_list("ref_image_hidden_states")}},
  };
}

int64_t BooguModel::reference_area() const { return models::reference_area(options_, kReferenceArea); }

Extent BooguModel::seen_reference(const Extent& given) const { return options_.references ? shrunk_to(given, reference_area()) : given; }

at::Tensor BooguModel::see(nn::Module& tower, const at::Tensor& image_3HW) const {
  const auto levels = levels_at(image_3HW.to(options_.device), kSeenArea, shrunk_to);
  return static_cast<text::Qwen3VlVision&>(tower).forward(text::patches_of(levels, vision_config_, pixels_));
}

/// Makes the conversation around a prompt. An empty one, away from which guidance leads, is told of no pictures and has their template.
PictureText BooguModel::text_of(pipeline::Scope& scope) const {
  const auto& prompt = scope.text("prompt");
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  const auto seen =
      options_.references && (is_named || !is_empty(prompt)) ? scope.lists("seen_references").at(0) : std::vector<at::Tensor>{};
  const auto limit = prompt_length(options_, kTextLength);
  if (is_named)
    return seen.empty() ? PictureText{.ids = ids_in_chat(components_, kEncoder, kChat, prompt)} : longest_picture_text(seen, limit);
  const auto& tokenizer = static_cast<const tokenizers::ChatTokenizer&>(components_.tokenizer(kEncoder));
  if (is_empty(prompt)) return {.ids = tokenizer.encode_bare(kEditChat.before + prompt + kEditChat.after)};
  if (seen.empty()) return {.ids = ids_in_chat(components_, kEncoder, kChat, prompt)};
  std::string told;
  for (size_t i = 0; i < seen.size(); ++i) told += kPictureInText;
  return picture_text(tokenizer, kEditChat, {told}, prompt, seen, limit);
}

void BooguModel::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto text = text_of(scope);
  const text::QwenReading reading{.after = {text_config_.num_layers}, .pictures = text.pictures};
  write_text(scope, loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading).front());
}

pipeline::Units BooguModel::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  auto encode = [this](Scope& s) { encode_prompt(s); };
  if (!options_.references) return {{"encode_prompt", {"prompt"}, writes, {kEncoder}, encode}};
  return {seeing_unit(components_, kTower, [this](nn::Module& tower, const at::Tensor& image, size_t) { return see(tower, image); }),
          {"encode_prompt", {"prompt", "seen_references"}, writes, {kEncoder}, encode}};
}

void BooguModel::give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const {
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  if (options_.references) in.references = stack_lists(scope.lists("latents_of_references"));
  if (!goes_on) in.text_BTD = scope.tensor("text_tokens");
}

pipeline::Units BooguModel::denoise_units() {
  std::vector<std::string> reads{"noisy", "text_tokens", "text_mask", "modulation"};
  if (options_.references) reads.emplace_back("latents_of_references");
  auto condition = [this](const Transformer& transformer, const pipeline::Scope& scope) {
    return transformer.condition(denoiser_.time(scope), options_.dtype);
  };
  auto refine = [this](const Transformer& layers, pipeline::Scope& scope) {
    return layers.refine_text(scope.tensor("text_embedding").to(options_.dtype), scope.tensor("text_mask").to(options_.device));
  };
  auto units =
      denoiser_.units({.reads = reads, .modulate = denoiser_.modulating_each(condition), .give = std::bind_front(&BooguModel::give, this)});
  units.insert(units.begin(), denoiser_.text_unit("refine_text", {"text_embedding", "text_mask"}, refine));
  return units;
}

UnitGroups BooguModel::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  if (options_.references)
    groups.encode_references = scaled_reference_units("vae", encoding_by(autoencoder_, components_, options_.device), reference_area(),
                                                      options_.device, shrunk_to);
  groups.denoise = denoise_units();
  return groups;
}

}  // namespace burnish::models::boogu
