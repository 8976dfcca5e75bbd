#include "judging/dino3.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/log.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "tagging/dino3_tower.h"

namespace burnish::judging {

namespace {

const std::string kDino3Tower = "dino3";
constexpr const char* kDino3 = "DINOv3";

/// Files of transformers 4 have layers at their top, those of later ones below "model.".
std::string without_model(const std::string& name) {
  if (name == "embeddings.mask_token") return "";
  return name.starts_with("model.layer.") ? name.substr(6) : name;
}

bool is_dino3(const models::ModelEntry& entry) {
  const auto has = [&](const char* name) { return entry.tensors->contains(name); };
  return entry.tensors && has("embeddings.cls_token") && has("embeddings.patch_embeddings.weight") &&
         !has("embeddings.position_embeddings") && (has("layer.0.layer_scale1.lambda1") || has("model.layer.0.layer_scale1.lambda1"));
}

/// Reads how pictures are shown; published with it are sides of 224 and ImageNet's colours.
models::SquareRule rule_of_dino3(const models::ModelFiles& files, const models::ModelEntry& entry, int64_t patch) {
  models::SquareRule rule{.colours = models::text::imagenet_pixels(), .filter = models::text::Filter::bilinear, .is_rounded = false};
  const auto processor = models::find_processor(files, models::folder_with(entry, {"preprocessor_config.json"}));
  if (!processor) return rule;
  return models::naming(processor->file.string(), [&] {
    const auto& json = processor->of_pictures;
    rule.colours = models::text::pixel_rule(json);
    if (json.is_object() && json.contains("size")) io::take(json["size"], "height", rule.side, kDino3);
    constexpr int64_t kMostSide = 4096;
    if (rule.side < patch || rule.side > kMostSide || rule.side % patch != 0)
      data_error("judging", "pictures are scaled to {} pixels for DINOv3, and a square of whole patches of {} was expected", rule.side,
                 patch);
    rule.scaled = rule.side;
    return rule;
  });
}

}  // namespace

bool Dino3::is_in(const models::ModelFiles& files) { return files.find(is_dino3) != nullptr; }

Dino3::Dino3(const models::ModelFiles& files, const models::ModelOptions& options) : Eye(files, options) {
  const auto* entry = files.find(is_dino3);
  if (entry == nullptr)
    data_error("judging", "there is no DINOv3 in {}; name the folder of one, or facebook/dinov3-vits16-pretrain-lvd1689m",
               files.describe());
  const models::Source source{entry, entry->tensors->renamed(without_model), {}};
  const auto config = models::naming(entry->label, [&] { return tagging::dino3_config(entry->config, source.shapes()); });
  rule_ = rule_of_dino3(files, *entry, config.patch);
  components_.add({.name = kDino3Tower, .what = kDino3, .source = source, .build = [config](const auto&, const auto& o) {
                     return std::make_unique<tagging::Dino3Tower>(config, o);
                   }});
  info("DINOv3 is under the DINOv3 License of Meta: what is made with it names it, and some uses are forbidden");
}

at::Tensor Dino3::rows_of(const at::Tensor& image_N3SS) {
  return static_cast<tagging::Dino3Tower&>(components_.module(kDino3Tower)).pooled(image_N3SS);
}

}  // namespace burnish::judging
