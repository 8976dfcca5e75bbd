#include "models/families/longcat_image/model.h"

#include <fmt/core.h>

#include "diffusion/flow_process.h"
#include "models/families/longcat_image/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/shared_units.h"
#include "models/parts/token_guidance.h"
#include "models/text/resample.h"
#include "tokenizers/spelled_quotes.h"

namespace burnish::models::longcat_image {

namespace {

const std::string kEncoder = "text_encoder", kTower = "image_encoder";
/// Tokens of a text as the model was trained, without those around it.
constexpr int64_t kTextLength = 512;
/// Stands before a text. No state that is read sees what the makers set behind it.
const tokenizers::ChatTemplate kChat{
    "<|im_start|>system\nAs an image captioning expert, generate a descriptive text prompt based on an image content, suitable for input "
    "to a text-to-image model.<|im_end|>\n<|im_start|>user\n",
    ""};
/// Stands before a picture that is to be changed, which stands before the text. Its states are dropped, those of the picture are read.
const tokenizers::ChatTemplate kEditChat{
    "<|im_start|>system\nAs an image editing expert, first analyze the content and attributes of the input image(s). Then, based on the "
    "user's editing instructions, clearly and precisely determine how to modify the given image(s), ensuring that only the specified parts "
    "are altered and all other aspects remain consistent with the original(s).<|im_end|>\n<|im_start|>user\n",
    ""};

}  // namespace

LongCatImageModel::LongCatImageModel(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  if (dit.entry) config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::qwen_config, text::qwen25_vl_7b());
  num_text_layers_ = text_config.num_layers;
  autoencoder_ = kl_part(vae, options_);
  check_latents(dit, config_.in_channels / 4, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  if (options_.references) {
    vision_config_ = read_named(image, text::vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), {});
  }
  add_transformer(dit);
  add_encoders(sources, text_config);
  add(autoencoder_, /*patch=*/2);
  fill_names();
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, {}));
}

void LongCatImageModel::add_encoders(const Sources& sources, const text::QwenConfig& text_config) {
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen25_7b.transformer.", .length = kTextLength},
                    .chat = kChat,
                    .drops_before = true,
                    .num_read = num_text_layers_,
                    .load = tokenizers::load_qwen_spelling_quotes};
  add(qwen_part(sources.text_encoder, text_config, use, files_, options_));
  if (!options_.references) return;
  add(vision_recipe(kTower, sources.image_encoder, vision_config_, pixels_), vision_names(kTower, "lora_vis_"));
}

// diffusers and SimpleTuner have our paths, ComfyUI FLUX.1's original ones.
void LongCatImageModel::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(
      source, config_,
      {.stacks = double_then_single(config_.num_double_blocks, config_.num_single_blocks), .behind = {"norm_out", "proj_out"}});
  add(recipe,
      {.layers = {.weights = "", .diffusers = "transformer.", .kohya = "lora_transformer_", .diffusers_alpha = false},
       .lora_targets = "to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,ff.net.0.proj,ff.net.2,"
                       "ff_context.net.0.proj,ff_context.net.2,proj_mlp,proj_out",
       .high_precision = {"x_embedder", "context_embedder", "time_embed\\..*", R"(transformer_blocks\..*\.norm1(_context)?\.linear)",
                          R"(single_transformer_blocks\..*\.norm\.linear)", "norm_out\\.linear", "proj_out"},
       .foreign_layers = foreign_layers(config_),
       .swapped_halves = swapped_layers(),
       .written = written_layers(config_),
       .single_file = {"model.diffusion_model.", original_keys()}});
}

void LongCatImageModel::fill_names() {
  names_.family = "longcat_image";
  names_.variant = "LongCat-Image";
  names_.file_words = {names_.variant, "https://github.com/meituan-longcat/LongCat-Image", "longcat_image"};
  names_.tokens = TokenNames{.width = config_.width()};
  names_.experts = {{"dit"}};
  if (pipeline_class(files_) == "LongCatImageEditPipeline") names_.references.expected = kReferenceColumn;
  names_.references.most = 1;
  if (options_.references) names_.references.column = kReferenceColumn;
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels / 4, -1, -1}}},
      {"text_embedding", {.shape = {-1, -1, config_.caption_width}, .of_prompt = true}},
  };
}

