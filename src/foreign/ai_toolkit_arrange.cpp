#include "foreign/ai_toolkit_arrange.h"

#include <algorithm>
#include <cmath>

#include "foreign/ai_toolkit_terms.h"
#include "foreign/ai_toolkit_words.h"
#include "foreign/prompts.h"

namespace burnish::foreign::of_ai_toolkit {

namespace {

Value keys_of_dataset(const Value& one) {
  auto ours = Value::object();
  auto weight = number_of(one.value("loss_multiplier", Value(1.0))).value_or(1);
  if (weight != 1) ours["loss_weight"] = weight;
  return ours;
}

/// Tells for what a dataset is: one of several frames takes clips alone there, and another pictures.
DatasetUse use_of(const Dataset& dataset) {
  const auto& one = dataset.settings;
  const bool of_clips =
      number_of(one.value("num_frames", Value(1))).value_or(1) > 1 || asks_for_something(one.value("auto_frame_count", Value(false)));
  return {text_of(one.value("folder_path", Value(""))), of_clips};
}

/// One sample: what it says of itself, in flags of its prompt too, goes before what is said of all.
PromptLine line_of(const Value& item, const Value& sample, const std::string& trigger) {
  auto prompt = item.is_object() ? text_of(item.value("prompt", Value(""))) : text_of(item);
  for (size_t at = 0; (at = prompt.find("[trigger]", at)) != prompt.npos; at += trigger.size()) prompt.replace(at, 9, trigger);
  auto line = read_prompt_line(prompt);
  auto fill = [&](Value& value, const char* name, const Value& otherwise) {
    if (!value.is_null()) return;
    auto of_all = sample.value(name, otherwise);
    value = item.is_object() ? item.value(name, of_all) : of_all;
  };
  fill(line.width, "width", 512);
  fill(line.height, "height", 512);
  fill(line.steps, "sample_steps", 20);
  fill(line.guidance, "guidance_scale", 7);
  fill(line.negative, "neg", "");
  fill(line.seed, "seed", 0);
  fill(line.frames, "num_frames", Value());
  if (number_of(line.frames) == 1) line.frames = Value();  // a picture
  return line;
}

/// Prompts of samples as lines of a file, and when they are drawn.
void put_samples(Value& process, Arranged& arranged) {
  const auto& sample = process["sample"];
  const bool has_samples = sample.contains("samples") && sample["samples"].is_array();
  const auto list = sample.value(has_samples ? "samples" : "prompts", Value::array());
  arranged.prompts_from = has_samples ? "sample.samples" : "sample.prompts";
  auto trigger = text_of(process.value("trigger_word", Value("")));
  std::vector<PromptLine> lines;
  for (const auto& item : list.is_array() ? list : Value::array()) {
    auto line = line_of(item, sample, trigger);
    if (auto seed = number_of(line.seed); seed && sample.value("walk_seed", false)) line.seed = *seed + static_cast<double>(lines.size());
    if (auto seed = number_of(line.seed)) line.seed = *seed < 0 ? Value() : Value(static_cast<int64_t>(*seed));
    lines.push_back(line);
  }
  put_lines(lines, arranged);
  auto every = number_of(sample.value("sample_every", Value(100))).value_or(0);
  if (arranged.prompts.empty() || every < 1) return;
  auto batches = number_of(process.value(Value::json_pointer("/train/gradient_accumulation_steps"), Value(1))).value_or(1);
  process["preview_steps"] = std::max<int64_t>(1, std::llround(every / std::max(1.0, batches)));
}

/// Takes the variant off a kind of model, as "zimage:turbo" has it: the model's files say it.
void put_arch(Value& process) {
  const auto arch = Value::json_pointer("/model/arch");
  if (!process.contains(arch) || !process[arch].is_string()) return;
  const auto kind = process[arch].get<std::string>();
  process[arch] = kind.substr(0, kind.find(':'));
}

}  // namespace

bool recognises(const Value& tree) {
  if (!tree.is_object() || !tree.contains("config") || !tree["config"].is_object()) return false;
  const auto& process = tree["config"].value("process", Value());
  return process.is_array() && !process.empty() && process[0].is_object();
}

Arranged arrange(Value tree, const Open&) {
  const auto& config = tree["config"];
  Arranged arranged{.tree = config["process"][0]};
  for (size_t i = 1; i < config["process"].size(); ++i)
    arranged.not_carried.push_back("config.process[" + std::to_string(i) + "]: a run is one process, and the first is taken");
  auto& process = arranged.tree;
  auto name = text_of(config.value("name", Value("run")));
  put_arch(process);
  process["output_path"] = text_of(process.value("training_folder", Value("output"))) + "/" + name;
  process.erase("training_folder");
  auto list = process.value("datasets", Value::array());
  std::vector<Dataset> datasets;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) continue;
    datasets.push_back({"datasets[" + std::to_string(i) + "].folder_path", list[i], keys_of_dataset(list[i])});
    if (list[i].value("is_reg", false)) datasets.back().ours["is_reg"] = true;
    if (list[i].value("is_reg", false) && list[i].value("prior_reg", false)) process["class_target"] = "model";
  }
  process.erase("datasets");
  part_by_media(datasets, use_of);
  put_ai_toolkit_pairs(process, datasets, arranged);
  auto first = first_of(datasets, arranged, {"class_set", "folder_path", "class_set_caption", "default_caption"});
  process["dataset"] = first;
  arranged.dataset_key = "dataset";
  put_ai_toolkit_targets(process, arranged);
  put_ai_toolkit_word(process, arranged);
  if (process.contains("sample") && process["sample"].is_object()) put_samples(process, arranged);
  return arranged;
}

}  // namespace burnish::foreign::of_ai_toolkit
