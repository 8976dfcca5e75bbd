#include "models/families/sd3/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/families/sd3/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/parts/word_units.h"

namespace burnish::models::sd3 {

namespace {

const std::string kClip = "text_encoder", kBigClip = "text_encoder_2", kT5 = "text_encoder_3";
/// Tokens of a text for T5 as the model was trained, unless the user asks for others.
constexpr int64_t kT5Length = 256;
constexpr double kShift = 3;
const vae::KlLatents kLatents{.scale = 1.5305, .shift = 0.0609};

text::ClipConfig clip_config_of(const Source& source, const text::ClipConfig& otherwise) {
  if (!source.entry) return otherwise;
  return naming(source.entry->label, [&] { return text::clip_config(source.entry->config, source.shapes(), otherwise); });
}

/// The width of what an encoder makes of a whole text. Some programs leave a projection out that changes nothing.
int64_t pooled_width(const text::ClipConfig& c) { return c.projection_dim > 0 ? c.projection_dim : c.width; }

}  // namespace

Sd3Model::Sd3Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  read_configs(sources);
  add_transformer(sources.dit);
  add_text_encoders(sources);
  add(autoencoder_, /*patch=*/2);
  // StableDiffusion3Pipeline.load_lora_weights refuses names without "lora" in them.
  for (auto& [name, names] : names_.components) names.layers.diffusers_alpha = false;
  fill_names();
  auto sampling = flow_config(files_, {.shift = kShift, .use_dynamic_shifting = false});
  sampling.ends_at = diffusion::LineEnd::shifted_thousandth;
  process_ = std::make_unique<diffusion::FlowProcess>(sampling, diffusion::GridConfig{.shift = kShift, .last = 0});
}

void Sd3Model::read_configs(const Sources& sources) {
  const auto& dit = sources.dit;
  if (dit.entry) config_ = read_named(dit, detect);
  clip_ = clip_config_of(sources.text_encoder, {.projection_dim = 768});
  big_clip_ = clip_config_of(sources.text_encoder_2, text::open_clip_big_g());
  t5_ = read_named(sources.text_encoder_3, text::t5_config);
  autoencoder_ =
      kl_part(sources.vae, options_, {.channels = config_.in_channels, .latents = kLatents, .single_prefix = "first_stage_model."});
  check_latents(dit, config_.in_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, sources.text_encoder_3, "T5 encoder", t5_.width);
  if (!sources.text_encoder.entry || !sources.text_encoder_2.entry) return;
  check_widths(dit, "pooled embeddings", config_.pooled_width, sources.text_encoder, "pair of CLIP encoders",
               pooled_width(clip_) + pooled_width(big_clip_));
  if (clip_.width + big_clip_.width > config_.caption_width)
    data_error("models", "the CLIP encoders' states are {} wide together, and the transformer's texts {}; they belong to different models",
               clip_.width + big_clip_.width, config_.caption_width);
}

// diffusers and SimpleTuner have our paths, OneTrainer ours with underscores, ComfyUI and sd-scripts the original ones.
void Sd3Model::add_transformer(const Source& source) {
  auto recipe =
      denoiser_.recipe(source, config_, {.stacks = {{"transformer_blocks.", config_.num_layers}}, .behind = {"norm_out", "proj_out"}});
  const auto last = fmt::format("transformer_blocks.{}.", config_.num_layers - 1);
  add(recipe, {.layers = {"", "transformer.", "lora_transformer_"},
               .lora_targets = "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,ff.net.0.proj,ff.net.2,"
                               "ff_context.net.0.proj,ff_context.net.2",
               .high_precision = {"pos_embed\\.proj", "context_embedder", "time_text_embed\\..*", ".*\\.norm1(_context)?\\.linear",
                                  "norm_out\\.linear", "proj_out"},
               .without_gradient = {"pos_embed.pos_embed"},
               .foreign_layers = foreign_layers(config_),
               .swapped_halves = swapped_layers(config_),
               .written = written_layers(config_),
               .single_file = {"model.diffusion_model.", original_keys(config_.num_layers)}});
}

// Both CLIPs have one vocabulary, so either folder does for both; the second one is padded with id 0.
void Sd3Model::add_text_encoders(const Sources& sources) {
  auto small = clip_part(sources.text_encoder, clip_, {.name = kClip, .kohya = "lora_te1_", .comfyui = "text_encoders.clip_l.transformer."},
                         files_, options_);
  auto big = clip_part(sources.text_encoder_2, big_clip_,
                       {.name = kBigClip, .kohya = "lora_te2_", .comfyui = "text_encoders.clip_g.transformer."}, files_, options_);
  auto t5 =
      t5_part(sources.text_encoder_3, t5_,
              {.name = kT5, .kohya = "lora_te3_", .comfyui = "text_encoders.t5xxl.transformer.", .length = kT5Length}, files_, options_);
  big.recipe.what = "second text encoder (OpenCLIP bigG)";
  big.recipe.tokenizer->vectors = "clip_g";
  small.recipe.tokenizer->folder = [this] { return tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "CLIP"); };
  big.recipe.tokenizer->folder = [this] {
    auto own = options_.tokenizer_path.empty() ? find_tokenizer(files_, "", "tokenizer_2") : std::nullopt;
    return own ? *own : tokenizer_folder(files_, options_.tokenizer_path, "tokenizer", "CLIP");
  };
  big.recipe.tokenizer->load = [](const auto& folder) {
    return tokenizers::load_clip(folder, folder.filename() == "tokenizer_2" ? "" : "!");
  };
  t5.recipe.tokenizer->folder = [this] { return tokenizer_folder(files_, options_.tokenizer_2_path, "tokenizer_3", "T5", "tokenizer_2"); };
  for (auto* part : {&small, &big, &t5}) add(*part);
}

