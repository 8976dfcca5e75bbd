#include "train/samples/compute.h"

#include <ATen/core/grad_mode.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "models/model/block_by_block.h"

namespace burnish::train {

namespace {

/// To be raised when a unit computes something else than it did from the same inputs and weights.
constexpr int kUnitsVersion = 1;

struct Loaded {
  Loaded(models::Model& m, std::vector<std::string> n) : model(m), names(std::move(n)) {
    for (const auto& name : names) model.components().load(name);
  }
  ~Loaded() {
    for (const auto& name : names) model.components().unload(name);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  models::Model& model;
  const std::vector<std::string> names;
};

void compute_by_block(models::Model& model, const Work& work, Progress& progress) {
  auto& components = model.components();
  info("{} is read block by block, each for many samples: it takes {}, for which there is no room", *work.by_block,
       human_bytes(static_cast<double>(components.num_bytes(*work.by_block))));
  models::BlockByBlock blocks(components, *work.by_block);
  int64_t num_done = 0;
  auto run = [&](int64_t i) {
    work.run(i);
    progress.update(++num_done);
  };
  blocks.run(work.num_items, run, [&] {
    if (interrupted()) work.interrupted();
    return true;
  });
}

}  // namespace

void compute(models::Model& model, const Work& work) {
  at::NoGradGuard no_grad;
  auto whole = work.models;
  if (work.by_block) std::erase(whole, *work.by_block);
  Loaded loaded(model, whole);
  Progress progress(work.name, work.num_items);
  if (work.by_block) return compute_by_block(model, work, progress);
  for (int64_t i = 0; i < work.num_items; ++i) {
    if (interrupted()) work.interrupted();
    if (!work.run(i)) return;
    progress.update(i + 1);
  }
}

namespace {

/// Null when nothing is merged into the component.
nlohmann::json merged_into(const models::Model& model, const std::string& name, data::Cache& cache) {
  auto merge = model.components().holding(name).merge;
  if (!merge) return nullptr;
  return {{"settings", merge->settings()}, {"files", cache.hashes().hash(merge->files())}};
}

}  // namespace

nlohmann::json made_by(const models::Model& model, const std::vector<std::string>& models, data::Cache& cache) {
  auto by = nlohmann::json::object();
  for (const auto& name : models) {
    auto made = model.components().provenance(name);
    by[name] = {{"settings", made.settings}, {"files", nlohmann::json::array()}};
    if (cache.on_disk()) by[name]["files"] = cache.hashes().hash(made.files);
    if (auto merged = merged_into(model, name, cache); !merged.is_null()) by[name]["merged"] = merged;
  }
  return {{"version", kUnitsVersion}, {"family", model.names().family}, {"models", by}};
}

void check_merged(const models::Model& model, const data::CacheSection& section, data::Cache& cache) {
  auto description = nlohmann::json::parse(section.description());
  if (!description.contains("models")) {  // of another program, which does not say what made it
    for (const auto& [name, names] : model.names().components) {
      if (!model.names().is_denoiser(name) && model.components().holding(name).merge)
        config_error("train",
                     "the cache was imported, and nobody knows of preset LoRAs in the {} that made it; name what else they are for in "
                     "preset_lora_model",
                     name);
    }
    return;
  }
  for (const auto& [name, made] : description["models"].items()) {
    if (made.value("merged", nlohmann::json()) == merged_into(model, name, cache)) continue;
    config_error("train", "{} in the cache {} was made with other preset LoRAs in the {} than this run has; {}", section.name(),
                 cache.folder().string(), name, "give the same preset_lora_path, or make the cache again");
  }
}

}  // namespace burnish::train
