#include "models/families/fibo2/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/families/fibo2/captions.h"
#include "models/files/scheduler_file.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/text/resample.h"

namespace burnish::models::fibo2 {

namespace {

const std::string kEncoder = "text_encoder", kTower = "image_encoder";
/// What stands before the text encoder's layers in its folder, whose Qwen3VLForConditionalGeneration sees too.
const std::string kTextWeights = "model.language_model.";
/// The most tokens of a text with those around it, and as many as are counted on where no text is known.
constexpr int64_t kTextLength = 4096, kUnknownTextLength = 1024;
/// The conversation that the text encoder reads; all states are kept.
const tokenizers::ChatTemplate kChat{"<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};
constexpr double kStateEps = 1e-6;

/// Brings states to a mean square of 1, token by token.
at::Tensor levelled(const at::Tensor& states) {
  const auto exact = states.to(at::kFloat);
  return (exact * at::rsqrt((exact * exact).mean(-1, /*keepdim=*/true) + kStateEps)).to(states.scalar_type());
}

/// The value of DiffSynth-Studio's caches with this name, made ours.
DiffsynthValue remade(const std::string& name, size_t dim, const std::function<at::Tensor(const at::Tensor&)>& make) {
  return {.name = name, .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            const auto found = find(name);
            if (found.size() != 1 || found[0].dim() != static_cast<int64_t>(dim))
              data_error("models", "one tensor '{}' of {} dimensions was expected, and there are {}", name, dim, found.size());
            return make(found[0]);
          }};
}

/// Latents [1, C, 2 h, 2 w] -> [1, 4 C, h, w].
at::Tensor in_patches(const at::Tensor& latents) { return at::pixel_unshuffle(latents, 2); }

DiffsynthValue references_in_patches(const std::string& name) {
  return {.name = name,
          .make = [=](const DiffsynthValue::Find& find) -> pipeline::Value {
            std::vector<at::Tensor> pictures;
            for (const auto& latents : find(name)) pictures.push_back(in_patches(latents)[0]);
            return pipeline::TensorLists{std::move(pictures)};
          },
          .of_references = true};
}

/// States [1, readers, T, 3 E] of which each reader has its own -> [1, T, N, E], each of them once.
at::Tensor states_once(const Config& config, const at::Tensor& of_readers) {
  const auto of_layers = of_readers.unflatten(-1, {3, -1});
  nn::Tensors once(text_layers(config).size());
  for (size_t reader = 0; reader <= config.blocks.reading.size(); ++reader) {
    const auto places = read_together(config, reader);
    for (size_t i = 0; i < places.size(); ++i)
      once[static_cast<size_t>(places[i])] = of_layers.select(1, static_cast<int64_t>(reader)).select(2, static_cast<int64_t>(i));
  }
  return at::stack(once, 2);
}

}  // namespace

Extent seen_size(const Extent& picture) {
  constexpr double kSide = 768;
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  if (height <= kSide && width <= kSide) return picture;
  const double ratio = width / height;
  // Of both whole numbers the one that keeps the ratio better, the lesser of equal ones.
  auto nearer = [](double length, const auto& error) {
    const double low = std::floor(length), high = std::ceil(length);
    return std::max<int64_t>(1, static_cast<int64_t>(error(high) < error(low) ? high : low));
  };
  auto side = static_cast<int64_t>(kSide);
  if (ratio <= 1) return {.height = side, .width = nearer(kSide * ratio, [&](double n) { return std::abs(ratio - n / kSide); })};
  return {.height = nearer(kSide / ratio, [&](double n) { return n == 0 ? 0 : std::abs(ratio - kSide / n); }), .width = side};
}

Fibo2Model::Fibo2Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  config_ = read_named(dit, detect);
  read_layers_ = text_layers(config_);
  const auto text_config = read_named(text, text::qwen3_vl_config, text::qwen3_vl_4b());
  autoencoder_ = patch_part(vae, options_);
  check_latents(dit, config_.in_channels(), autoencoder_);
  if (text.entry && text_config.num_layers < read_layers_.back())
    data_error("models", "the text encoder has {} layers, and the states behind {} of them are read; it is not the one of FIBO 2",
               text_config.num_layers, read_layers_.back());
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", 3 * text_config.width);
  if (options_.references) {
    vision_config_ = read_named(image, text::qwen3_vl_vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), text::qwen3_vl_pixels());
  }
  add_transformer(dit);
  add_encoders(sources, text_config);
  add(autoencoder_, /*patch=*/1);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {}), diffusion::GridConfig{.shift = std::exp(0.5), .last = 0});
}

// All programs have our paths: diffusers behind "transformer.", DiffSynth-Studio behind nothing.
void Fibo2Model::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(source, config_,
                                 {.stacks = {{"noise_refiner.", config_.blocks.num_refiner_layers}, {"layers.", config_.blocks.num_layers}},
                                  .behind = {"final_layer"}});
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .others = {"lora_transformer_"},
                          .diffusers_alpha = false,
                          .comfyui = "diffusion_model.",
                          .diffsynth = ""},
               .lora_targets = "to_q,to_k,to_v,to_out.0,w1,w2,w3",
               .high_precision = {"x_embedder", "t_embedder\\..*", ".*adaLN_modulation\\..*", "final_layer\\..*"},
               .single_file = {"model.diffusion_model.", {}}});
}

