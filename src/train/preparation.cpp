#include "train/preparation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "io/hash.h"
#include "memory/heap.h"

namespace burnish::train {

namespace {

/// To be raised when a unit computes something else than it did from the same inputs and weights.
constexpr int kUnitsVersion = 1;

nlohmann::json describe(models::Model& model, const pipeline::Unit& unit, const std::vector<std::string>& stored,
                        data::FileHashes& hashes) {
  nlohmann::json models = nlohmann::json::object();
  for (const auto& name : unit.models) {
    auto made = model.provenance(name);
    models[name] = {{"settings", made.settings}, {"files", hashes.hash(made.files)}};
  }
  return {{"version", kUnitsVersion}, {"family", model.family()}, {"reads", unit.reads}, {"stored", stored}, {"models", models}};
}

}  // namespace

at::Tensor size_conditioning(const data::Dataset& dataset, int64_t row, int64_t variant) {
  auto original = dataset.original_size(row);
  auto crop = dataset.crop(row, variant);
  auto left = crop.flip ? data::covering_size(original, crop.size).width - crop.left - crop.size.width : crop.left;
  std::vector<float> numbers;
  for (auto number : {original.height, original.width, crop.top, left, crop.size.height, crop.size.width})
    numbers.push_back(static_cast<float>(number));
  return at::tensor(numbers).unsqueeze(0);
}

Preparation::Preparation(models::Model& model, const pipeline::Units& units, const std::vector<std::string>& carried,
                         const data::Dataset& dataset, data::Cache& cache, Share share)
    : model_(model), dataset_(dataset), cache_(cache) {
  std::vector<std::filesystem::path> files;
  for (auto row : dataset.rows()) files.emplace_back(dataset.file(row));
  picture_hashes_ = cache.hashes().hash(files);
  for (const auto& unit : units) open_stage(unit, carried);
  cache.hashes().save();
  for (size_t i = stages_.size(); i-- > 0;) plan(i, share);
}

void Preparation::open_stage(const pipeline::Unit& unit, const std::vector<std::string>& carried) {
  Stage stage;
  stage.unit = unit;
  for (const auto& name : unit.writes) {
    if (contains(carried, name)) stage.stored.push_back(name);
  }
  auto description = describe(model_, unit, stage.stored, cache_.hashes());
  if (!stage.stored.empty()) stage.section = &cache_.section(unit.name, description);
  // A stage that stores nothing still has keys, since those of later stages are made of them.
  auto made_by = io::sha256(unit.name + description.dump());
  stages_.push_back(std::move(stage));
  auto& added = stages_.back();
  for (size_t i = 0; i < num_inputs(); ++i) {
    auto inputs = key_of(added, i);
    added.keys.push_back(inputs.empty() ? "" : io::sha256(made_by + inputs).substr(0, 32));
  }
  if (added.section) added.section->verify(added.keys);
}

const Preparation::Stage* Preparation::writer(const std::string& value, size_t before) const {
  for (size_t i = before; i-- > 0;) {
    if (contains(stages_[i].unit.writes, value)) return &stages_[i];
  }
  return nullptr;
}

const std::string& Preparation::prompt(size_t input) const {
  static const std::string empty;
  return input < num_pictures() ? dataset_.prompt(row(input)) : empty;
}

/// The contents of what the unit reads, or "" when the input lacks one of them.
std::string Preparation::key_of(const Stage& stage, size_t input) const {
  std::string text;
  bool has_picture = input < num_pictures();
  for (const auto& name : stage.unit.reads) {
    std::string content;
    if (const auto* from = writer(name, stages_.size() - 1)) {
      content = from->keys[input];
    } else if (name == "prompt") {
      content = "text " + io::sha256(prompt(input));
    } else if (name == "image" && has_picture) {
      auto crop = dataset_.crop(row(input), variant(input));
      content = fmt::format("picture {} cut to {}x{}", picture_hashes_[input / num_variants()], crop.size.height, crop.size.width);
      if (!dataset_.is_centre(row(input), crop)) content += fmt::format(" from {},{}", crop.top, crop.left);
      if (crop.flip) content += " mirrored";
    } else if (name == "size_conditioning" && has_picture) {
      auto crop = dataset_.crop(row(input), variant(input));
      auto original = dataset_.original_size(row(input));
      content = fmt::format("{}x{} cut to {}x{}", original.height, original.width, crop.size.height, crop.size.width);
      if (!dataset_.is_centre(row(input), crop)) content += fmt::format(" from {},{}", crop.top, crop.left);
      if (crop.flip) content += " mirrored";
    }
    if (content.empty()) return "";
    text += fmt::format("\n{}: {}", name, content);
  }
  return text;
}

std::vector<size_t> Preparation::first_inputs(const Stage& stage) const {
  std::vector<size_t> first;
  std::set<std::string> seen;
  for (size_t i = 0; i < stage.keys.size(); ++i) {
    if (!stage.keys[i].empty() && seen.insert(stage.keys[i]).second) first.push_back(i);
  }
  return first;
}

/// Which keys of a stage have to be computed, once all later stages are planned. The distinct keys are shared out in runs of
/// neighbours, whatever is in the cache, so that all processes agree on who does what.
void Preparation::plan(size_t index, Share share) {
  auto& stage = stages_[index];
  auto inputs = first_inputs(stage);
  for (size_t position = 0; position < inputs.size(); ++position) {
    const auto& key = stage.keys[inputs[position]];
    bool stored = stage.section && stage.section->contains(key);
    bool mine = static_cast<int64_t>(position) * share.num_processes / std::ssize(inputs) == share.process_index;
    bool only_passing = stage.stored.size() < stage.unit.writes.size() || !stored;
    if ((stage.section && !stored && mine) || (stage.demanded.contains(key) && only_passing)) stage.to_compute.push_back(inputs[position]);
  }
  for (auto input : stage.to_compute) {
    for (const auto& name : stage.unit.reads) {
      const auto* from = writer(name, index);
      if (from) stages_[static_cast<size_t>(from - stages_.data())].demanded.insert(from->keys[input]);
    }
  }
}

void Preparation::run() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < stages_.size(); ++i) compute(i);
}

