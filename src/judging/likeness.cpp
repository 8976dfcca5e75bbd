#include "judging/likeness.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"

namespace burnish::judging {

namespace text = models::text;

namespace {

const std::string kTexts = "text_encoder", kPictures = "vision_tower", kProjection = "visual_projection";
constexpr const char* kClip = "CLIP";

/// The matrix from what the tower of pictures pools to the space that texts share.
struct Projection : nn::Module {
  Projection(int64_t in, int64_t out, const at::TensorOptions& options) : layer(in, out, options, /*with_bias=*/false) {
    own(kProjection, layer);
  }
  nn::Linear layer;
};

bool is_whole_clip(const models::ModelEntry& entry) {
  return entry.tensors && entry.tensors->contains("visual_projection.weight") && entry.tensors->contains("text_projection.weight") &&
         entry.tensors->contains("vision_model.embeddings.class_embedding");
}

}  // namespace

bool Likeness::is_in(const models::ModelFiles& files) { return files.find(is_whole_clip) != nullptr; }

Likeness::Likeness(const models::ModelFiles& files, const models::ModelOptions& options) : Eye(files, options) {
  const auto* entry = files.find(is_whole_clip);
  if (entry == nullptr)
    data_error("judging",
               "there is no whole CLIP, of pictures and of texts, in {}; name the folder of one, or openai/clip-vit-large-patch14",
               files.describe());
  towers_ = models::clip_towers(*entry, "");
  const models::Source projection{
      entry, entry->tensors->renamed([](const std::string& name) { return name.starts_with(kProjection) ? name : std::string(); }), {}};
  const auto in = io::side_of(projection.shapes(), kProjection + ".weight", 1, kClip),
             out = io::side_of(projection.shapes(), kProjection + ".weight", 0, kClip);
  if (in != towers_.vision.width || out != towers_.text.projection_dim)
    data_error("judging", "{} projects pictures from {} to {} numbers, and its towers are {} wide and make {} of a text", entry->label, in,
               out, towers_.vision.width, towers_.text.projection_dim);
  components_.add(models::clip_text_recipe(kTexts, towers_.texts, towers_.text));
  components_.add(models::clip_vision_recipe(kPictures, towers_.pictures, towers_.vision));
  components_.add({.name = kProjection, .what = "projection of CLIP", .source = projection, .build = [in, out](const auto&, const auto& o) {
                     return std::make_unique<Projection>(in, out, o);
                   }});
  if (const auto processor = models::find_processor(files, models::folder_with(*entry, {"preprocessor_config.json"})))
    rule_.colours = models::naming(processor->file.string(), [&] { return text::pixel_rule(processor->of_pictures); });
  rule_.scaled = rule_.side = towers_.vision.image_size();
  tokenizer_ = models::clip_tokenizer(files, options, *entry, towers_.text, kClip);
}

at::Tensor Likeness::rows_of(const at::Tensor& image_N3SS) {
  const auto pooled = static_cast<models::ClipVision&>(components_.module(kPictures)).pooled(image_N3SS);
  return static_cast<Projection&>(components_.module(kProjection)).layer.forward(pooled);
}

at::Tensor Likeness::of_texts(const std::vector<std::string>& texts) {
  return unit(models::embed_texts(static_cast<text::ClipTextModel&>(components_.module(kTexts)), *tokenizer_, texts, options_.device));
}

}  // namespace burnish::judging