void Fibo2Model::add_encoders(const Sources& sources, const text::QwenConfig& text_config) {
  const bool is_named = sources.text_encoder.entry && sources.text_encoder.entry->is_sizes;
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3vl_4b.transformer.", .length = is_named ? kUnknownTextLength : kTextLength},
                    .chat = kChat,
                    .num_read = read_layers_.back(),
                    .below = kTextWeights};
  auto part = qwen_part(sources.text_encoder, text_config, use, files_, options_);
  part.names.without_gradient.emplace_back("norm");
  if (options_.references) part.recipe.tokenizer->load = [](const auto& folder) { return load_seeing_qwen(folder, kChat); };
  add(part);
  if (!options_.references) return;
  add(vision_recipe(kTower, sources.image_encoder, vision_config_, pixels_), qwen3_vl_vision_names(kTower, "lora_vis_"));
}

void Fibo2Model::fill_names() {
  names_.family = "fibo2";
  names_.variant = "FIBO 2";
  names_.file_words = {"FIBO 2.0", "https://huggingface.co/briaai/Fibo-2.0-dev", "fibo2"};
  names_.tokens = TokenNames{.width = config_.blocks.width};
  names_.experts = {{"dit"}};
  names_.references.most = 5;
  if (options_.references) names_.references.column = kReferenceColumn;
  auto of_text = [](const DiffsynthValue& value) { return ValueNames{.diffsynth = value, .of_prompt = true, .padded = true}; };
  auto embedding = of_text(remade("prompt_embeds", 4, [c = config_](const at::Tensor& x) { return states_once(c, x); }));
  embedding.shape = {-1, -1, std::ssize(read_layers_), config_.caption_width / 3};
  auto mask = of_text(remade("prompt_embeds", 4, [](const at::Tensor& x) { return at::ones({1, x.size(2)}, at::kFloat); }));
  mask.shape = {-1, -1};
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels(), -1, -1}, .diffsynth = remade("input_latents", 4, in_patches)}},
      {"text_embedding", embedding},
      {"text_mask", mask},
      {"text_tokens", {.padded = true}},
      {"latents_of_references", {.diffsynth = references_in_patches("context_latents")}},
  };
}

at::Tensor Fibo2Model::see(nn::Module& tower, const at::Tensor& image_3HW) const {
  const auto image = image_3HW.to(options_.device);
  const Extent given{.height = image.size(1), .width = image.size(2)}, seen = seen_size(given);
  auto levels = text::to_levels(image);
  if (seen.height != given.height || seen.width != given.width)
    levels = text::resampled(levels, seen.height, seen.width, text::Filter::bicubic);
  return static_cast<text::Qwen3VlVision&>(tower).forward(text::patches_of(levels, vision_config_, pixels_));
}

PictureText Fibo2Model::text_of(pipeline::Scope& scope) const {
  const auto seen = options_.references ? scope.lists("seen_references").at(0) : std::vector<at::Tensor>{};
  if (seen.empty()) return {.ids = ids_in_chat(components_, kEncoder, kChat, read_caption(scope.text("prompt")))};
  const auto limit = prompt_length(options_, kTextLength);
  if (components_.source(kEncoder).entry->is_sizes) return longest_picture_text(seen, prompt_length(options_, kUnknownTextLength));
  const auto edit = read_edit(scope.text("prompt"), seen.size());
  const auto told = edit.told.empty() ? std::vector<std::string>{} : std::vector<std::string>{edit.told};
  return picture_text(static_cast<const tokenizers::ChatTokenizer&>(components_.tokenizer(kEncoder)), kChat, told, edit.rest, seen, limit);
}

void Fibo2Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto text = text_of(scope);
  const text::QwenReading reading{.after = read_layers_, .pictures = text.pictures, .norms_last = false};
  auto states = loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading);
  for (auto& of_layer : states) of_layer = levelled(of_layer);
  write_text(scope, at::stack(states, 2));
}

pipeline::Units Fibo2Model::prompt_units() {
  using pipeline::Scope;
  const std::vector<std::string> writes{"text_embedding", "text_mask"};
  auto encode = [this](Scope& s) { encode_prompt(s); };
  if (!options_.references) return {{"encode_prompt", {"prompt"}, writes, {kEncoder}, encode}};
  auto see_picture = [this](nn::Module& tower, const at::Tensor& image, size_t) { return see(tower, image); };
  return {seeing_unit(components_, kTower, see_picture), {"encode_prompt", {"prompt", "seen_references"}, writes, {kEncoder}, encode}};
}

pipeline::Units Fibo2Model::denoise_units() {
  using pipeline::Scope;
  std::vector<std::string> reads{"noisy", "text_tokens", "text_embedding", "text_mask", "modulation"};
  if (options_.references) reads.emplace_back("latents_of_references");
  auto give = [this](Scope& s, bool goes_on, Transformer::Inputs& in) {
    in.text_BTNE = s.tensor("text_embedding").to(options_.dtype);
    in.mask_BT = s.tensor("text_mask").to(options_.device);
    if (options_.references) in.references_BCHW = stack_lists(s.lists("latents_of_references"));
    if (!goes_on) in.gist_BGD = s.tensor("text_tokens");
  };
  auto modulate = [this](Scope& s, const std::string& part) { return denoiser_.loaded(part).modulate(denoiser_.time(s), options_.dtype); };
  auto make_gist = [this](const Transformer& layers, Scope& s) {
    return layers.gist(s.tensor("text_embedding").to(options_.dtype), s.tensor("text_mask").to(options_.device));
  };
  auto units = denoiser_.units({.reads = reads, .modulate = modulate, .give = give});
  units.insert(units.begin(), denoiser_.text_unit("make_gist", {"text_embedding", "text_mask"}, make_gist));
  return units;
}

UnitGroups Fibo2Model::units_of(const Expert&) {
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  groups.denoise = denoise_units();
  return groups;
}

}  // namespace burnish::models::fibo2
