#include "masking/clip_seg.h"

#include <ATen/core/grad_mode.h>

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "data/row_scaler.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/clip_towers.h"

namespace burnish::masking {

namespace text = models::text;

namespace {

const std::string kTexts = "text_encoder", kPictures = "vision_tower", kDecoder = "decoder";

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
  const auto towers = models::clip_towers(*entry_, "clip.");
  text_ = towers.text;
  const auto& vision = towers.vision;
  const models::Source decoder{entry_, entry_->tensors->below("decoder."), {}};
  decoder_ = models::naming(entry_->label, [&] { return decoder_config(entry_->config, decoder.shapes()); });
  if (decoder_.layers.back() >= vision.num_layers || decoder_.width != vision.width || decoder_.patch != vision.patch ||
      decoder_.condition != text_.projection_dim)
    data_error("masking",
               "the decoder of {} reads layer {} of a tower of pictures {} wide in patches of {}, and texts {} wide; its towers "
               "have {} layers, are {} wide, have patches of {}, and make {} of a text",
               entry_->label, decoder_.layers.back(), decoder_.width, decoder_.patch, decoder_.condition, vision.num_layers, vision.width,
               vision.patch, text_.projection_dim);
  components_.add(models::clip_text_recipe(kTexts, towers.texts, text_));
  components_.add(models::clip_vision_recipe(kPictures, towers.pictures, vision));
  components_.add(
      {.name = kDecoder, .what = "decoder of CLIPSeg", .source = decoder, .build = [config = decoder_](const auto&, const auto& o) {
         return std::make_unique<Decoder>(config, o);
       }});
  read_processor(processor_path);
  tokenizer_ = models::clip_tokenizer(files, options, *entry_, text_, "CLIPSeg");
}

void ClipSeg::read_processor(const std::string& processor_path) {
  const auto chosen =
      processor_path.empty() ? models::folder_with(*entry_, {"preprocessor_config.json", "processor_config.json"}) : processor_path;
  pixels_ = text::imagenet_pixels();  // what is published with it
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
  return models::embed_texts(static_cast<text::ClipTextModel&>(components_.module(kTexts)), *tokenizer_, texts, options_.device);
}

at::Tensor ClipSeg::scores(const at::Tensor& picture_HW3, const at::Tensor& texts_PC) {
  at::NoGradGuard no_grad;
  const auto levels = stretched(picture_HW3, side_).permute({2, 0, 1}).to(at::kDouble);
  const auto image = text::normalised(levels, pixels_).to(options_.device, options_.dtype);
  std::vector<int64_t> after;
  for (auto layer : decoder_.layers) after.push_back(layer + 1);
  const auto states = static_cast<models::ClipVision&>(components_.module(kPictures)).states(image.unsqueeze(0), after);
  return static_cast<Decoder&>(components_.module(kDecoder)).forward(states, texts_PC).to(at::kFloat);
}

}  // namespace burnish::masking
