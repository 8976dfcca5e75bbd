#include "foreign/onetrainer_arrange.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "foreign/onetrainer_words.h"
#include "foreign/prompts.h"

namespace burnish::foreign::of_onetrainer {

namespace {

Value keys_of_dataset(const Value& one) {
  auto ours = Value::object();
  auto weight = number_of(one.value("loss_weight", Value(1.0))).value_or(1);
  if (weight != 1) ours["loss_weight"] = weight;
  auto repeats = number_of(one.value("balancing", Value(1.0))).value_or(1);
  bool are_repeats = text_of(one.value("balancing_strategy", Value("REPEATS"))) == "REPEATS";
  if (are_repeats && repeats > 0 && repeats != std::floor(repeats)) ours["num_repeats"] = repeats;
  return ours;
}

/// Samples as lines of a file of prompts, and when they are drawn.
void put_samples(const Value& tree, const Open& open, Arranged& arranged) {
  auto samples = tree.value("samples", Value());
  arranged.prompts_from = "samples";
  if (!samples.is_array() && tree.contains("sample_definition_file_name")) {
    samples = open(text_of(tree["sample_definition_file_name"]));
    arranged.prompts_from = "sample_definition_file_name";
  }
  std::vector<PromptLine> lines;
  for (size_t i = 0; samples.is_array() && i < samples.size(); ++i) {
    const auto& one = samples[i];
    if (!one.is_object() || !one.value("enabled", true)) continue;
    // What is not given is as in modules/util/config/SampleConfig.py.
    lines.push_back({.prompt = text_of(one.value("prompt", Value(""))),
                     .width = one.value("width", Value(512)),
                     .height = one.value("height", Value(512)),
                     .seed = one.value("random_seed", false) ? Value() : one.value("seed", Value(42)),
                     .steps = one.value("diffusion_steps", Value(20)),
                     .guidance = one.value("cfg_scale", Value(7.0)),
                     .negative = one.value("negative_prompt", Value(""))});
  }
  put_lines(lines, arranged);
  auto every = number_of(tree.value("sample_after", Value(10))).value_or(0);
  auto unit = text_of(tree.value("sample_after_unit", Value("MINUTE")));
  if (arranged.prompts.empty() || unit == "NEVER" || every <= 0) return;
  auto batches = number_of(tree.value("gradient_accumulation_steps", Value(1))).value_or(1);
  if (unit == "STEP") arranged.tree["preview_steps"] = std::max(1.0, std::round(every / std::max(1.0, batches)));
  else
    arranged.not_carried.push_back(fmt::format(
        "sample_after = {:g} {}: previews are drawn every preview_steps steps, and before and after the run", every, lower(unit)));
}

}  // namespace

bool recognises(const Value& tree) {
  return tree.is_object() && (tree.contains("training_method") || tree.contains("base_model_name")) && tree.contains("model_type");
}

Arranged arrange(Value tree, const Open& open) {
  Arranged arranged;
  put_words(tree, arranged);
  arranged.tree = tree;
  auto& settings = arranged.tree;
  auto concepts = tree.value("concepts", Value());
  if (!concepts.is_array() && tree.contains("concept_file_name")) {
    concepts = open(text_of(tree["concept_file_name"]));
    if (concepts.is_array()) settings.erase("concept_file_name");
  }
  settings.erase("concepts");
  settings.erase("optimizer_defaults");  // of the optimizers that are not chosen
  std::vector<Dataset> datasets;
  for (size_t i = 0; concepts.is_array() && i < concepts.size(); ++i) {
    auto one = concepts[i];
    if (!one.is_object() || !one.value("enabled", true)) continue;
    one.erase("concept_stats");
    auto type = one.value("type", std::string("STANDARD"));
    auto name = "concepts[" + std::to_string(i) + "]";
    if (type == "VALIDATION" && !settings.contains("validation_path")) settings["validation_path"] = one.value("path", Value());
    else if (type == "VALIDATION") arranged.not_carried.push_back(name + ".path: one folder of held-out samples is judged");
    else if (type == "PRIOR_PREDICTION") {
      datasets.push_back({name + ".path", one, keys_of_dataset(one)});
      datasets.back().ours["is_reg"] = true;
      settings["class_target"] = "model";
    } else if (type == "STANDARD") datasets.push_back({name + ".path", one, keys_of_dataset(one)});
    else arranged.not_carried.push_back(name + ".type = " + type + ": class_metadata_path keeps what a model knows of a class");
  }
  auto first = first_of(datasets, arranged, {"class_set", "path", "class_set_caption", "caption"});
  settings["concept"] = first;
  arranged.dataset_key = "concept";
  put_samples(tree, open, arranged);
  return arranged;
}

}  // namespace burnish::foreign::of_onetrainer
