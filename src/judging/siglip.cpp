#include "judging/siglip.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "models/parts/siglip.h"

namespace burnish::judging {

namespace {

const std::string kSiglipTower = "siglip";
constexpr const char* kSiglip = "SigLIP";

/// Reads how pictures are shown; published with it are halves as means and deviations of colours.
SquareRule siglip_rule(const models::ModelFiles& files, const models::ModelEntry& entry, int64_t side) {
  SquareRule rule{.scaled = side, .side = side};
  rule.colours.mean = rule.colours.deviation = {0.5, 0.5, 0.5};
  const auto processor = models::find_processor(files, models::folder_with(entry, {"preprocessor_config.json"}));
  if (!processor) return rule;
  return models::naming(processor->file.string(), [&] {
    const auto& json = processor->of_pictures;
    rule.colours = models::text::pixel_rule(json);
    int64_t height = side, filter = static_cast<int64_t>(rule.filter);
    if (json.is_object() && json.contains("size")) io::take(json["size"], "height", height, kSiglip);
    if (json.is_object()) io::take(json, "resample", filter, kSiglip);
    if (height != side)
      data_error("judging", "pictures are scaled to {} pixels, and {} were expected, which the tower has places for", height, side);
    constexpr int64_t kBilinear = 2, kBicubic = 3;  // Pillow's numbers
    if (filter != kBilinear && filter != kBicubic)
      data_error("judging", "pictures are scaled by filter {}; 2 (bilinear) or 3 (bicubic) was expected", filter);
    rule.filter = filter == kBilinear ? models::text::Filter::bilinear : models::text::Filter::bicubic;
    return rule;
  });
}

}  // namespace

bool Siglip::is_in(const models::ModelFiles& files) { return files.find(models::is_siglip) != nullptr; }

Siglip::Siglip(const models::ModelFiles& files, const models::ModelOptions& options) : Eye(files, options) {
  const auto source = models::find_siglip(files);
  if (source.entry == nullptr)
    data_error("judging", "there is no SigLIP in {}; name the folder of one, or google/siglip2-base-patch16-224", files.describe());
  const auto config = models::naming(source.entry->label, [&] { return models::siglip_config(source.entry->config, source.shapes()); });
  rule_ = siglip_rule(files, *source.entry, config.image_size);
  components_.add(models::siglip_recipe(kSiglipTower, source, config));
}

at::Tensor Siglip::rows_of(const at::Tensor& image_N3SS) {
  return static_cast<models::SiglipVision&>(components_.module(kSiglipTower)).forward(image_N3SS).pooled_BE;
}

}  // namespace burnish::judging
