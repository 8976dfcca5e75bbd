#include "judging/siglip.h"

#include "base/input_error.h"
#include "models/parts/siglip.h"

namespace burnish::judging {

namespace {

const std::string kSiglipTower = "siglip";

}  // namespace

bool Siglip::is_in(const models::ModelFiles& files) { return files.find(models::is_siglip) != nullptr; }

Siglip::Siglip(const models::ModelFiles& files, const models::ModelOptions& options) : Eye(files, options) {
  const auto source = models::find_siglip(files);
  if (source.entry == nullptr)
    data_error("judging", "there is no SigLIP in {}; name the folder of one, or google/siglip2-base-patch16-224", files.describe());
  const auto config = models::naming(source.entry->label, [&] { return models::siglip_config(source.entry->config, source.shapes()); });
  rule_ = models::siglip_rule(files, *source.entry, config.image_size);
  components_.add(models::siglip_recipe(kSiglipTower, source, config));
}

at::Tensor Siglip::rows_of(const at::Tensor& image_N3SS) {
  return static_cast<models::SiglipVision&>(components_.module(kSiglipTower)).forward(image_N3SS).pooled_BE;
}

}  // namespace burnish::judging
