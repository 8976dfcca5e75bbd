#include "models/families/kandinsky5/model.h"

#include <algorithm>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/files/scheduler_file.h"
#include "models/parts/shared_units.h"
#include "models/text/resample.h"
#include "tokenizers/tidy_text.h"

namespace burnish::models::kandinsky5 {

namespace {

const std::string kQwen = "text_encoder", kClip = "text_encoder_2", kTower = "vision_tower";
/// Tokens of a text for Qwen2.5-VL as the model was trained, without those that are dropped.
constexpr int64_t kTextLength = 512, kTextAndPictureLength = 1024;
/// The shift of drawing where no file says it (docs/decisions/0102).
constexpr double kShift = 5;
/// The conversation that Qwen2.5-VL reads; the states of what comes before the prompt are dropped (diffusers: pipeline_kandinsky_t2i.py).
const tokenizers::ChatTemplate kChat{
    "<|im_start|>system\nYou are a prompt engineer. Describe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    "<|im_end|>"};
/// The conversation with the picture that is changed, which stands behind the prompt, and how many states of the prompt are dropped beside
/// those before it (diffusers: pipeline_kandinsky_i2i.py, which drops 54 where 49 stand before).
const tokenizers::ChatTemplate kEditChat{
    "<|im_start|>system\nYou are a prompt engineer. Based on the provided source image (first image) and target image (second image), "
    "create "
    "an interesting text prompt that can be used together with the source image to create the target image:<|im_end|><|im_start|>user",
    "<|im_end|>"};
constexpr int64_t kDroppedOfPrompt = 5;

/// Throws a data Error for a folder of another pipeline of the makers'.
void refuse_others(const ModelFiles& files) {
  const auto name = pipeline_class(files);
  if (name == "Kandinsky5T2VPipeline" || name == "Kandinsky5I2VPipeline")
    data_error("models",
               "model_index.json names {}, and of Kandinsky 5 the models that make clips are not trained here; Kandinsky-5.0-T2I-Lite or "
               "-I2I-Lite was expected: take that",
               name);
}

}  // namespace

Kandinsky5Model::Kandinsky5Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  refuse_others(files_);
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, clip, vae] = sources;
  if (dit.entry) config_ = read_named(dit, detect);
  qwen_ = read_named(text, text::qwen_config, text::qwen25_vl_7b());
  if (clip.entry) clip_ = naming(clip.entry->label, [&] { return text::clip_config(clip.entry->config, clip.shapes()); });
  if (!dit.entry) config_.reads_picture = options_.references;  // of a stage that only encodes
  check_references(dit);
  sees_ = options_.references && config_.reads_picture;
  if (sees_) {
    vision_ = read_named(image, text::vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), {});
  }
  autoencoder_ = kl_part(vae, options_, {.channels = config_.channels, .shifts = false});
  check_latents(dit, config_.channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", qwen_.width);
  check_widths(dit, "pooled embeddings", config_.pooled_width, clip, "CLIP encoder", clip_.width);
  add_transformer(dit);
  add_encoders(sources);
  add(autoencoder_, /*patch=*/2);
  fill_names();
  auto sampling = flow_config(files_, {.shift = kShift, .use_dynamic_shifting = false});
  sampling.ends_at = diffusion::LineEnd::shifted_thousandth;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.last = 0});
}

void Kandinsky5Model::check_references(const Source& dit) const {
  if (!options_.references.column.empty() && !config_.reads_picture)
    config_error("models", "the transformer in {} reads no picture, as of Kandinsky-5.0-I2I-Lite; take that, or leave {} out",
                 dit.entry->label, kReferenceColumn);
}

// diffusers, SimpleTuner and ComfyUI have our paths, musubi-tuner ours with underscores.
void Kandinsky5Model::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(
      source, config_,
      {.stacks = {{"text_transformer_blocks.", config_.num_text_blocks}, {"visual_transformer_blocks.", config_.num_blocks}},
       .behind = {"out_layer"}});
  add(recipe,
      {.layers =
           {.weights = "", .diffusers = "transformer.", .kohya = "lora_unet_", .diffusers_alpha = false, .comfyui = "diffusion_model."},
       .lora_targets = "to_query,to_key,to_value,self_attention.out_layer,cross_attention.out_layer,feed_forward.in_layer,"
                       "feed_forward.out_layer",
       .high_precision = {"visual_embeddings.in_layer", "(pooled_)?text_embeddings.in_layer", "time_embeddings\\..*",
                          ".*modulation\\.out_layer", "out_layer\\.out_layer"},
       .single_file = {"model.diffusion_model.", {}}});
}

void Kandinsky5Model::add_encoders(const Sources& sources) {
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen25_7b.transformer.", .length = sees_ ? kTextAndPictureLength : kTextLength},
                    .chat = kChat,
                    .drops_before = true,
                    .num_read = qwen_.num_layers,
                    .load = tokenizers::load_qwen_tidying};
  add(qwen_part(sources.text_encoder, qwen_, use, files_, options_));
  if (sees_) add(vision_recipe(kTower, sources.image_encoder, vision_, pixels_), vision_names(kTower, "lora_vis_"));
  const TextUse clip_use{.name = kClip, .tokenizer = "tokenizer_2", .kohya = "lora_te2_", .comfyui = "text_encoders.clip_l.transformer."};
  auto clip = clip_part(sources.text_encoder_2, clip_, clip_use, files_, options_);
  clip.recipe.tokenizer->load = [](const auto& folder) { return tokenizers::tidying(tokenizers::load_clip(folder)); };
  clip.names.not_run = {"text_projection"};
  add(clip);
}