diffusion::Guide LongCatImageModel::guide() const { return options_.references ? diffusion::guide : guide_tokens_down; }

/// The tower sees a picture half as large as the autoencoder does, scaled twice.
at::Tensor LongCatImageModel::see(nn::Module& tower, const at::Tensor& image_3HW) const {
  const auto levels = levels_at(image_3HW.to(options_.device), reference_area(), scaled_up_to);
  const auto half = text::resampled(levels, levels.size(1) / 2, levels.size(2) / 2, text::Filter::lanczos);
  return static_cast<text::QwenVision&>(tower).forward(text::patches_of(half, vision_config_, pixels_));
}

/// Every text has as many tokens: the states of padding are read as well.
void LongCatImageModel::encode_prompt(pipeline::Scope& scope) {
  if (options_.references) {
    if (const auto& seen = scope.lists("seen_references").at(0); !seen.empty()) return encode_edit_prompt(scope, seen);
  }
  scope.uses(kEncoder);
  const auto& tokenizer = components_.tokenizer(kEncoder);
  const auto encoded = tokenizer.encode_padded(scope.text("prompt"), token_limit(components_, kEncoder));
  const text::QwenReading reading{.after = {num_text_layers_}, .first_token = encoded.first_token, .num_tokens = encoded.num_tokens};
  auto states = loaded<text::QwenEncoder>(kEncoder).forward(as_batch(encoded.ids, options_.device), reading).front();
  const auto num_before = tokenizer.num_before();
  scope.write("text_embedding", states.narrow(1, num_before, states.size(1) - num_before).contiguous());
}

void LongCatImageModel::encode_edit_prompt(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) {
  scope.uses(kEncoder);
  const auto& any = components_.tokenizer(kEncoder);
  const auto limit = prompt_length(options_, kTextLength);
  // The tokenizer of a model that is only named knows no template, and its text may be as long as any.
  const bool is_named = components_.source(kEncoder).entry->is_sizes;
  auto text = is_named ? longest_picture_text(seen, limit)
                       : picture_text(static_cast<const tokenizers::ChatTokenizer&>(any), kEditChat, {kPictureInText}, scope.text("prompt"),
                                      seen, limit);
  const text::QwenReading reading{.after = {num_text_layers_}, .pictures = text.pictures, .num_tokens = std::ssize(text.ids)};
  const auto& picture = text.pictures.back();
  const auto num_behind = is_named ? limit : 1 + limit;  // the mark that ends a picture, and the text
  text.ids.resize(static_cast<size_t>(picture.first + picture.num_tokens() + num_behind), any.pad_id());
  auto states = loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading).front();
  scope.write("text_embedding", states.narrow(1, text.num_dropped, states.size(1) - text.num_dropped).contiguous());
}

pipeline::Units LongCatImageModel::prompt_units() {
  using pipeline::Scope;
  auto encode = [this](Scope& s) { encode_prompt(s); };
  if (!options_.references) return {{"encode_prompt", {"prompt"}, {"text_embedding"}, {kEncoder}, encode}};
  auto see_picture = [this](nn::Module& tower, const at::Tensor& image, size_t) { return see(tower, image); };
  pipeline::Units units{seeing_unit(components_, kTower, see_picture),
                        {"encode_prompt", {"prompt", "seen_references"}, {"text_embedding"}, {kEncoder}, encode}};
  for (auto& unit : units) unit.settings = fmt::format("reference_pixels {}", reference_area());
  return units;
}

UnitGroups LongCatImageModel::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  std::vector<std::string> reads{"noisy", "text_embedding", "modulation"};
  if (options_.references) {
    const auto encode = encoding_by(autoencoder_, components_, options_.device);
    groups.encode_references = scaled_reference_units("vae", encode, reference_area(), options_.device, scaled_up_to);
    reads.emplace_back("latents_of_references");
  }
  auto give = [this](const Scope& scope, bool goes_on, Transformer::Inputs& in) {
    if (options_.references) in.references_BCHW = stack_lists(scope.lists("latents_of_references"));
    if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  };
  auto condition = [this](const Transformer& transformer, const Scope& scope) {
    return transformer.condition(denoiser_.time(scope), options_.dtype);
  };
  groups.denoise = denoiser_.units({.reads = reads, .modulate = denoiser_.modulating_each(condition), .give = give});
  return groups;
}

}  // namespace burnish::models::longcat_image
