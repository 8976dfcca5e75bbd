#include "foreign/kohya_arrange.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "foreign/kohya_gui.h"
#include "foreign/kohya_model.h"
#include "foreign/prompts.h"

namespace burnish::foreign::of_kohya {

namespace {

bool is_dataset_file(const Value& tree) { return tree.contains("datasets"); }

/// LoRA_Easy_Training_Scripts' files have tables whose own tables are called args and dataset_args.
bool is_lora_easy(const Value& tree) {
  return std::ranges::any_of(tree, [](const Value& part) {
    return part.is_object() &&
           ((part.contains("args") && part["args"].is_object()) || (part.contains("dataset_args") && part["dataset_args"].is_object()));
  });
}

/// One level of them, with the flags that it hands on in other words.
Value options_of_lora_easy(const Value& tree) {
  auto options = Value::object();
  bool is_xl = false;
  for (const auto& [key, part] : tree.items()) {
    if (!part.is_object()) {
      if (key != "subsets") options[key] = part;
      continue;
    }
    for (const char* name : {"args", "dataset_args"}) {
      if (part.contains(name) && part[name].is_object()) options.update(part[name]);
    }
  }
  is_xl = options.value("sdxl", false);
  options.erase("sdxl");
  auto algorithm = options.value(Value::json_pointer("/network_args/algo"), Value());
  if (!options.contains("network_module"))
    options["network_module"] = !algorithm.is_null()                 ? "lycoris.kohya"
                                : options.contains("guidance_scale") ? "networks.lora_flux"
                                                                     : "networks.lora";
  if (options["network_module"] != "networks.lora_flux") options["script"] = is_xl ? "sdxl_train_network.py" : "train_network.py";
  if (options.contains("warmup_ratio") && !options.contains("lr_warmup_steps")) {
    options["lr_warmup_steps"] = options["warmup_ratio"];
    options.erase("warmup_ratio");
  }
  return options;
}

/// Modules of networks that sd-scripts has and nobody else.
bool is_own_module(const std::string& module) {
  for (const char* name : {"networks.lora_sd3", "networks.lora_lumina", "networks.lora_anima", "networks.lora_fa",
                           "networks.lora_hunyuan_image", "networks.dylora", "networks.oft"}) {
    if (module.starts_with(name)) return true;
  }
  return false;
}

/// Tells a command or a file by names that sd-scripts and what starts it have alone.
bool is_of_sd_scripts(const Value& tree) {
  static const std::set<std::string> kScripts{"train_network.py",
                                              "train_db.py",
                                              "fine_tune.py",
                                              "train_textual_inversion.py",
                                              "train_controlnet.py",
                                              "train_control_net.py",
                                              "train_textual_inversion_XTI.py"};
  auto script = text_of(tree.value("script", Value("")));
  for (const char* start : {"sdxl_train", "flux_train", "sd3_train", "lumina_train", "anima_train", "hunyuan_image_train"}) {
    if (script.starts_with(start)) return true;
  }
  if (kScripts.contains(script)) return true;
  if (tree.contains("reg_data_dir") || tree.contains("in_json")) return true;
  if (is_own_module(text_of(tree.value("network_module", Value(""))))) return true;
  bool has_model = tree.contains("pretrained_model_name_or_path");
  for (const char* name :
       {"dataset_config", "optimizer_type", "max_train_epochs", "save_model_as", "cache_latents", "caption_extension", "min_bucket_reso",
        "clip_l", "network_args", "network_module", "network_dim", "train_data_dir", "save_every_n_epochs", "lr_scheduler_num_cycles"}) {
    if (has_model && tree.contains(name)) return true;
  }
  return false;
}

Value keys_of_dataset(const Value& subset) {
  auto ours = Value::object();
  if (auto weight = number_of(subset.value("loss_weight", Value()))) ours["loss_weight"] = *weight;
  return ours;
}

/// A folder's folders of its own: REPEATS_WORDS, where the words are the caption of pictures that have none.
std::vector<Dataset> numbered_folders(const std::string& folder) {
  std::vector<Dataset> datasets;
  std::error_code failed;
  std::filesystem::directory_iterator entries(folder, failed);
  if (failed) return {};
  for (const auto& entry : entries) {
    auto name = entry.path().filename().string();
    auto line = name.find('_');
    auto repeats = number_of(Value(name.substr(0, line)));
    if (!entry.is_directory() || line == name.npos || !repeats || *repeats < 1) continue;
    Dataset one{entry.path().string(), {{"image_dir", entry.path().string()}, {"num_repeats", *repeats}}};
    one.settings["class_tokens"] = name.substr(line + 1);
    datasets.push_back(one);
  }
  std::ranges::sort(datasets, {}, &Dataset::name);
  return datasets;
}

/// Looks up what kind of model it is by its files, or, where they are not there, by their name.
std::string find_kind(const Value& tree) {
  auto path = text_of(tree.value("pretrained_model_name_or_path", Value("")));
  auto kind = kind_of_model(path), name = lower(std::filesystem::path(path).filename().string());
  if (!kind.empty()) return kind;
  for (const char* word : {"xl", "pony", "illustrious", "noob", "animagine"}) {
    if (name.find(word) != name.npos) return "sdxl";
  }
  if (name.find("flux") != name.npos) return "flux";
  if (name.find("sd3") != name.npos) return "sd3";
  return name.find("v1-5") != name.npos || name.find("sd15") != name.npos ? "sd15" : "";
}

/// The dataset file's levels, the outer ones under the inner ones, as if they were options.
void merge_datasets(const Value& file, Arranged& arranged) {
  std::vector<Dataset> subsets;
  auto general = file.value("general", Value::object());
  const auto& datasets = file["datasets"];
  for (size_t i = 0; i < datasets.size(); ++i) {
    auto list = datasets[i].value("subsets", Value::array());
    for (size_t k = 0; k < list.size(); ++k) {
      auto merged = general;
      merged.update(datasets[i]);
      merged.update(list[k]);
      merged.erase("subsets");
      auto name = "datasets[" + std::to_string(i) + "].subsets[" + std::to_string(k) + "].image_dir";
      subsets.push_back({name, merged, keys_of_dataset(merged)});
      if (merged.value("is_reg", false)) subsets.back().ours["is_reg"] = true;
    }
  }
  arranged.tree.update(first_of(subsets, arranged, {"reg_data_dir", "image_dir", "reg_class_tokens", "class_tokens"}));
}

/// The captions that stand in the place of a dataset's where a word is trained by templates, as a wildcard: there they are a list of such.
std::string template_of(const Value& tree) {
  const Settings all(tree);
  const auto word = all.text("token_string");
  if (all.on("use_object_template")) return "a {photo|close-up photo|rendering} of {a|the|my} {||clean|nice|small|large|weird} " + word;
  return all.on("use_style_template") ? "a {||clean|nice|small|large|weird} {painting|picture|rendering} in the style of " + word : "";
}

/// Puts these captions under all datasets, whatever lies beside their pictures.
void put_templates(Arranged& arranged) {
  const auto captions = template_of(arranged.tree);
  if (captions.empty()) return;
  const Value seen{{"class_tokens", captions}, {"enable_wildcard", true}, {"caption_extension", ".of-no-file"}};
  arranged.tree.update(seen);
  for (auto& dataset : arranged.datasets) dataset.settings.update(seen);
}

}  // namespace

bool recognises(const Value& tree) {
  if (!tree.is_object()) return false;
  if (is_dataset_file(tree)) {
    const auto& datasets = tree["datasets"];
    return datasets.is_array() && !datasets.empty() && datasets[0].is_object() && datasets[0].contains("subsets");
  }
  if (is_kohya_gui(tree)) return true;
  auto flat = is_lora_easy(tree) ? options_of_lora_easy(tree) : tree;
  return is_of_sd_scripts(is_lora_easy(tree) ? flat : without_sections(flat));
}

bool may_be(const Value& tree) {
  if (!tree.is_object()) return false;
  const auto flat = without_sections(tree);
  return flat.contains("network_module") || flat.contains("train_data_dir");
}

Arranged arrange(Value tree, const Open& open) {
  if (is_dataset_file(tree)) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    merge_datasets(tree, arranged);
    if (!arranged.tree.contains("caption_extension") && !arranged.tree.contains("metadata_file"))
      arranged.tree["caption_extension"] = ".caption";
    for (auto& dataset : arranged.datasets) {
      if (!dataset.settings.contains("caption_extension")) dataset.settings["caption_extension"] = ".caption";
    }
    return arranged;
  }
  if (is_kohya_gui(tree)) tree = options_of_kohya_gui(tree);
  auto subsets = Value::array();
  if (is_lora_easy(tree)) {
    if (tree.contains("subsets") && tree["subsets"].is_array()) subsets = tree["subsets"];
    tree = options_of_lora_easy(tree);
  } else {
    tree = without_sections(tree);
  }
  Arranged arranged{.tree = tree};
  if (!subsets.empty()) merge_datasets(Value{{"datasets", Value::array({Value{{"subsets", subsets}}})}}, arranged);
  for (const char* name : {"network_args", "optimizer_args"}) {
    if (tree.contains(name)) arranged.tree[name] = named_arguments(tree[name]);
  }
  if (!tree.contains("mixed_precision") && tree.contains("launch") && tree["launch"].contains("mixed_precision"))
    arranged.tree["mixed_precision"] = tree["launch"]["mixed_precision"];
  if (auto kind = find_kind(tree); !kind.empty()) arranged.tree["kind_of_model"] = kind;
  put_sample_prompts(arranged, open, flows(Settings(arranged.tree)) ? kPromptsOfFlows : kPromptsOfUnets);
  if (tree.contains("train_data_dir") && !tree.contains("in_json")) {
    auto datasets = numbered_folders(text_of(tree["train_data_dir"]));
    if (!datasets.empty()) {
      arranged.tree.erase("train_data_dir");
      arranged.tree.update(first_of(datasets, arranged));
    }
  }
  if (tree.contains("dataset_config")) {
    auto file = open(text_of(tree["dataset_config"]));
    if (file.is_object() && is_dataset_file(file)) {
      arranged.tree.erase("dataset_config");
      merge_datasets(file, arranged);
    }
  }
  put_templates(arranged);
  return arranged;
}

}  // namespace burnish::foreign::of_kohya
