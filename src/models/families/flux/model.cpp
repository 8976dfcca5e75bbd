#include "models/families/flux/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "diffusion/flow_process.h"
#include "models/families/flux/control_units.h"
#include "models/families/flux/editing.h"
#include "models/families/flux/keys.h"
#include "models/families/flux/picture_units.h"
#include "models/families/flux/text_units.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/first_blocks.h"
#include "models/parts/shared_units.h"
#include "models/parts/word_units.h"

namespace burnish::models::flux {

namespace {

const std::string kModulation = "dit.modulation", kBody = "dit.body";
const std::string kFirst = "dit.first_blocks", kLast = "dit.last_blocks";  // each with a modulation and a body
const std::string kFirstModulation = kFirst + ".modulation", kFirstBody = kFirst + ".body";
const std::string kLastModulation = kLast + ".modulation", kLastBody = kLast + ".body";

/// Tokens of a text as FLUX.1 was trained, for T5.
constexpr int64_t kT5Length = 512;

text::ClipConfig clip_config_of(const Source& source) {
  if (!source.entry) return {};
  return naming(source.entry->label, [&] { return text::clip_config(source.entry->config, source.shapes()); });
}

/// Returns what units that run blocks read, where references are read as well.
std::vector<std::string> with_references(std::vector<std::string> reads, bool references) {
  if (references) reads.push_back("latents_of_references");
  return reads;
}

/// Returns the grids of the target and of its reference pictures, which are of equal sizes in all samples.
Grids grids_of(pipeline::Scope& scope, bool references, bool are_apart) {
  const auto& noisy = scope.tensor("noisy");
  Grids grids{{noisy.size(2) / 2, noisy.size(3) / 2}, {}, are_apart};
  if (!references) return grids;
  for (const auto& latents_CHW : scope.lists("latents_of_references").at(0))
    grids.references.push_back({latents_CHW.size(1) / 2, latents_CHW.size(2) / 2});
  return grids;
}

/// The tokens of the target with its further channels, then those of its reference pictures.
at::Tensor tokens_of(pipeline::Scope& scope, const at::Tensor& target_BCHW, bool references) {
  std::vector<at::Tensor> tokens{mmdit::to_tokens(target_BCHW)};
  if (!references) return tokens[0];
  for (const auto& latents_BCHW : stack_lists(scope.lists("latents_of_references"))) tokens.push_back(mmdit::to_tokens(latents_BCHW));
  return at::cat(tokens, 1);
}

}  // namespace

FluxModel::FluxModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& dit = sources.dit;
  if (dit.entry) config_ = read_named(dit, detect);
  const auto clip_config = clip_config_of(sources.text_encoder);
  const auto t5_config = read_named(sources.text_encoder_2, text::t5_config);
  autoencoder_ = kl_part(sources.vae, options_);
  check_latents(dit, config_.out_channels / 4, autoencoder_);
  check_widths(dit, "pooled embeddings", config_.pooled_projection_dim, sources.text_encoder, "CLIP encoder", clip_config.width);
  check_widths(dit, "texts", config_.joint_attention_dim, sources.text_encoder_2, "T5 encoder", t5_config.width);
  make_side_modules(dit.entry != nullptr);
  step1x_ = std::make_unique<Step1x>(files_, options_, config_);
  add_transformer(dit);
  const AddComponent add_further = [this](const Recipe& recipe, const ComponentNames& names) { add(recipe, names); };
  if (step1x_->is_there()) step1x_->add_components(add_further);
  else add_text_encoders(sources);
  add(autoencoder_, /*patch=*/2);
  for (const auto& module : side_modules_) add(module->components(names_.of("dit")));
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(sampler_config());
}

void FluxModel::make_side_modules(bool has_dit) {
  const auto found = find_side_sources(files_);
  side_modules_.push_back(std::make_unique<EditingUnits>(options_, components_, config_, has_dit));
  side_modules_.push_back(std::make_unique<ControlUnits>(options_, components_, found, config_, has_dit));
  side_modules_.push_back(std::make_unique<PictureUnits>(options_, components_, found, config_, has_dit));
  side_modules_.push_back(std::make_unique<TextUnits>(options_, components_, found, config_, has_dit));
}