void Kandinsky5Model::fill_names() {
  names_.family = "kandinsky5";
  names_.variant = config_.reads_picture ? "Kandinsky 5 I2I Lite" : "Kandinsky 5 T2I Lite";
  names_.file_words = {names_.variant, "https://github.com/kandinskylab/kandinsky-5", "kandinsky5"};
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{"dit"}};
  if (config_.reads_picture) names_.references = {.expected = kReferenceColumn, .are_as_target = true, .most = 1};
  if (sees_) names_.references.column = kReferenceColumn;
  names_.values = {
      {"latents", {.shape = {-1, config_.channels, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
      {"pooled_embedding", {.shape = {-1, config_.pooled_width}, .of_prompt = true}},
  };
}

/// The tower sees a picture half as large as the autoencoder does.
at::Tensor Kandinsky5Model::see(nn::Module& tower, const at::Tensor& image_3HW) const {
  const auto levels = text::to_levels(image_3HW.to(options_.device));
  const auto half = text::resampled(levels, levels.size(1) / 2, levels.size(2) / 2, text::Filter::bicubic);
  return static_cast<text::QwenVision&>(tower).forward(text::patches_of(half, vision_, pixels_));
}

/// Makes the conversation around a prompt and the picture behind it. The prompt is cut so that it has, with the picture and what ends it,
/// as many tokens as the encoder reads.
PictureText Kandinsky5Model::text_with_picture(const std::string& prompt, const std::vector<at::Tensor>& seen) const {
  const auto limit = prompt_length(options_, kTextAndPictureLength);
  if (components_.source(kQwen).entry->is_sizes) return longest_picture_text(seen, limit);
  const auto& tokenizer = static_cast<const tokenizers::ChatTokenizer&>(components_.tokenizer(kQwen));
  auto behind = picture_text(tokenizer, {"", kEditChat.after}, {kPictureInText}, "", seen, limit);
  // What stands before the prompt has no mark at its end, so that both are cut into words together.
  auto ids = tokenizer.encode_bare(kEditChat.before + tokenizers::tidy_text(prompt));
  const auto dropped = std::ssize(tokenizer.encode_bare(kEditChat.before)) + kDroppedOfPrompt;
  const auto room = std::max(dropped + limit - std::ssize(behind.ids), int64_t{0});
  ids.resize(static_cast<size_t>(std::min(std::ssize(ids), room)));
  for (auto& picture : behind.pictures) picture.first += std::ssize(ids);
  behind.ids.insert(behind.ids.begin(), ids.begin(), ids.end());
  behind.num_dropped = dropped;
  return behind;
}

void Kandinsky5Model::encode_by_qwen_with_picture(pipeline::Scope& scope) {
  const auto& seen = scope.lists("seen_references").at(0);
  if (seen.empty()) return encode_by_qwen(scope, components_, options_.device, qwen_.num_layers, components_.tokenizer(kQwen).num_before());
  scope.uses(kQwen);
  const auto text = text_with_picture(scope.text("prompt"), seen);
  const text::QwenReading reading{.after = {qwen_.num_layers}, .pictures = text.pictures};
  const auto states = loaded<text::QwenEncoder>(kQwen).forward(as_batch(text.ids, options_.device), reading).front();
  write_text(scope, states.slice(1, text.num_dropped).contiguous());
}

void Kandinsky5Model::encode_by_clip(pipeline::Scope& scope) {
  scope.uses(kClip);
  const auto encoded = components_.tokenizer(kClip).encode_padded(scope.text("prompt"), token_limit(components_, kClip));
  scope.write("pooled_embedding", loaded<text::ClipTextModel>(kClip).forward(as_batch(encoded.ids, options_.device)).pooled_BE);
}

pipeline::Units Kandinsky5Model::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  const pipeline::Unit by_clip{"encode_prompt_clip", {"prompt"}, {"pooled_embedding"}, {kClip}, [this](Scope& s) { encode_by_clip(s); }};
  if (sees_) {
    auto see_picture = [this](nn::Module& tower, const at::Tensor& image, size_t) { return see(tower, image); };
    return {seeing_unit(components_, kTower, see_picture),
            {"encode_prompt", {"prompt", "seen_references"}, writes, {kQwen}, [this](Scope& s) { encode_by_qwen_with_picture(s); }},
            by_clip};
  }
  auto by_qwen = [this](Scope& s) {
    encode_by_qwen(s, components_, options_.device, qwen_.num_layers, components_.tokenizer(kQwen).num_before());
  };
  return {{"encode_prompt", {"prompt"}, writes, {kQwen}, by_qwen}, by_clip};
}

UnitGroups Kandinsky5Model::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  std::vector<std::string> reads{"noisy", "text_embedding", "text_mask", "modulation"};
  if (sees_) {
    groups.encode_references = reference_picture_units("vae", encoding_by(autoencoder_, components_, options_.device));
    reads.emplace_back("latents_of_references");
  }
  auto give = [this](const pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) {
    in.mask_BT = scope.tensor("text_mask").to(options_.device);
    if (sees_ && !goes_on) {
      const auto given = stack_lists(scope.lists("latents_of_references"));
      if (!given.empty()) in.given_BCHW = given.front().to(options_.device);
    }
    if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  };
  auto condition = [this](const Transformer& transformer, const pipeline::Scope& scope) {
    return transformer.condition(denoiser_.time(scope), scope.tensor("pooled_embedding").to(options_.device, options_.dtype));
  };
  groups.denoise = denoiser_.units(
      {.reads = reads, .modulate = denoiser_.modulating_each(condition), .give = give, .times = {"sigma", "pooled_embedding"}});
  return groups;
}

}  // namespace burnish::models::kandinsky5
