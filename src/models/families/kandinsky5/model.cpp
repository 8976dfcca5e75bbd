#include "models/families/kandinsky5/model.h"

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/files/scheduler_file.h"
#include "models/parts/shared_units.h"
#include "tokenizers/tidy_text.h"

namespace burnish::models::kandinsky5 {

namespace {

const std::string kQwen = "text_encoder", kClip = "text_encoder_2";
/// Tokens of a text for Qwen2.5-VL as the model was trained, without those that are dropped.
constexpr int64_t kTextLength = 512;
/// The shift of drawing where no file says it (docs/decisions/0102).
constexpr double kShift = 5;
/// The conversation that Qwen2.5-VL reads; the states of what comes before the prompt are dropped (diffusers: pipeline_kandinsky_t2i.py).
const tokenizers::ChatTemplate kChat{
    "<|im_start|>system\nYou are a prompt engineer. Describe the image by detailing the color, shape, size, texture, quantity, text, "
    "spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    "<|im_end|>"};

/// Throws a data Error for a folder of another pipeline of the makers'.
void refuse_others(const ModelFiles& files) {
  const auto name = pipeline_class(files);
  if (name == "Kandinsky5T2VPipeline" || name == "Kandinsky5I2VPipeline" || name == "Kandinsky5I2IPipeline")
    data_error("models",
               "model_index.json names {}, and of Kandinsky 5 the models that make clips or change pictures are not trained here; "
               "Kandinsky-5.0-T2I-Lite was expected: take that",
               name);
}

}  // namespace

Kandinsky5Model::Kandinsky5Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  refuse_others(files_);
  const auto sources = find_sources(files_);
  const auto& [dit, text, clip, vae] = sources;
  if (dit.entry) config_ = read_named(dit, detect);
  qwen_ = read_named(text, text::qwen_config, text::qwen25_vl_7b());
  if (clip.entry) clip_ = naming(clip.entry->label, [&] { return text::clip_config(clip.entry->config, clip.shapes()); });
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
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen25_7b.transformer.", .length = kTextLength},
                    .chat = kChat,
                    .drops_before = true,
                    .num_read = qwen_.num_layers,
                    .load = tokenizers::load_qwen_tidying};
  add(qwen_part(sources.text_encoder, qwen_, use, files_, options_));
  const TextUse clip_use{.name = kClip, .tokenizer = "tokenizer_2", .kohya = "lora_te2_", .comfyui = "text_encoders.clip_l.transformer."};
  auto clip = clip_part(sources.text_encoder_2, clip_, clip_use, files_, options_);
  clip.recipe.tokenizer->load = [](const auto& folder) { return tokenizers::tidying(tokenizers::load_clip(folder)); };
  clip.names.not_run = {"text_projection"};
  add(clip);
}

void Kandinsky5Model::fill_names() {
  names_.family = "kandinsky5";
  names_.variant = "Kandinsky 5 T2I Lite";
  names_.file_words = {names_.variant, "https://github.com/kandinskylab/kandinsky-5", "kandinsky5"};
  names_.tokens = TokenNames{.width = config_.width};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.channels, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true, .padded = true}},
      {"text_mask", {.shape = {-1, -1}, .of_prompt = true, .padded = true}},
      {"pooled_embedding", {.shape = {-1, config_.pooled_width}, .of_prompt = true}},
  };
}

void Kandinsky5Model::encode_by_clip(pipeline::Scope& scope) {
  scope.uses(kClip);
  const auto encoded = components_.tokenizer(kClip).encode_padded(scope.text("prompt"), token_limit(components_, kClip));
  scope.write("pooled_embedding", loaded<text::ClipTextModel>(kClip).forward(as_batch(encoded.ids, options_.device)).pooled_BE);
}

pipeline::Units Kandinsky5Model::prompt_units() {
  using pipeline::Scope;
  auto by_qwen = [this](Scope& s) {
    encode_by_qwen(s, components_, options_.device, qwen_.num_layers, components_.tokenizer(kQwen).num_before());
  };
  return {{"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kQwen}, by_qwen},
          {"encode_prompt_clip", {"prompt"}, {"pooled_embedding"}, {kClip}, [this](Scope& s) { encode_by_clip(s); }}};
}

UnitGroups Kandinsky5Model::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  auto give = [this](const pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) {
    in.mask_BT = scope.tensor("text_mask").to(options_.device);
    if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  };
  auto condition = [this](const Transformer& transformer, const pipeline::Scope& scope) {
    return transformer.condition(denoiser_.time(scope), scope.tensor("pooled_embedding").to(options_.device, options_.dtype));
  };
  groups.denoise = denoiser_.units({.reads = {"noisy", "text_embedding", "text_mask", "modulation"},
                                    .modulate = denoiser_.modulating_each(condition),
                                    .give = give,
                                    .times = {"sigma", "pooled_embedding"}});
  return groups;
}

}  // namespace burnish::models::kandinsky5