void FluxModel::add_transformer(const Source& source) {
  auto recipe = transformer_recipe<Transformer>(source, config_, options_.seed, [this](const std::string& part) { return part_of(part); });
  recipe.parts = {kModulation, kBody};
  recipe.settings = [this](const std::string& part) { return denoiser_settings(part); };
  // GCC 12 destroys members of an aggregate twice where one behind them throws, so each is assigned.
  ComponentNames names;
  names.layers = {"", "transformer.", "lora_transformer_"};
  names.lora_targets =
      "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,ff.net.0.proj,ff.net.2,"
      "ff_context.net.0.proj,ff_context.net.2,proj_mlp,proj_out,norm.linear,norm1.linear,norm1_context.linear";
  for (const char* pattern :
       {"x_embedder", "context_embedder", "time_text_embed\\..*", R"(transformer_blocks\..*\.norm1(_context)?\.linear)",
        R"(single_transformer_blocks\..*\.norm\.linear)", "norm_out\\.linear", "proj_out"})
    names.high_precision.emplace_back(pattern);
  names.foreign_layers = foreign_layers(config_);
  names.swapped_halves = swapped_layers();
  names.written = written_layers(config_);
  names.single_file.prefix = "model.diffusion_model.";
  names.single_file.keys = bfl_keys();
  names.aliases = target_names;
  add(recipe, names);
}

// diffusers' and sd-scripts' prefixes (lora_te3_ is what sd-scripts calls T5, OneTrainer's lora_transformer_ stands before diffusers'
// names, and OneTrainer calls T5 lora_te2_); text_encoders. is ComfyUI's.
void FluxModel::add_text_encoders(const Sources& sources) {
  const TextUse clip_use{.kohya = "lora_te1_", .comfyui = "text_encoders.clip_l.transformer.", .others = {"lora_te_"}};
  auto clip = clip_part(sources.text_encoder, clip_config_of(sources.text_encoder), clip_use, files_, options_);
  clip.names.not_run = {"text_projection"};
  add(clip);
  const TextUse t5_use{.name = "text_encoder_2",
                       .tokenizer = "tokenizer_2",
                       .kohya = "lora_te3_",
                       .comfyui = "text_encoders.t5xxl.transformer.",
                       .others = {"lora_te2_"},
                       .length = kT5Length};
  auto t5 = t5_part(sources.text_encoder_2, read_named(sources.text_encoder_2, text::t5_config), t5_use, files_, options_);
  t5.recipe.settings = [this](const std::string&) {
    return fmt::format("max_sequence_length {}", options_.get<int64_t>("max_sequence_length"));
  };
  add(t5);
}

