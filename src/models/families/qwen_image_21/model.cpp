#include "models/families/qwen_image_21/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <fmt/core.h>

#include <cmath>
#include <functional>

#include "base/input_error.h"
#include "diffusion/flow_process.h"
#include "models/families/qwen_image_21/keys.h"
#include "models/files/scheduler_file.h"
#include "models/parts/diffsynth_values.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_units.h"
#include "models/text/resample.h"

namespace burnish::models::qwen_image_21 {

namespace {

const std::string kEncoder = "text_encoder", kTower = "image_encoder";
/// What stands before the text encoder's layers in diffusers' folders, whose Qwen3VLForConditionalGeneration sees and speaks too.
const std::string kTextWeights = "model.language_model.";
/// Tokens of a prompt and what ends the conversation, unless the user asks for others. diffusers cuts none.
constexpr int64_t kTextLength = 1024;
/// The first turn of the conversation that the text encoder reads, whose states are dropped, and the rest around a prompt (diffusers:
/// pipeline_qwenimage21.py).
const std::string kSystemTurn = "<|im_start|>system\nComprehend and analyze the provided prompt.<|im_end|>\n";
const tokenizers::ChatTemplate kChat{kSystemTurn + "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"};

/// Writes what stands for so many pictures before the prompt.
std::string told_pictures(size_t count) {
  std::string told;
  for (size_t i = 1; i <= count; ++i) told += fmt::format("{}<image{}>{}", i == 1 ? "" : " ", i, kPictureInText);
  return told;
}

/// The text of a sample in a cache of DiffSynth-Studio, cut where pictures have their tokens: those behind the last picture are `last`,
/// those before each are a list.
struct CutText {
  at::Tensor last_1TE;
  std::vector<at::Tensor> between_1TE = {};
};
CutText cut_text(const DiffsynthValue::Find& find) {
  const auto states = find("prompt_embeds"), pictured = find("edit_image_pad_mask");
  if (states.size() != 1 || states[0].dim() != 3 || states[0].size(0) != 1)
    data_error("models", "'prompt_embeds' of a sample is not of one text, whose states are [1, T, E]");
  CutText text{.last_1TE = states[0]};
  if (pictured.empty()) return text;
  if (pictured.size() != 1 || pictured[0].dim() != 2 || pictured[0].size(1) != states[0].size(1))
    data_error("models", "'edit_image_pad_mask' of a sample is not of the tokens of 'prompt_embeds'");
  const auto mask = pictured[0][0].to(at::kBool).contiguous();
  int64_t begin = 0;
  for (int64_t i = 0; i < mask.size(0); ++i) {
    if (!mask[i].item<bool>()) continue;
    if (i == 0 || !mask[i - 1].item<bool>()) text.between_1TE.push_back(states[0].narrow(1, begin, i - begin));
    begin = i + 1;
  }
  text.last_1TE = states[0].narrow(1, begin, mask.size(0) - begin);
  return text;
}

DiffsynthValue of_cut_text(std::function<pipeline::Value(const CutText& text)> make) {
  return {.name = "prompt_embeds", .make = [make](const DiffsynthValue::Find& find) -> pipeline::Value { return make(cut_text(find)); }};
}

/// A sample without pictures has no latents of them, and nothing before them.
DiffsynthValue of_texts_between() {
  return {.name = "edit_latents",
          .make = [](const DiffsynthValue::Find& find) -> pipeline::Value {
            pipeline::TensorLists lists(1);
            for (const auto& part : cut_text(find).between_1TE) lists[0].push_back(part[0]);
            return lists;
          },
          .of_references = true};
}

}  // namespace

QwenImage21Model::QwenImage21Model(const ModelFiles& files, const ModelOptions& options) : AssembledModel(files, options) {
  const auto sources = find_sources(files_);
  const auto& [dit, text, image, vae] = sources;
  config_ = read_named(dit, detect);
  const auto text_config = read_named(text, text::qwen3_vl_config, text::qwen3_vl_8b());
  num_text_layers_ = text_config.num_layers;
  autoencoder_ = causal_part(vae, options_);
  check_latents(dit, config_.in_channels, autoencoder_);
  check_widths(dit, "texts", config_.caption_width, text, "text encoder", text_config.width);
  if (options_.references) {
    vision_config_ = read_named(image, text::qwen3_vl_vision_config);
    pixels_ = find_pixel_rule(files_, options_.get<std::string>("processor_path"), text::qwen3_vl_pixels());
  }
  control_ = std::make_unique<Control>(options_, components_, files_, config_, dit.entry != nullptr);
  add_transformer(dit);
  add_encoders(sources, text_config);
  add(autoencoder_, /*patch=*/1);
  add(control_->components(names_.of("dit")));
  latent_space_.side = 2 * autoencoder_.downsampling;  // a token of the vision tower is 2 × 2 of them
  fill_names();
  const diffusion::FlowSamplerConfig without_file{.max_shift = 0.9, .max_image_seq_len = 8192, .shift_terminal = 0.02};
  const diffusion::GridConfig grid{.shift = std::exp(0.8), .last = 0, .terminal = 0.02};
  process_ = std::make_unique<diffusion::FlowProcess>(flow_config(files_, without_file), grid);
}

// All programs have our paths. ComfyUI, in whose model two layers of an MLP are one, finds all of them behind "transformer." alone.
void QwenImage21Model::add_transformer(const Source& source) {
  auto recipe = denoiser_.recipe(source, config_, {.stacks = {{"transformer_blocks.", config_.num_layers}}, .behind = {"proj_out"}});
  add(recipe, {.layers = {.weights = "",
                          .diffusers = "transformer.",
                          .kohya = "lora_unet_",
                          .others = {"diffusion_model."},
                          .diffusers_alpha = false,
                          .onetrainer = "lora_transformer_",
                          .comfyui = "transformer.",
                          .diffsynth = ""},
               .lora_targets = "to_q,to_k,to_v,to_out.0,img_mlp.proj,img_mlp.gate_layer,img_mlp.out",
               .high_precision = {"img_in", "txt_in\\..*", "time_text_embed\\..*", "modulation\\.1", "norm_out\\.linear", "proj_out"},
               .foreign_layers = foreign_layers(config_),
               .single_file = {"model.diffusion_model.", comfyui_keys()}});
}

void QwenImage21Model::add_encoders(const Sources& sources, const text::QwenConfig& text_config) {
  const QwenUse use{.text = {.comfyui = "text_encoders.qwen3vl_8b.transformer.", .length = kTextLength},
                    .chat = kChat,
                    .drops_before = true,
                    .num_read = text_config.num_layers,
                    .below = kTextWeights};
  auto part = qwen_part(sources.text_encoder, text_config, use, files_, options_);
  part.names.without_gradient.emplace_back("norm");  // the states before it are read
  if (options_.references) part.recipe.tokenizer->load = [](const auto& folder) { return load_seeing_qwen(folder, kChat); };
  add(part);
  if (options_.references)
    add(vision_recipe(kTower, sources.image_encoder, vision_config_, pixels_), qwen3_vl_vision_names(kTower, "lora_vis_"));
}

void QwenImage21Model::fill_names() {
  names_.family = "qwen_image_21";
  names_.variant = "Qwen-Image-2.1";
  names_.tokens = TokenNames{.width = config_.width(), .output = 1};
  names_.experts = {{"dit"}};
  if (options_.references) names_.references.column = kReferenceColumn;
  control_->add_names(names_);
  names_.values = {
      {"latents", {.shape = {-1, config_.in_channels, -1, -1}, .diffsynth = {"input_latents"}}},
      {"text_embedding",
       {.shape = {-1, -1, config_.caption_width},
        .diffsynth = of_cut_text([](const CutText& text) { return text.last_1TE; }),
        .of_prompt = true,
        .padded = true}},
      {"text_mask",
       {.shape = {-1, -1},
        .diffsynth = of_cut_text([](const CutText& text) {
          return at::ones({1, text.last_1TE.size(1)}, at::kFloat);
        }),
        .of_prompt = true,
        .padded = true}},
      {"text_between", {.diffsynth = of_texts_between(), .of_prompt = options_.references}},
      {"latents_of_references", {.diffsynth = references_in_list("edit_latents")}},
  };
}

at::Tensor QwenImage21Model::see(nn::Module& tower, const at::Tensor& image_3HW, size_t) const {
  return static_cast<text::Qwen3VlVision&>(tower).forward(
      text::patches_of(levels_at(image_3HW.to(options_.device), reference_area()), vision_config_, pixels_));
}

PictureText QwenImage21Model::text_of(pipeline::Scope& scope, const std::vector<at::Tensor>& seen) const {
  const auto limit = prompt_length(options_, kTextLength);
  // A model that is only named has no text that is known; it may be as long as any. Its tokenizer knows no template.
  if (components_.source(kEncoder).entry->is_sizes) return longest_picture_text(seen, limit);
  const auto& tokenizer = static_cast<const tokenizers::ChatTokenizer&>(components_.tokenizer(kEncoder));
  const auto& prompt = scope.text("prompt");
  auto text = picture_text(tokenizer, kChat, {told_pictures(seen.size())}, prompt.empty() ? " " : prompt, seen, limit);
  text.num_dropped = std::ssize(tokenizer.encode_bare(kSystemTurn));
  return text;
}

// What a text has before each picture is kept apart: pictures have other tokens there.
void QwenImage21Model::encode_prompt(pipeline::Scope& scope) {
  scope.uses(kEncoder);
  const auto text = text_of(scope, options_.references ? scope.lists("seen_references").at(0) : std::vector<at::Tensor>{});
  const text::QwenReading reading{.after = {num_text_layers_}, .pictures = text.pictures, .norms_last = false};
  auto states = loaded<text::QwenEncoder>(kEncoder).forward(as_batch(text.ids, options_.device), reading).front();
  auto begin = text.num_dropped;
  std::vector<at::Tensor> between;
  for (const auto& picture : text.pictures) {
    between.push_back(states[0].narrow(0, begin, picture.first - begin).contiguous());
    begin = picture.first + picture.tokens_RCE.size(0) * picture.tokens_RCE.size(1);
  }
  write_text(scope, states.narrow(1, begin, states.size(1) - begin));
  if (options_.references) scope.write("text_between", pipeline::TensorLists{between});
}

// A ControlNet walks beside all blocks.
std::string QwenImage21Model::split_first_blocks(const Trains& trains) { return control_->is_read() ? "" : denoiser_.split(trains); }

void QwenImage21Model::give(pipeline::Scope& scope, bool goes_on, Transformer::Inputs& in) const {
  in.mask_BT = scope.tensor("text_mask").to(options_.device);
  if (!goes_on) in.text_BTE = scope.tensor("text_embedding").to(options_.dtype);
  if (options_.references) {
    in.references = stack_lists(scope.lists("latents_of_references"));
    for (const auto& states : stack_lists(scope.lists("text_between"))) in.between.push_back(states.to(options_.dtype));
  }
  control_->give(scope, "dit", in);
}

pipeline::Units QwenImage21Model::prompt_units() {
  using pipeline::Scope;
  if (!options_.references)
    return {{"encode_prompt", {"prompt"}, {"text_embedding", "text_mask"}, {kEncoder}, [this](Scope& s) { encode_prompt(s); }}};
  pipeline::Units units{
      seeing_unit(components_, kTower, std::bind_front(&QwenImage21Model::see, this)),
      {"encode_prompt", {"prompt", "seen_references"}, {"text_embedding", "text_mask", "text_between"}, {kEncoder}, [this](Scope& s) {
         encode_prompt(s);
       }}};
  for (auto& unit : units) unit.settings = fmt::format("reference_pixels {}", reference_area());
  return units;
}

UnitGroups QwenImage21Model::units_of(const Expert&) {
  using pipeline::Scope;
  auto groups = shared_units(autoencoder_);
  groups.encode_prompt = prompt_units();
  std::vector<std::string> reads{"noisy", "text_embedding", "text_mask", "modulation"};
  auto encode = encoding_by(autoencoder_, components_, options_.device);
  if (options_.references) {
    groups.encode_references = scaled_reference_units("vae", encode, reference_area(), options_.device);
    reads.insert(reads.end(), {"latents_of_references", "text_between"});
  }
  groups.denoise = denoiser_.units(
      {.reads = reads,
       .modulate = [this](Scope& s, const auto& part) { return denoiser_.loaded(part).modulate(denoiser_.time(s), options_.dtype); },
       .give = std::bind_front(&QwenImage21Model::give, this)});
  control_->add_units(groups, {"dit", "vae", encode, autoencoder_.downsampling});
  return groups;
}

}  // namespace burnish::models::qwen_image_21