void Preparation::compute(size_t index) {
  auto& stage = stages_[index];
  auto total = first_inputs(stage).size();
  if (cache_.on_disk() && stage.section)
    info("{}: {} of {} results to compute, the others are in the cache", stage.unit.name, stage.to_compute.size(), total);
  if (stage.to_compute.empty()) return;
  for (const auto& name : stage.unit.models) model_.load(name);
  Progress progress(stage.unit.name, std::ssize(stage.to_compute));
  int64_t done = 0;
  for (auto input : stage.to_compute) {
    if (interrupted()) {
      if (stage.section) stage.section->flush();
      throw Error(Exit::interrupted, "train",
                  cache_.on_disk() ? "interrupted while preparing the data; what was computed is in the cache, give the same command again"
                                   : "interrupted while preparing the data; nothing was trained yet");
    }
    auto values = inputs_of(index, input);
    pipeline::run({stage.unit}, values);
    data::Tensors stored, passing;
    for (const auto& name : stage.unit.writes) {
      auto value = std::get<at::Tensor>(values.at(name)).cpu();
      check_finite(stage.unit, name, value, input);
      (contains(stage.stored, name) ? stored : passing)[name] = value;
    }
    const auto& key = stage.keys[input];
    if (stage.section) stage.section->add(key, std::move(stored));
    if (stage.demanded.contains(key)) stage.passing[key] = std::move(passing);
    progress.update(++done);
  }
  if (stage.section) stage.section->flush();
  for (const auto& name : stage.unit.models) model_.unload(name);
}

void Preparation::check_finite(const pipeline::Unit& unit, const std::string& name, const at::Tensor& value, size_t input) const {
  if (at::isfinite(value).all().item<bool>()) return;
  auto what = input < num_pictures() ? fmt::format("row {}", row(input)) : "the empty caption";
  data_error("train", "{}: the {} that {} gives are not finite; its weights are damaged, or too large for this dtype: try --dtype fp32",
             what, name, join(unit.models));
}

pipeline::Values Preparation::inputs_of(size_t index, size_t input) {
  pipeline::Values values;
  for (const auto& name : stages_[index].unit.reads) {
    if (const auto* from = writer(name, index)) {
      const auto& key = from->keys[input];
      values[name] = contains(from->stored, name) ? from->section->at(key).at(name) : from->passing.at(key).at(name);
    } else if (name == "prompt") {
      values[name] = prompt(input);
    } else if (name == "size_conditioning") {
      values[name] = size_conditioning(dataset_, row(input), variant(input));
    } else {
      values[name] = load_picture(input);
    }
  }
  return values;
}

/// What is encoded is what the key names: a picture that was changed in between is refused.
at::Tensor Preparation::load_picture(size_t input) {
  auto sample = dataset_.load(row(input), variant(input));
  if (cache_.on_disk() && cache_.hashes().hash(sample.file) != picture_hashes_[input / num_variants()])
    data_error("train", "the picture {} was changed while this run was reading it; give the same command again", sample.file);
  return sample.image_3HW.unsqueeze(0);
}

std::map<std::string, Preparation::Place> Preparation::places(size_t input) const {
  std::map<std::string, Place> places;
  for (const auto& stage : stages_) {
    for (const auto& name : stage.stored) {
      if (!stage.keys[input].empty()) places[name] = {stage.section, stage.keys[input]};
    }
  }
  return places;
}

}  // namespace burnish::train
