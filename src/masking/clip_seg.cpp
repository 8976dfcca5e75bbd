#include "masking/clip_seg.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "data/row_scaler.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"

namespace burnish::masking {

namespace text = models::text;

namespace {

const std::string kTexts = "text_encoder", kPictures = "vision_tower", kDecoder = "decoder";

/// The part's own numbers of config.json, with what transformers takes where they are not said.
nlohmann::json numbers_of(const nlohmann::json& config, const char* part, nlohmann::json otherwise) {
  if (config.is_object() && config.contains(part) && config[part].is_object()) otherwise.update(config[part]);
  return otherwise;
}

template <class Module, class Config>
models::Recipe recipe_of(const std::string& name, const char* what, const models::Source& source, const Config& config) {
  return {.name = name, .what = what, .source = source, .build = [config](const std::string&, const at::TensorOptions& options) {
            return std::make_unique<Module>(config, options);
          }};
}

/// A square of the whole picture, whatever its shape.
at::Tensor stretched(const at::Tensor& picture_HW3, int64_t side) {
  const auto pixels = picture_HW3.contiguous();
  data::RowScaler scaler({pixels.size(0), pixels.size(1)}, 3, {side, side}, {.size = {side, side}});
  for (const auto& row : pixels.unbind()) scaler.take(row.const_data_ptr<uint8_t>());
  return scaler.scaled_HWC();
}

}  // namespace

ClipSeg::ClipSeg(const models::ModelFiles& files, const models::ModelOptions& options, const std::string& processor_path)
    : files_(files), options_(options), components_(files, options) {
  entry_ = files.find([](const auto& entry) {
    return entry.tensors && entry.tensors->contains("decoder.film_mul.weight") && entry.tensors->contains("clip.text_projection.weight");
  });
  if (entry_ == nullptr)
    data_error("masking", "there is no CLIPSeg in {}; name the folder of one with --model, or CIDAS/clipseg-rd64-refined",
               files.describe());
  const auto& json = entry_->config;
  const auto towers = entry_->tensors->below("clip.");
  const models::Source texts{entry_, text::clip_tensors(towers, text::Projection::keep), {}};
  const models::Source pictures{entry_, towers.below("vision_model.").without({"embeddings.position_ids"}), {}};
  const models::Source decoder{entry_, entry_->tensors->below("decoder."), {}};
  models::ClipVisionConfig vision;
  models::naming(entry_->label, [&] {
    text_ = text::clip_config(numbers_of(json, "text_config", {{"num_attention_heads", 8}, {"eos_token_id", 49407}}), texts.shapes());
    vision = models::clip_vision_config(numbers_of(json, "vision_config", {{"num_attention_heads", 12}, {"hidden_act", "quick_gelu"}}),
                                        pictures.shapes());
    decoder_ = decoder_config(json, decoder.shapes());
    return 0;
  });
  if (decoder_.layers.back() >= vision.num_layers || decoder_.width != vision.width || decoder_.patch != vision.patch ||
      decoder_.condition != text_.projection_dim)
    data_error("masking",
               "the decoder of {} reads layer {} of a tower of pictures {} wide in patches of {}, and texts {} wide; its towers "
               "have {} layers, are {} wide, have patches of {}, and make {} of a text",
               entry_->label, decoder_.layers.back(), decoder_.width, decoder_.patch, decoder_.condition, vision.num_layers, vision.width,
               vision.patch, text_.projection_dim);
  components_.add(recipe_of<text::ClipTextModel>(kTexts, "CLIP text encoder", texts, text_));
  components_.add(models::clip_vision_recipe(kPictures, pictures, vision));
  components_.add(recipe_of<Decoder>(kDecoder, "decoder of CLIPSeg", decoder, decoder_));
  read_processor(processor_path);
  auto chosen = options.tokenizer_path;
  if (chosen.empty() && !models::find_tokenizer(files, "", "tokenizer"))
    chosen = models::folder_with(*entry_, {"tokenizer.json", "vocab.json"});
  tokenizer_ = tokenizers::load_clip(models::tokenizer_folder(files, chosen, "tokenizer", "CLIP"));
  if (tokenizer_->num_ids() > text_.vocab_size)
    data_error("masking", "the tokenizer has {} tokens and CLIPSeg's text encoder knows {}; they belong to different models",
               tokenizer_->num_ids(), text_.vocab_size);
}

void ClipSeg::read_processor(const std::string& processor_path) {
  const auto chosen =
      processor_path.empty() ? models::folder_with(*entry_, {"preprocessor_config.json", "processor_config.json"}) : processor_path;
  pixels_.mean = {0.485, 0.456, 0.406};  // what is published with it
  pixels_.deviation = {0.229, 0.224, 0.225};
  const auto processor = models::find_processor(files_, chosen);
  if (!processor) return;
  models::naming(processor->file.string(), [&] {
    const auto& json = processor->of_pictures;
    auto height = side_, width = side_;
    if (json.is_object() && json.contains("size")) {
      io::take(json["size"], "height", height, "processor of CLIPSeg");
      io::take(json["size"], "width", width, "processor of CLIPSeg");
    }
    constexpr int64_t kMostSide = 8192;
    if (height != width || height < decoder_.patch || height > kMostSide || height % decoder_.patch != 0)
      data_error("masking", "pictures are scaled to {} by {} pixels for CLIPSeg, and a square of whole patches of {} was expected", width,
                 height, decoder_.patch);
    side_ = height;
    pixels_ = text::pixel_rule(json);
    return 0;
  });
}

at::Tensor ClipSeg::embed(const std::vector<std::string>& texts) {
  at::NoGradGuard no_grad;
  auto& encoder = static_cast<text::ClipTextModel&>(components_.module(kTexts));
  std::vector<at::Tensor> embedded;
  for (const auto& sought : texts) {
    // Tokens behind the end of a text are seen by none before it, so none are needed.
    const auto tokens = tokenizer_->encode_padded(sought, text_.max_positions);
    const auto ids_L = at::tensor(tokens.ids).narrow(0, tokens.first_token, tokens.num_tokens);
    embedded.push_back(encoder.forward(ids_L.unsqueeze(0).to(options_.device)).projected_BP);
  }
  return at::cat(embedded);
}

at::Tensor ClipSeg::scores(const at::Tensor& picture_HW3, const at::Tensor& texts_PC) {
  at::NoGradGuard no_grad;
  const auto levels = stretched(picture_HW3, side_).permute({2, 0, 1}).to(at::kDouble);
  auto of_colours = [&](const std::array<double, 3>& numbers) { return at::tensor(numbers, levels.options()).view({3, 1, 1}); };
  const auto image = ((levels / 255 - of_colours(pixels_.mean)) / of_colours(pixels_.deviation)).to(options_.device, options_.dtype);
  std::vector<int64_t> after;
  for (auto layer : decoder_.layers) after.push_back(layer + 1);
  const auto states = static_cast<models::ClipVision&>(components_.module(kPictures)).states(image.unsqueeze(0), after);
  return static_cast<Decoder&>(components_.module(kDecoder)).forward(states, texts_PC).to(at::kFloat);
}

}  // namespace burnish::masking