void Sd3Model::fill_names() {
  names_.family = "sd3";
  const bool is_large = config_.dual_layers.empty();
  names_.variant = is_large ? "SD 3.5 Large" : "SD 3.5 Medium";
  names_.file_words.base_version = is_large ? "5-large" : "5-medium";
  names_.file_words.architecture = "stable-diffusion-3-" + names_.file_words.base_version;
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true}},
      {"pooled_embedding", {.shape = {-1, config_.pooled_width}, .of_prompt = true}},
  };
}

/// Writes the states after the last layer but one, and the embedding of the whole text.
void Sd3Model::encode_by_clip(pipeline::Scope& scope, const std::string& encoder, const std::string& behind) {
  scope.uses(encoder);
  const auto encoded = components_.tokenizer(encoder).encode_padded(scope.text("prompt"), token_limit(components_, encoder));
  auto out = loaded<text::ClipTextModel>(encoder).forward(as_batch(encoded.ids, options_.device));
  scope.write("clip_states" + behind, out.states_BLE[out.states_BLE.size() - 2]);
  scope.write("clip_pooled" + behind, out.projected_BP.defined() ? out.projected_BP : out.pooled_BE);
}

/// Writes the states of all tokens, padding among them, which the transformer reads as well.
void Sd3Model::encode_by_t5(pipeline::Scope& scope) {
  scope.uses(kT5);
  const auto encoded = components_.tokenizer(kT5).encode_padded(scope.text("prompt"), token_limit(components_, kT5));
  scope.write("t5_states", loaded<text::T5Encoder>(kT5).forward(as_batch(encoded.ids, options_.device)));
}

/// CLIP's states side by side, filled up with zeros to the width of T5's, stand before these.
void Sd3Model::join_texts(pipeline::Scope& scope) const {
  auto here = [&](const char* name) { return scope.tensor(name).to(options_.device, options_.dtype); };
  const auto clips = at::cat({here("clip_states"), here("clip_states_2")}, -1), t5 = here("t5_states");
  scope.write("text_embedding", at::cat({at::constant_pad_nd(clips, {0, t5.size(2) - clips.size(2)}), t5}, 1));
  scope.write("pooled_embedding", at::cat({here("clip_pooled"), here("clip_pooled_2")}, -1));
}

pipeline::Units Sd3Model::prompt_units() {
  using pipeline::Scope;
  pipeline::Units units;
  auto add = [&](const std::string& name, const std::vector<std::string>& writes, const std::string& encoder,
                 const std::function<void(Scope&)>& run) {
    units.push_back({name, {"prompt"}, writes, {encoder}, run});
    auto ids_of = [this, encoder](const std::string& prompt) {
      return components_.tokenizer(encoder).encode_padded(prompt, token_limit(components_, encoder)).ids;
    };
    for (auto& unit : word_units(components_, encoder, writes.front(), ids_of)) units.push_back(std::move(unit));
  };
  add("encode_prompt_clip", {"clip_states", "clip_pooled"}, kClip, [this](Scope& s) { encode_by_clip(s, kClip, ""); });
  add("encode_prompt_open_clip", {"clip_states_2", "clip_pooled_2"}, kBigClip, [this](Scope& s) { encode_by_clip(s, kBigClip, "_2"); });
  add("encode_prompt_t5", {"t5_states"}, kT5, [this](Scope& s) { encode_by_t5(s); });
  units.push_back({"join_texts",
                   {"clip_states", "clip_pooled", "clip_states_2", "clip_pooled_2", "t5_states"},
                   {"text_embedding", "pooled_embedding"},
                   {},
                   [this](Scope& s) { join_texts(s); }});
  return units;
}

UnitGroups Sd3Model::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  auto give = [this](const pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) {
    if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  };
  auto condition = [this](const Transformer& transformer, const pipeline::Scope& scope) {
    return transformer.condition(denoiser_.time(scope), scope.tensor("pooled_embedding").to(options_.device, options_.dtype));
  };
  groups.denoise = denoiser_.units({.reads = {"noisy", "text_embedding", "modulation"},
                                    .modulate = denoiser_.modulating_each(condition),
                                    .give = give,
                                    .times = {"sigma", "pooled_embedding"}});
  return groups;
}

}  // namespace burnish::models::sd3