void FluxModel::fill_names() {
  names_.family = "flux";
  names_.variant = config_.guidance_embeds ? "FLUX.1-dev" : "FLUX.1-schnell";
  names_.file_words = {config_.guidance_embeds ? "flux-1-dev" : "flux-1-schnell", "https://github.com/black-forest-labs/flux", "flux1"};
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references.column = kReferenceColumn;
  for (const auto& module : side_modules_) module->add_names(names_);
  names_.values = {
      {"latents", {.shape = {-1, config_.out_channels / 4, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding", {.shape = {-1, -1, config_.joint_attention_dim}, .diffsynth = {"prompt_emb"}, .of_prompt = true}},
      {"pooled_embedding", {.shape = {-1, config_.pooled_projection_dim}, .diffsynth = {"pooled_prompt_emb"}, .of_prompt = true}},
  };
  names_.values["latents_of_references"].diffsynth =
      references_in_tokens("kontext_latents", "kontext_image_ids", [](const at::Tensor& tokens_NK, int64_t rows, int64_t columns) {
        return mmdit::from_tokens(tokens_NK.unsqueeze(0), rows, columns)[0];
      });
  if (step1x_->is_there()) step1x_->add_names(names_);
}

mmdit::HeldLayers FluxModel::part_of(const std::string& name) const {
  auto part = mmdit::layers_of_part(name);
  if (name.starts_with(kFirst)) part.end = num_first_;
  if (name.starts_with(kLast)) part.begin = num_first_;
  return part;
}

std::string FluxModel::split_first_blocks(const Trains& trains) {
  if (!options_.extra_inputs.empty() || step1x_->is_there()) return "";  // what they give the blocks is not kept between them
  num_first_ = blocks_before_training(
      *components_.skeleton("dit"), trains,
      {.stacks = double_then_single(config_.num_double_blocks, config_.num_single_blocks), .behind = {"norm_out", "proj_out"}});
  using Parts = std::vector<std::string>;
  components_.set_parts("dit",
                        num_first_ > 0 ? Parts{kFirstModulation, kFirstBody, kLastModulation, kLastBody} : Parts{kModulation, kBody});
  return num_first_ > 0 ? kFirst : "";
}

std::string FluxModel::denoiser_settings(const std::string& part) const {
  std::vector<std::string> own;
  if (part.starts_with(kFirst) || part.starts_with(kLast)) own.push_back(fmt::format("split after {} blocks", num_first_));
  if ((part == kModulation || part == kFirstModulation) && config_.guidance_embeds)
    own.push_back(fmt::format("embedded_guidance {}", options_.get<double>("embedded_guidance")));
  return join(own);
}

diffusion::FlowSamplerConfig FluxModel::sampler_config() const {
  if (auto values = read_scheduler(files_))
    return naming(files_.in_pipeline("scheduler")->string(), [&] { return diffusion::flow_sampler_config(*values); });
  diffusion::FlowSamplerConfig c;
  bool is_schnell = !config_.guidance_embeds && !step1x_->is_there();
  c.use_dynamic_shifting = !is_schnell;
  c.shift = is_schnell ? 1.0 : 3.0;
  return c;
}

void FluxModel::encode_prompt_1(pipeline::Scope& scope) {
  scope.uses("text_encoder");
  auto& clip = loaded<text::ClipTextModel>("text_encoder");
  const auto& tokenizer = components_.tokenizer("text_encoder");
  auto encoded = tokenizer.encode_padded(scope.text("prompt"), token_limit(components_, "text_encoder"));
  scope.write("pooled_embedding", clip.forward(as_batch(encoded.ids, options_.device)).pooled_BE);
}

void FluxModel::encode_prompt_2(pipeline::Scope& scope) {
  scope.uses("text_encoder_2");
  scope.write("text_embedding", encode_text(scope.text("prompt")));
}

at::Tensor FluxModel::encode_text(const std::string& prompt) {
  auto encoded = components_.tokenizer("text_encoder_2").encode_padded(prompt, token_limit(components_, "text_encoder_2"));
  return loaded<text::T5Encoder>("text_encoder_2").forward(as_batch(encoded.ids, options_.device));
}

Transformer::Conditions FluxModel::conditions(pipeline::Scope& scope, double guidance) const {
  auto sigma = scope.tensor("sigma").to(options_.device, at::kFloat);
  return {.pooled_BE = scope.tensor("pooled_embedding").to(options_.device, options_.dtype),
          .sigma_B = sigma,
          .guidance_B = at::full(sigma.sizes(), guidance, sigma.options())};
}

void FluxModel::modulate_first(pipeline::Scope& scope, double guidance) {
  scope.uses(kFirstModulation);
  const auto& transformer = loaded<Transformer>(kFirstModulation);
  auto conditioning = transformer.condition(conditions(scope, guidance));
  scope.write("conditioning", conditioning);
  scope.write("first_modulation", transformer.modulate(conditioning));
}

/// Makes what the blocks from the first on read.
Transformer::Inputs FluxModel::inputs(pipeline::Scope& scope, const std::string& modulation) const {
  const auto noisy = scope.tensor("noisy");
  auto target = noisy;
  for (const auto& module : side_modules_) {
    if (auto channels = module->behind_noise(scope, noisy); channels.defined()) target = at::cat({target, channels}, 1);
  }
  return {.latents_BIC = tokens_of(scope, target, options_.references).to(options_.dtype),
          .text_BTE = scope.tensor("text_embedding").to(options_.dtype),
          .modulation_BM = scope.tensor(modulation),
          .grids = grids_of(scope, options_.references, !step1x_->is_there())};
}

void FluxModel::denoise(pipeline::Scope& scope) {
  scope.uses(kBody);
  auto in = inputs(scope, "modulation");
  for (const auto& module : side_modules_) module->give(scope, "dit", in);
  scope.write("prediction", mmdit::from_tokens(loaded<Transformer>(kBody).forward(in), in.grids.target.rows, in.grids.target.columns));
}

void FluxModel::run_first_blocks(pipeline::Scope& scope) {
  scope.uses(kFirstBody);
  scope.write("hidden_states", loaded<Transformer>(kFirstBody).forward(inputs(scope, "first_modulation")));
}

void FluxModel::finish_blocks(pipeline::Scope& scope) {
  scope.uses(kLastBody);
  Transformer::Inputs in;
  in.hidden_BLD = scope.tensor("hidden_states");
  in.modulation_BM = scope.tensor("last_modulation");
  in.grids = grids_of(scope, options_.references, !step1x_->is_there());
  scope.write("prediction", mmdit::from_tokens(loaded<Transformer>(kLastBody).forward(in), in.grids.target.rows, in.grids.target.columns));
}

pipeline::Units FluxModel::denoise_units(double guidance) {
  using pipeline::Scope;
  if (num_first_ == 0) {
    auto units = step1x_->connect_units(components_);
    units.push_back({"modulate", {"sigma", "pooled_embedding"}, {"modulation"}, {kModulation}, [this, guidance](Scope& s) {
                       s.uses(kModulation);
                       s.write("modulation", loaded<Transformer>(kModulation).modulate(conditions(s, guidance)));
                     }});
    units.push_back({"denoise",
                     with_references({"noisy", "text_embedding", "modulation"}, options_.references),
                     {"prediction"},
                     {kBody},
                     [this](Scope& s) { denoise(s); }});
    return units;
  }
  auto modulate_last = [this](Scope& s) {
    s.uses(kLastModulation);
    s.write("last_modulation", loaded<Transformer>(kLastModulation).modulate(s.tensor("conditioning")));
  };
  return {{"modulate_first",
           {"sigma", "pooled_embedding"},
           {"conditioning", "first_modulation"},
           {kFirstModulation},
           [this, guidance](Scope& s) { modulate_first(s, guidance); }},
          {"modulate_last", {"conditioning"}, {"last_modulation"}, {kLastModulation}, modulate_last},
          {"run_first_blocks",
           with_references({"noisy", "text_embedding", "first_modulation"}, options_.references),
           {"hidden_states"},
           {kFirstBody},
           [this](Scope& s) { run_first_blocks(s); }},
          {"denoise",
           with_references({"noisy", "hidden_states", "last_modulation"}, options_.references),
           {"prediction"},
           {kLastBody},
           [this](Scope& s) { finish_blocks(s); }}};
}

/// Adds the transformer's units, and those of the modules beside it.
void FluxModel::add_denoising(UnitGroups& groups, double guidance) {
  groups.denoise = denoise_units(guidance);
  const ModelParts parts{{"dit", "vae", encoding_by(autoencoder_, components_, options_.device), autoencoder_.downsampling},
                         "text_encoder_2",
                         [this](const std::string& prompt) { return encode_text(prompt); },
                         prompt_length(options_, kT5Length),
                         [this, guidance](pipeline::Scope& s) { return conditions(s, guidance); }};
  for (const auto& module : side_modules_) module->add_units(groups, parts);
}

UnitGroups FluxModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = {
      {"encode_prompt_clip", {"prompt"}, {"pooled_embedding"}, {"text_encoder"}, [this](Scope& s) { encode_prompt_1(s); }},
      {"encode_prompt_t5", {"prompt"}, {"text_embedding"}, {"text_encoder_2"}, [this](Scope& s) { encode_prompt_2(s); }},
  };
  auto t5_ids = [this](const std::string& prompt) {
    return components_.tokenizer("text_encoder_2").encode_padded(prompt, token_limit(components_, "text_encoder_2")).ids;
  };
  for (auto& unit : word_units(components_, "text_encoder_2", "text_embedding", t5_ids)) groups.encode_prompt.push_back(std::move(unit));
  if (step1x_->is_there()) groups.encode_prompt = step1x_->prompt_units(components_);
  UnitGroups drawing;
  add_denoising(drawing, options_.get_for_drawing<double>("embedded_guidance"));
  add_denoising(groups, options_.get<double>("embedded_guidance"));
  groups.draw = drawing.denoise;
  return groups;
}

}  // namespace burnish::models::flux
