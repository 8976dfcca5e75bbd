#include "models/parts/shared_components.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/input_error.h"
#include "base/limits.h"
#include "base/log.h"
#include "hub/hub.h"
#include "hub/settings.h"
#include "io/files.h"
#include "models/files/hub_files.h"
#include "models/parts/find_components.h"
#include "models/parts/vocabulary.h"
#include "models/vae/causal_autoencoder.h"
#include "models/vae/patch_autoencoder.h"
#include "tokenizers/gemma.h"

namespace burnish::models {

namespace {

/// Builds a module of one configuration, which is always whole.
template <class Module, class Config>
auto builds(const Config& config) {
  return [config](const std::string& /*part*/, const at::TensorOptions& options) { return std::make_unique<Module>(config, options); };
}

/// The tokenizer of a text encoder, without how it is loaded and how many of its tokens are read.
TokenizerRecipe tokenizer_of(const ModelFiles& files, const ModelOptions& options, const TextUse& use, const char* kind,
                             int64_t vocab_size) {
  const auto& chosen = use.tokenizer == "tokenizer_2" ? options.tokenizer_2_path : options.tokenizer_path;
  return {.folder = [&files, &chosen, folder = use.tokenizer, published = use.published,
                     kind] { return tokenizer_folder(files, chosen, folder, kind, nullptr, published); },
          .load = {},
          .limit = {},
          .option = "max_sequence_length",
          .vocab_size = vocab_size};
}

/// Returns what an encoder makes of a text depends on how many tokens it reads.
auto length_settings(const ModelOptions& options, int64_t length) {
  return [&options, length](const std::string& /*part*/) { return fmt::format("max_sequence_length {}", prompt_length(options, length)); };
}

/// Returns what all kinds of autoencoders have in common; its results depend on the tiles that it is run in.
template <class Autoencoder, class Config>
AutoencoderPart autoencoder_part(const char* what, const Source& source, const Config& config, int64_t channels, int64_t tile_size) {
  AutoencoderPart part{
      .recipe = {.name = "vae", .what = what, .source = source, .build = builds<Autoencoder>(config), .dtype = at::kFloat},
      .names = plain_names("vae"),
      .channels = channels,
      .downsampling = config.downsampling(),
      .encode = [](nn::Module& module, const at::Tensor& image) { return static_cast<Autoencoder&>(module).encode(image); },
      .decode = [](nn::Module& module, const at::Tensor& latents) { return static_cast<Autoencoder&>(module).decode(latents); }};
  if (tile_size > 0) part.recipe.settings = [tile_size](const std::string&) { return fmt::format("tiles of {}", tile_size); };
  part.names.high_precision = {".*"};
  part.names.without_gradient = {"decoder", "post_quant_conv"};
  return part;
}

/// Encodes a clip, or a picture as a clip of one frame.
Moments encode_clip(nn::Module& module, const at::Tensor& image) {
  return static_cast<vae::CausalAutoencoder&>(module).encode(image.dim() == 4 ? image.unsqueeze(2) : image);
}

/// Decodes a clip in stretches, each of which becomes bytes before the next is made; a clip of one frame becomes a picture.
at::Tensor decode_clip(nn::Module& module, const at::Tensor& latents) {
  const auto& autoencoder = static_cast<vae::CausalAutoencoder&>(module);
  if (latents.size(2) == 1) return autoencoder.decode(latents).squeeze(2);
  std::vector<at::Tensor> stretches;
  autoencoder.decode(latents, [&](int64_t, const at::Tensor& frames) { stretches.push_back(pixels_of(frames)); });
  return at::cat(stretches, 2);
}

/// Layers [B, 4, F, H, W], or [B, 4, H, W] for a single one, to their latents [B, C, F, h, w].
Moments encode_layers(nn::Module& module, const at::Tensor& image) {
  const auto& autoencoder = static_cast<vae::CausalAutoencoder&>(module);
  std::vector<at::Tensor> means, logvars;
  for (const auto& layer_B4HW : (image.dim() == 4 ? image.unsqueeze(2) : image).unbind(2)) {
    auto moments = autoencoder.encode(layer_B4HW);
    means.push_back(moments.mean_BCHW);
    logvars.push_back(moments.logvar_BCHW);
  }
  return {at::stack(means, 2), at::stack(logvars, 2)};
}

at::Tensor decode_layers(nn::Module& module, const at::Tensor& latents) {
  const auto& autoencoder = static_cast<vae::CausalAutoencoder&>(module);
  if (latents.size(2) == 1) return autoencoder.decode(latents.squeeze(2));
  std::vector<at::Tensor> layers;
  for (const auto& layer_BCHW : latents.unbind(2)) layers.push_back(pixels_of(autoencoder.decode(layer_BCHW)));
  return at::stack(layers, 2);
}

std::string why_no_tile(const std::string& name, const OptionValue& value) {
  constexpr int64_t kMultiple = 32;  // so that steps of three quarters are whole latents
  auto size = std::get<int64_t>(value);
  if (size >= 0 && size % kMultiple == 0) return "";
  return fmt::format("{} must be 0 or a multiple of {}, not {}", name, kMultiple, size);
}

}  // namespace

at::Tensor pixels_of(const at::Tensor& frames) { return ((frames.to(at::kFloat) / 2 + 0.5).clamp(0, 1) * 255).round().to(at::kByte); }

TextPart clip_part(const Source& source, const text::ClipConfig& config, const TextUse& use, const ModelFiles& files,
                   const ModelOptions& options) {
  auto tokenizer = tokenizer_of(files, options, use, "CLIP", config.vocab_size);
  tokenizer.load = [](const auto& folder) { return tokenizers::load_clip(folder); };
  tokenizer.limit = [limit = std::min<int64_t>(77, config.max_positions)](const auto&) { return limit; };
  tokenizer.option = nullptr;
  tokenizer.table = "embeddings.token_embedding";
  tokenizer.vectors = "clip_l";
  return {.recipe = {.name = use.name,
                     .what = "CLIP text encoder",
                     .source = source,
                     .build = builds<text::ClipTextModel>(config),
                     .tokenizer = tokenizer},
          .names = {
              .layers =
                  {.weights = "text_model.", .diffusers = use.name + ".", .kohya = use.kohya, .others = use.others, .comfyui = use.comfyui},
              .lora_targets = "q_proj,k_proj,v_proj,out_proj,fc1,fc2",
              .folder_file = {"", text::transformers_clip_keys()},
              .single_file = {use.comfyui, text::transformers_clip_keys()}}};
}

TextPart t5_part(const Source& source, const text::T5Config& config, const TextUse& use, const ModelFiles& files,
                 const ModelOptions& options) {
  auto tokenizer = tokenizer_of(files, options, use, "T5", config.vocab_size);
  tokenizer.load = tokenizers::load_t5;
  tokenizer.table = "shared";
  tokenizer.vectors = "t5";
  tokenizer.limit = [&options, length = use.length](const tokenizers::Tokenizer& of) {
    return prompt_length(options, of.model_max_length() > 0 ? std::min(length, of.model_max_length()) : length);
  };
  return {
      .recipe = {.name = use.name,
                 .what = "T5 encoder",
                 .source = source,
                 .build = builds<text::T5Encoder>(config),
                 .settings = length_settings(options, use.length),
                 .tokenizer = tokenizer},
      .names = {.layers = {.weights = "", .diffusers = use.name + ".", .kohya = use.kohya, .others = use.others, .comfyui = use.comfyui},
                .lora_targets = "q,k,v,o,wi,wi_0,wi_1,wo",
                .single_file = {use.comfyui, {}}}};
}

TextPart qwen_part(const Source& source, const text::QwenConfig& config, const QwenUse& use, const ModelFiles& files,
                   const ModelOptions& options) {
  const auto& text = use.text;
  auto tokenizer = tokenizer_of(files, options, text, use.kind, config.vocab_size);
  tokenizer.load = [load = use.load, chat = use.chat](const auto& folder) { return load(folder, chat); };
  tokenizer.limit = [&options, length = text.length, drops = use.drops_before](const tokenizers::Tokenizer& of) {
    return (drops ? of.num_before() : 0) + prompt_length(options, length);
  };
  TextPart part{.recipe = {.name = text.name,
                           .what = fmt::format("{} text encoder", use.kind),
                           .source = source,
                           .build = builds<text::QwenEncoder>(config),
                           .settings = length_settings(options, text.length),
                           .tokenizer = tokenizer},
                .names = {.layers = {.weights = use.below,
                                     .diffusers = text.name + ".",
                                     .kohya = text.kohya,
                                     .others = text.others,
                                     .comfyui = text.comfyui},
                          .lora_targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                          .folder_file = {"", text::qwen_keys_below(use.below)},
                          .single_file = {text.comfyui, text::transformers_qwen_keys()}}};
  for (auto layer = use.num_read; layer < config.num_layers; ++layer)
    part.names.without_gradient.push_back("layers." + std::to_string(layer));
  if (use.num_read < config.num_layers) part.names.without_gradient.emplace_back("norm");
  return part;
}

namespace {

/// Tells whether a folder has a tokenizer beside the weights, as Gemma is published.
bool has_gemma_tokenizer(const std::filesystem::path& folder) {
  return io::is_there(folder / "tokenizer.model") || io::is_there(folder / "tokenizer.json");
}

}  // namespace

TextPart gemma_part(const Source& source, const text::GemmaConfig& config, const TextUse& use, const ModelFiles& files,
                    const ModelOptions& options) {
  auto tokenizer = tokenizer_of(files, options, use, "Gemma", config.vocab_size);
  tokenizer.load = tokenizers::load_gemma;
  tokenizer.limit = [&options, length = use.length](const tokenizers::Tokenizer&) { return prompt_length(options, length); };
  const bool is_beside = !options.tokenizer_path.empty() || files.in_pipeline(use.tokenizer);
  const auto carried = source.entry != nullptr ? vocabulary_in(*source.entry) : "";
  if (!is_beside && !carried.empty()) {
    const auto tensors = *source.entry->tensors;
    tokenizer.folder = [tensors] { return tensors.files().front()->path(); };
    tokenizer.load = [tensors, carried](const auto& from) {
      auto bytes = tensors.tensor(carried).contiguous();
      return tokenizers::gemma_of_bytes({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, from);
    };
  } else if (!is_beside && source.entry != nullptr && has_gemma_tokenizer(source.entry->folder)) {
    tokenizer.folder = [folder = source.entry->folder] { return folder; };
  }
  const std::string below = "model.language_model.";
  return {
      .recipe = {.name = use.name,
                 .what = "Gemma text encoder",
                 .source = source,
                 .build = builds<text::GemmaEncoder>(config),
                 .settings = length_settings(options, use.length),
                 .tokenizer = tokenizer},
      .names = {.layers = {.weights = below, .diffusers = use.name + ".", .kohya = use.kohya, .others = use.others, .comfyui = use.comfyui},
                .lora_targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                .folder_file = {"", text::gemma_keys_below(below)},
                .single_file = {use.comfyui, text::gemma_keys_below("model.")}}};
}

namespace {

template <class Tower, class Config>
Recipe tower_recipe(const std::string& name, const Source& source, const Config& config, const text::PixelRule& pixels) {
  return {.name = name, .what = "vision tower", .source = source, .build = builds<Tower>(config), .settings = [pixels](const std::string&) {
            return text::settings_of(pixels);
          }};
}

}  // namespace

Recipe vision_recipe(const std::string& name, const Source& source, const text::VisionConfig& config, const text::PixelRule& pixels) {
  return tower_recipe<text::QwenVision>(name, source, config, pixels);
}

Recipe vision_recipe(const std::string& name, const Source& source, const text::Qwen3VlVisionConfig& config,
                     const text::PixelRule& pixels) {
  return tower_recipe<text::Qwen3VlVision>(name, source, config, pixels);
}

ComponentNames vision_names(const std::string& name, const std::string& kohya) {
  return {.layers = {.weights = "visual.", .diffusers = name + ".", .kohya = kohya},
          .lora_targets = "qkv,proj,gate_proj,up_proj,down_proj",
          .folder_file = {"visual.", {}}};
}

ComponentNames qwen3_vl_vision_names(const std::string& name, const std::string& kohya) {
  auto names = vision_names(name, kohya);
  names.lora_targets = "qkv,proj,linear_fc1,linear_fc2";
  return names;
}

void check_tile(int64_t size, int64_t pixels_of_latent) {
  const auto multiple = 4 * pixels_of_latent;
  if (size % multiple == 0) return;
  config_error("models", "vae_tile_size {} is no multiple of {}, which this autoencoder of {} pixels a latent needs; take {}", size,
               multiple, pixels_of_latent, (size / multiple + 1) * multiple);
}

Option tile_option() {
  return {.name = "vae_tile_size",
          .help = "encode and decode larger pictures in overlapping tiles of so many pixels a side, for less memory; 0: whole",
          .otherwise = int64_t{0},
          .elsewhere = "",
          .why_wrong = why_no_tile,
          .most = kMostPixelsASide,
          .about = Option::About::tile_size};
}

/// Puts words into the keys of caches for how latents are made that the autoencoder's weights do not tell.
static void say_in_keys(AutoencoderPart& part, const std::string& words) {
  part.recipe.settings = [words, of_tiles = part.recipe.settings](const std::string& name) {
    return words + (of_tiles ? ", " + of_tiles(name) : "");
  };
}

AutoencoderPart kl_part(const Source& source, const ModelOptions& options, const KlUse& use) {
  vae::KlConfig config{.latent_channels = use.channels};
  if (source.entry)
    config = naming(source.entry->label, [&] { return vae::kl_config(source.entry->config, source.shapes(), use.latents); });
  if (!use.shifts) config.shift_factor = 0;
  config.tile_size = options.get<int64_t>("vae_tile_size");
  auto part = autoencoder_part<vae::AutoencoderKL>("KL autoencoder", source, config, config.latent_channels, config.tile_size);
  part.names.folder_file = {"", vae::diffusers_kl_keys()};
  part.names.single_file = {use.single_prefix, vae::original_kl_keys(config.block_out_channels.size())};
  if (!use.shifts) say_in_keys(part, "latents without a shift");
  return part;
}

AutoencoderPart patch_part(const Source& source, const ModelOptions& options) { return patch_part(source, options, {}); }

AutoencoderPart patch_part(const Source& source, const ModelOptions& options, const vae::PatchOrder& order) {
  auto config = read_named(source, vae::patch_config);
  config.order = order;
  config.kl.tile_size = options.get<int64_t>("vae_tile_size");
  auto part = autoencoder_part<vae::PatchAutoencoder>("KL autoencoder", source, config, config.channels(), config.kl.tile_size);
  part.names.folder_file = {"", vae::diffusers_kl_keys()};
  part.names.single_file = {"vae.", vae::original_kl_keys(config.kl.block_out_channels.size(), /*beside=*/false)};
  part.names.without_gradient.emplace_back("bn");
  if (order.by_pixel) say_in_keys(part, "patches by pixel");
  return part;
}

AutoencoderPart causal_part(const Source& source, const ModelOptions& options, vae::CausalFor use) {
  auto config = read_named(source, vae::causal_config);
  const int64_t num_expected = use == vae::CausalFor::layers || config.is_flat() ? 4 : 3;
  if (!source.entry) config.pixels.channels = num_expected;
  if (config.pixels.channels != num_expected)
    naming(source.entry->label, [&] {
      data_error("models", "the autoencoder takes pictures of {} channels, and {} were expected; it is another model's",
                 config.pixels.channels, num_expected);
    });
  config.tile_size = options.get<int64_t>("vae_tile_size");
  check_tile(config.tile_size, config.downsampling());
  auto part = autoencoder_part<vae::CausalAutoencoder>("causal autoencoder", source, config, config.latent_channels, config.tile_size);
  if (use == vae::CausalFor::clips) {
    part.encode = encode_clip;
    part.decode = decode_clip;
  }
  if (use == vae::CausalFor::layers) {
    part.encode = encode_layers;
    part.decode = decode_layers;
  }
  part.names.folder_file = {"", config.is_flat() ? io::KeyMap() : vae::diffusers_causal_keys(use)};
  part.names.single_file = {"vae.", vae::original_causal_keys(config)};
  return part;
}

void check_latents(const Source& transformer, int64_t channels_read, const AutoencoderPart& autoencoder) {
  if (!transformer.entry || !autoencoder.recipe.source.entry || channels_read == autoencoder.channels) return;
  data_error("models", "the transformer takes {} latent channels and the autoencoder makes {}; they belong to different models",
             channels_read, autoencoder.channels);
}

void check_widths(const Source& transformer, const char* what, int64_t width_read, const Source& encoder, const char* name,
                  int64_t width_made) {
  if (!transformer.entry || !encoder.entry || width_read == width_made) return;
  data_error("models", "the transformer takes {} of width {} and the {} makes {}; they belong to different models", what, width_read, name,
             width_made);
}

Option prompt_length_option() {
  return {.name = "max_sequence_length",
          .help = "text tokens; 0 takes what the model was trained with",
          .otherwise = int64_t{0},
          .elsewhere = "give max_token_length, or take it out",
          .least = 0,
          .most = kMostTokens,
          .about = Option::About::prompts};
}

Option embedded_guidance_option(double when_drawing) {
  return {.name = "embedded_guidance",
          .help = "guidance value given to models that embed it",
          .otherwise = 1.0,
          .elsewhere = "it embeds no guidance: take it out",
          .about = Option::About::guidance,
          .when_drawing = when_drawing};
}

Option distilled_option() {
  return {.name = "is_distilled",
          .help = "draw as a model that was distilled is drawn; on by itself where the model's folder says that it was",
          .otherwise = false,
          .elsewhere = "its files say how it is drawn, leave it out"};
}

void refuse_given(const ModelOptions& options, const Option& option) {
  if (options.own.is_given(option)) config_error("models", "{} is not supported for this model; {}", option.name, option.elsewhere);
}

int64_t prompt_length(const ModelOptions& options, int64_t otherwise) {
  auto chosen = options.get<int64_t>("max_sequence_length");
  return chosen > 0 ? chosen : otherwise;
}

/// The vocabulary of a model that sees may be part of its processor.
static constexpr const char* kInProcessor = "processor/tokenizer.json";

std::optional<std::filesystem::path> find_tokenizer(const ModelFiles& files, const std::string& chosen, const std::string& folder) {
  if (chosen.empty()) {
    if (auto found = files.in_pipeline(folder)) return found;
    auto vocabulary = folder == "tokenizer" ? files.in_pipeline(kInProcessor) : std::nullopt;
    return vocabulary ? std::optional(vocabulary->parent_path()) : std::nullopt;
  }
  auto colon = chosen.rfind(':');
  if (colon == chosen.npos || io::is_there(chosen)) return chosen;
  auto found = model_base_files(chosen.substr(0, colon), chosen.substr(colon + 1), HubUse::all);
  return found.empty() ? std::filesystem::path(chosen) : found[0];
}

namespace {

/// The tokenizer that lies beside the folder of a text encoder, as in a diffusers folder of which components are named one by one, or in
/// that folder, beside the weights.
std::optional<std::filesystem::path> beside_encoder(const ModelFiles& files, const std::string& folder) {
  for (const auto& entry : files.entries) {
    auto whole = std::filesystem::absolute(entry.folder / "").parent_path();
    const auto name = whole.filename().string();
    if (!name.starts_with("text_encoder") && name != "mllm") continue;
    if (auto beside = whole.parent_path() / folder; io::is_folder(beside)) return beside;
    if (auto beside = whole.parent_path() / kInProcessor; folder == "tokenizer" && io::is_there(beside)) return beside.parent_path();
    if (io::is_there(whole / "tokenizer.json") || io::is_there(whole / "vocab.json")) return whole;
  }
  return std::nullopt;
}

/// Finds or fetches a folder of a model below DIFFSYNTH_MODEL_BASE_PATH. Nothing where the hub may not be asked, or does not give the
/// folder, which a line says.
std::optional<std::filesystem::path> fetched(const std::string& id, const std::string& folder) {
  try {
    auto found = model_base_files(id, folder, HubUse::all);
    return found.empty() ? std::nullopt : std::optional(found[0]);
  } catch (const Error& error) {
    warn("{}:{} was not fetched: {}", id, folder, without_source(error));
    return std::nullopt;
  }
}

/// Fetches the tokenizer of a model whose folder below DIFFSYNTH_MODEL_BASE_PATH is `base`. Nothing where `base` is no such folder.
std::optional<std::filesystem::path> fetched_beside(const std::filesystem::path& base, const std::string& folder) {
  auto of_all = hub::settings_from_environment().model_base.lexically_normal();
  auto id = base.lexically_normal().lexically_relative(of_all).generic_string();
  return hub::is_model_id(id) ? fetched(id, folder + "/") : std::nullopt;
}

}  // namespace

std::filesystem::path tokenizer_folder(const ModelFiles& files, const std::string& chosen, const std::string& folder, const char* kind,
                                       const char* option, const std::string& published) {
  if (auto found = find_tokenizer(files, chosen, folder)) return *found;
  if (auto found = beside_encoder(files, folder)) return *found;
  for (const auto& base : files.pipeline_folders) {
    if (auto found = fetched_beside(base, folder)) return *found;
  }
  const auto colon = published.rfind(':');
  if (colon != published.npos && !files.pipeline_folders.empty()) {
    if (auto found = fetched(published.substr(0, colon), published.substr(colon + 1))) return *found;
  }
  data_error("models", "no {} tokenizer beside the model; name its folder with --{}_path", kind, option != nullptr ? option : folder);
}

}  // namespace burnish::models
