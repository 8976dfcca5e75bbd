#include "judging/dino.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/processor_settings.h"
#include "tagging/vision_transformer.h"

namespace burnish::judging {

namespace {

const std::string kTower = "dino";
constexpr const char* kDino = "DINOv2";
constexpr const char* kPlaces = "embeddings.position_embeddings";

bool is_dino(const models::ModelEntry& entry) {
  return entry.tensors && entry.tensors->contains(kPlaces) && entry.tensors->contains("encoder.layer.0.layer_scale1.lambda1") &&
         !entry.tensors->contains("embeddings.register_tokens");
}

/// Returns the rules from transformers' names to those of a ViT here.
io::KeyMap dino_keys() {
  const std::string theirs = "encoder.layer.{}.", ours = "blocks.{}.";
  std::vector<io::KeyRule> rules{{"embeddings.cls_token", {"cls_token"}}, {kPlaces, {"pos_embed"}}};
  for (const std::string part : {"1", "2"}) rules.push_back({theirs + "layer_scale" + part + ".lambda1", {ours + "ls" + part + ".gamma"}});
  for (const std::string part : {".weight", ".bias"}) {
    const std::pair<std::string, std::string> names[] = {{"attention.attention.query", "attn.q"},
                                                         {"attention.attention.key", "attn.k"},
                                                         {"attention.attention.value", "attn.v"},
                                                         {"attention.output.dense", "attn.proj"},
                                                         {"norm1", "norm1"},
                                                         {"norm2", "norm2"},
                                                         {"mlp.fc1", "mlp.fc1"},
                                                         {"mlp.fc2", "mlp.fc2"}};
    for (const auto& [their, our] : names) rules.push_back({theirs + their + part, {ours + our + part}});
    rules.push_back({"embeddings.patch_embeddings.projection" + part, {"patch_embed.proj" + part}});
    rules.push_back({"layernorm" + part, {"norm" + part}});
  }
  return io::KeyMap(rules);
}

/// Reads how pictures are shown; published with it are sides of 224 out of 256 and ImageNet's colours.
models::SquareRule rule_of(const models::ModelFiles& files, const models::ModelEntry& entry, int64_t patch) {
  models::SquareRule rule{.scaled = 256, .side = 224, .colours = models::text::imagenet_pixels()};
  const auto processor = models::find_processor(files, models::folder_with(entry, {"preprocessor_config.json"}));
  if (!processor) return rule;
  return models::naming(processor->file.string(), [&] {
    const auto& json = processor->of_pictures;
    rule.colours = models::text::pixel_rule(json);
    if (json.is_object() && json.contains("size")) io::take(json["size"], "shortest_edge", rule.scaled, kDino);
    if (json.is_object() && json.contains("crop_size")) io::take(json["crop_size"], "height", rule.side, kDino);
    constexpr int64_t kMostSide = 4096;
    if (rule.side < patch || rule.side > rule.scaled || rule.scaled > kMostSide || rule.side % patch != 0)
      data_error("judging", "pictures are cut to {} of {} pixels for DINOv2, and a square of whole patches of {} was expected", rule.side,
                 rule.scaled, patch);
    return rule;
  });
}

}  // namespace

bool Dino::is_in(const models::ModelFiles& files) { return files.find(is_dino) != nullptr; }

Dino::Dino(const models::ModelFiles& files, const models::ModelOptions& options) : Eye(files, options) {
  const auto* entry = files.find(is_dino);
  if (entry == nullptr)
    data_error("judging", "there is no DINOv2 in {}; name the folder of one without registers, or facebook/dinov2-base", files.describe());
  const models::Source source{entry, entry->tensors->without({"embeddings.mask_token"}), dino_keys()};
  const auto plan = models::naming(entry->label, [&] {
    nlohmann::json settings{{"global_pool", "token"}, {"model_args", nlohmann::json::object()}};
    int64_t num_heads = 0;
    if (io::take(entry->config, "num_attention_heads", num_heads, kDino)) settings["model_args"]["num_heads"] = num_heads;
    return tagging::vision_transformer_plan(settings, source.shapes());
  });
  rule_ = rule_of(files, *entry, io::side_of(source.shapes(), "patch_embed.proj.weight", 2, kDino));
  components_.add(
      {.name = kTower, .what = kDino, .source = source, .build = [build = plan.build](const auto&, const auto& o) { return build(o); }});
}

at::Tensor Dino::rows_of(const at::Tensor& image_N3SS) {
  return static_cast<tagging::VisionTransformer&>(components_.module(kTower)).pooled(image_N3SS);
}

}  // namespace burnish::judging
