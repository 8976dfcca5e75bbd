#include "tagging/tagger.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/model_values.h"
#include "models/text/resample.h"

namespace burnish::tagging {

namespace {

const std::string kNetwork = "tagger";
constexpr const char *kTable = "selected_tags.csv", *kTagger = "tagger";
constexpr int64_t kWhite = 255;

/// An architecture, by tensors that all files of it have.
struct Architecture {
  const char* name;
  std::array<const char*, 2> marks;
  MakePlan plan;
  io::KeyMap (*keys)();    ///< rules from timm's names to ours; null: they are the same
  double usual_threshold;  ///< of general tags
};
constexpr std::array kArchitectures{
    Architecture{"EVA-02", {"blocks.0.mlp.fc1_g.weight", "head.weight"}, eva02_plan, nullptr, 0.5},
    Architecture{"ViT", {"blocks.0.attn.qkv.weight", "head.weight"}, vision_transformer_plan, vision_transformer_keys, 0.35},
    Architecture{"Swin V2", {"layers.0.blocks.0.attn.logit_scale", "head.fc.weight"}, swin_v2_plan, nullptr, 0.35},
    Architecture{"ConvNeXt", {"stages.0.blocks.0.conv_dw.weight", "head.fc.weight"}, conv_next_plan, nullptr, 0.35},
};

const Architecture* architecture_of(const models::ModelEntry& entry) {
  if (!entry.tensors) return nullptr;
  const auto found = std::ranges::find_if(kArchitectures, [&](const auto& one) {
    return std::ranges::all_of(one.marks, [&](const char* mark) { return entry.tensors->contains(mark); });
  });
  return found == kArchitectures.end() ? nullptr : &*found;
}

/// Returns config.json beside the weights, also beside a file that was named alone.
nlohmann::json config_beside(const models::ModelEntry& entry) {
  const auto file = entry.folder / "config.json";
  return entry.config.is_null() && io::is_there(file) ? io::read_json(file) : entry.config;
}

}  // namespace

const std::vector<PublishedTagger>& published_taggers() {
  static const std::vector<PublishedTagger> kTaggers{{"wd-eva02-large-tagger-v3", "SmilingWolf/wd-eva02-large-tagger-v3"},
                                                     {"wd-vit-large-tagger-v3", "SmilingWolf/wd-vit-large-tagger-v3"},
                                                     {"wd-swinv2-tagger-v3", "SmilingWolf/wd-swinv2-tagger-v3"},
                                                     {"wd-convnext-tagger-v3", "SmilingWolf/wd-convnext-tagger-v3"},
                                                     {"wd-vit-tagger-v3", "SmilingWolf/wd-vit-tagger-v3"}};
  return kTaggers;
}

std::string id_of(const std::string& name) {
  const auto& all = published_taggers();
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return one.name == name; });
  return found == all.end() || io::is_there(name) || io::is_folder(name) ? name : found->id;
}

bool is_tagger(const models::ModelFiles& files) {
  return files.find([](const auto& entry) { return architecture_of(entry) != nullptr; }) != nullptr;
}

Tagger::Tagger(const models::ModelFiles& files, const models::ModelOptions& options) : options_(options), components_(files, options) {
  const auto* entry = files.find([](const auto& one) { return architecture_of(one) != nullptr; });
  if (entry == nullptr)
    data_error("tagging", "there is no tagger of pictures in {}; name the folder of a WD tagger of version 3, or {}", files.describe(),
               published_taggers().front().name);
  const auto* architecture = architecture_of(*entry);
  name_ = std::string(architecture->name) + " tagger";
  usual_threshold_ = architecture->usual_threshold;
  const auto table = entry->folder / kTable;
  if (!io::is_there(table))
    data_error("tagging",
               "{} has a network of pictures and no {} beside it, which names its tags; fetch that file from where the model is published",
               entry->label, kTable);
  tags_ = read_tag_names(table);
  const auto config = config_beside(*entry);
  const models::Source source{entry, *entry->tensors, architecture->keys != nullptr ? architecture->keys() : io::KeyMap()};
  models::naming(entry->label, [&] {
    plan_ = architecture->plan(config, source.shapes());
    read_normalisation(config);
    return 0;
  });
  if (std::ssize(tags_) != plan_.num_tags)
    data_error("tagging", "{} names {} tags, and the network in {} knows {}; they belong to different models", table.string(), tags_.size(),
               entry->label, plan_.num_tags);
  components_.add({.name = kNetwork,
                   .what = name_,
                   .source = source,
                   .build = [build = plan_.build](const std::string&, const at::TensorOptions& o) { return build(o); },
                   .dtype = at::kFloat});
}

void Tagger::read_normalisation(const nlohmann::json& config) {
  if (!config.is_object() || !config.contains("pretrained_cfg")) return;
  io::take(config["pretrained_cfg"], "mean", mean_, kTagger);
  io::take(config["pretrained_cfg"], "std", deviation_, kTagger);
  const bool is_positive = std::ranges::all_of(deviation_, [](double one) { return one > 0; });
  if (mean_.size() != 3 || deviation_.size() != 3 || !is_positive)
    data_error("tagging",
               "the config.json of the {} has {} means and {} deviations of colours; three of each, the latter above 0, were expected",
               kTagger, mean_.size(), deviation_.size());
}

at::Tensor Tagger::shown(const at::Tensor& picture_HW3) const {
  const auto height = picture_HW3.size(0), width = picture_HW3.size(1), side = std::max(height, width);
  auto square = at::full({3, side, side}, kWhite, at::kDouble);
  square.narrow(1, (side - height) / 2, height).narrow(2, (side - width) / 2, width).copy_(picture_HW3.permute({2, 0, 1}));
  const auto scaled = side == plan_.side ? square : models::text::resampled(square, plan_.side, plan_.side, models::text::Filter::bicubic);
  auto of_colours = [](const std::vector<double>& numbers) { return at::tensor(numbers, at::kDouble).view({3, 1, 1}); };
  return ((scaled / kWhite - of_colours(mean_)) / of_colours(deviation_)).to(at::kFloat);
}

at::Tensor Tagger::likelihoods(const at::Tensor& image_B3SS) {
  at::NoGradGuard no_grad;
  auto& network = static_cast<Network&>(components_.module(kNetwork));
  return at::sigmoid(network.logits(image_B3SS.to(options_.device))).to(at::kFloat).cpu();
}

}  // namespace burnish::tagging
