#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/text.h"
#include "foreign/kohya_gui.h"
#include "foreign/program.h"
#include "foreign/prompts.h"

// Names and defaults: library/train_util.py, train_network.py, library/flux_train_utils.py and docs/config_README-en.md of sd-scripts.
namespace burnish::foreign {

namespace of_kohya {
namespace {

/// The kind of model between whose text encoder and denoiser a conditioner lies, as its scripts' names begin.
const std::string kConditioned = "anima";
constexpr const char* kFileDecides = "the file of network_weights decides type, rank and alpha";

/// The kind of model: by the script, else by what only one kind is given, by its files, or by its name. The last are looked up once, when
/// the settings are arranged.
std::string kind_of(const Settings& all) {
  auto script = all.text("script"), type = lower(all.text("model_train_type"));
  if (script.starts_with("flux") || type.starts_with("flux")) return "flux";
  if (script.starts_with("sdxl") || type.starts_with("sdxl")) return "sdxl";
  for (const char* of_first : {"train_network.py", "train_db.py", "fine_tune.py", "train_textual_inversion.py"}) {
    if (script == of_first) return "sd15";
  }
  if (type.starts_with("sd-")) return "sd15";
  auto module = all.text("network_module");
  if (script.starts_with("anima_train") || module == "networks.lora_anima" || all.has("qwen3")) return kConditioned;
  bool drawn = all.has("timestep_sampling") && module != "networks.lora";
  if (all.has("clip_l") || all.has("t5xxl") || all.has("ae") || drawn || module.ends_with("lora_flux") ||
      all.text("model_type") == "chroma")
    return "flux";
  if (all.has("text_encoder_lr2") || all.has("learning_rate_te2") || all.has("learning_rate_te1")) return "sdxl";
  return all.text("kind_of_model");
}

/// Settings of a model that flows, whose denoiser is called dit; the others have a unet.
bool flows(const Settings& all) { return kind_of(all) == "flux" || kind_of(all) == kConditioned; }
bool is_conditioned(const Settings& all) { return kind_of(all) == kConditioned; }

std::string denoiser(const Settings& all) { return flows(all) ? "dit" : "unet"; }

bool is_xl(const Settings& all) { return kind_of(all) == "sdxl"; }

/// Settings without a network train the model itself.
bool trains_whole(const Settings& all) { return !all.has("network_module"); }

/// Settings of a word whose vectors train, and nothing else.
bool trains_word(const Settings& all) { return all.has("token_string") || all.text("script").ends_with("train_textual_inversion.py"); }

bool is_zero(const Settings& all, const char* name) { return all.number(name) == 0.0; }

/// The text encoders that train. sd-scripts' networks adapt them too unless told otherwise, CLIP alone of FLUX.1's; a rate of 0 leaves them
/// as they are, and so do outputs that are kept, but for FLUX.1, of which they are T5's.
std::vector<std::string> text_encoders(const Settings& all) {
  std::vector<std::string> parts;
  if (trains_whole(all)) {
    if (flows(all)) return {};
    bool of_db = all.text("script") == "train_db.py" && all.number("stop_text_encoder_training").value_or(0) >= 0;
    if (!all.on("train_text_encoder") && !of_db) return {};
    if (!is_zero(all, "learning_rate_te1") && !is_zero(all, "learning_rate_te")) parts.emplace_back("text_encoder");
    if (is_xl(all) && !is_zero(all, "learning_rate_te2")) parts.emplace_back("text_encoder_2");
    return parts;
  }
  bool keeps_outputs = all.on("cache_text_encoder_outputs") || all.on("cache_text_encoder_outputs_to_disk");
  if (all.on("network_train_unet_only") || (keeps_outputs && !flows(all)) || is_zero(all, "text_encoder_lr")) return {};
  if (all.text("model_type") == "chroma") {  // which has T5 alone
    if (all.on("network_args.train_t5xxl")) parts.emplace_back("text_encoder");
    return parts;
  }
  if (!is_zero(all, "text_encoder_lr1")) parts.emplace_back("text_encoder");
  bool second = is_xl(all) || (flows(all) && all.on("network_args.train_t5xxl"));
  if (second && !is_zero(all, "text_encoder_lr2")) parts.emplace_back("text_encoder_2");
  return parts;
}

bool encoders_train(const Settings& all) { return !text_encoders(all).empty(); }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (!all.on("network_train_text_encoder_only")) parts.push_back(denoiser(all));
  // Among all weights it trains unless told otherwise, among adapters where it is asked for.
  const bool with_conditioner = trains_whole(all) ? !is_zero(all, "llm_adapter_lr") : all.on("network_args.train_llm_adapter");
  if (is_conditioned(all) && with_conditioner) parts.emplace_back("text_conditioner");
  for (const auto& part : text_encoders(all)) parts.push_back(part);
  return join(parts, ",");
}

/// A line where the kind is not known and the second text encoder would train.
std::string note_on_parts(const Settings& all) {
  bool unknown = kind_of(all).empty() && encoders_train(all);
  return unknown
             ? "neither the settings nor the model's file, which is not there, say whether this is SDXL, whose second text encoder trains "
               "as well: write unet,text_encoder,text_encoder_2 for it"
             : "";
}

/// A single block counts there as half a double block; a UNet has no such option.
Outcome swapped_blocks(const Value& value, const Settings& all) {
  if (is_conditioned(all)) return carried(value);
  auto count = static_cast<int64_t>(number_of(value).value_or(0));
  return carried(count / 2 + 2 * (count - count / 2), "a number of blocks, whatever their size");
}

/// Gradients of all of such a model take as much as its weights: where nothing needs them together, they are freed one by one.
Outcome updates_in_backward(const Value& value, const Settings& all) {
  if (asks_for_something(value)) return carried(true);
  auto optimizer = lower(all.text("optimizer_type", "adamw"));
  bool can = all.number("gradient_accumulation_steps").value_or(1) == 1 && lower(all.text("mixed_precision")) == "bf16" &&
             optimizer != "prodigy" && optimizer != "prodigyopt.prodigy";
  if (!trains_whole(all) || !flows(all) || !can) return left_out("");
  return carried(true, "gradients are freed one by one, and max_grad_norm clips each by its own norm; take it out to clip by that of all");
}

Outcome kept_on_disk(const Value& value, const Settings&) {
  return asks_for_something(value) ? carried("cache", "a folder beside the settings") : left_out("");
}

Outcome when_new(const Value& value, const Settings& all) {
  if (trains_whole(all)) return left_out("nothing but an adapter has it");
  return all.has("network_weights") ? left_out(kFileDecides) : carried(value);
}

Outcome adapter_type(const Value& module, const Settings& all) {
  if (all.has("network_weights")) return left_out("");
  auto name = text_of(module), algorithm = lower(all.text("network_args.algo", "lora"));
  if (!name.starts_with("lycoris")) {
    bool known = name == "networks.lora" || name.ends_with("lora_flux") || name == "networks.lora_anima" ||
                 name.ends_with("networks.loha") || name.ends_with("networks.lokr");
    if (!known) return left_out("adapters here are lora, dora, loha and lokr");
    return carried(name.ends_with("loha") ? "loha" : name.ends_with("lokr") ? "lokr" : "lora");
  }
  if (algorithm == "lora" || algorithm == "locon") return carried(all.on("network_args.dora_wd") ? "dora" : "lora");
  if (algorithm == "diag-oft") return carried("oft");
  if (algorithm != "loha" && algorithm != "lokr" && algorithm != "full")
    return left_out("adapters here are lora, dora, loha and lokr, not " + algorithm);
  return carried(algorithm);
}

/// The rates of the text encoders that train. One without its own takes learning_rate, not the denoiser's; networks of SDXL have one for
/// both, the first of a list.
Outcome encoder_rates(const Value&, const Settings& all) {
  auto parts = text_encoders(all);
  const auto* list = all.find("text_encoder_lr");
  auto of_run = text_of(all.has("learning_rate") ? *all.find("learning_rate") : Value(2e-6));
  bool differs = all.has("unet_lr");
  std::vector<std::string> rates;
  for (const auto& part : parts) {
    const size_t number = part == "text_encoder" ? 0 : 1;
    const auto* own = all.find(number == 0 ? "text_encoder_lr1" : "text_encoder_lr2");
    for (const char* name : {number == 0 ? "learning_rate_te1" : "learning_rate_te2", "learning_rate_te"}) {
      if (!own && trains_whole(all)) own = all.find(name);
    }
    Value rate = of_run;
    if (own) rate = *own;
    else if (list && list->is_array() && !list->empty()) rate = (*list)[flows(all) && list->size() > number ? number : 0];
    else if (list && !list->is_array()) rate = *list;
    differs = differs || text_of(rate) != of_run;
    rates.push_back(part + "=" + text_of(rate));
  }
  return differs && !rates.empty() ? carried(join(rates, ",")) : left_out("");
}

Outcome given_rate(const Value& value, const Settings& all) {
  bool is_off = number_of(value) == 0.0 && !all.on("network_train_unet_only");
  if (!encoders_train(all)) return left_out(is_off ? "" : "the text encoders do not train");
  return of_optimizer(kohya_optimizer(), encoder_rates)(value, all);
}

/// Weights that train whole are in fp32 and multiplied in few bits, unless full_bf16 has them in bf16.
Outcome weights_that_train(const Value& value, const Settings& all) {
  if (!trains_whole(all) || trains_word(all) || lower(all.text("mixed_precision", "no")) != "bf16") return left_out("");
  if (!asks_for_something(value)) return carried("remainder");
  bool rounds = kohya_optimizer()(all) == "adafactor" && all.on("fused_backward_pass");
  return carried(rounds ? "stochastic" : "nearest");
}

bool is_dataset_file(const Value& tree) { return tree.contains("datasets"); }

void flatten_sections(Value& tree);

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

/// What none but sd-scripts and what starts it says, in a command or a file.
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
  if (tree.contains("network_module") || tree.contains("train_data_dir") || tree.contains("reg_data_dir") || tree.contains("in_json"))
    return true;
  bool has_model = tree.contains("pretrained_model_name_or_path");
  for (const char* name : {"dataset_config", "optimizer_type", "max_train_epochs", "save_model_as", "cache_latents", "caption_extension",
                           "min_bucket_reso", "clip_l", "network_args", "save_every_n_epochs", "lr_scheduler_num_cycles"}) {
    if (has_model && tree.contains(name)) return true;
  }
  return false;
}

bool recognises(const Value& tree) {
  if (!tree.is_object()) return false;
  if (is_dataset_file(tree)) {
    const auto& datasets = tree["datasets"];
    return datasets.is_array() && !datasets.empty() && datasets[0].is_object() && datasets[0].contains("subsets");
  }
  if (is_kohya_gui(tree)) return true;
  auto flat = is_lora_easy(tree) ? options_of_lora_easy(tree) : tree;
  if (!is_lora_easy(tree)) flatten_sections(flat);
  return is_of_sd_scripts(flat);
}

/// --config_file's sections are headings only.
void flatten_sections(Value& tree) {
  auto flat = Value::object();
  for (const auto& [key, value] : tree.items()) {
    if (value.is_object() && key != "launch") flat.update(value);
    else flat[key] = value;
  }
  tree = flat;
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

/// Has all datasets be seen under these captions, whatever lies beside their pictures.
void put_templates(Arranged& arranged) {
  const auto captions = template_of(arranged.tree);
  if (captions.empty()) return;
  const Value seen{{"class_tokens", captions}, {"enable_wildcard", true}, {"caption_extension", ".of-no-file"}};
  arranged.tree.update(seen);
  for (auto& dataset : arranged.datasets) dataset.settings.update(seen);
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
    flatten_sections(tree);
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

void model_rows(Table& table) {
  // Of two files that hold a part the first is taken.
  table << same("vae", "model") << same("pretrained_model_name_or_path", "model") << same("clip_l", "model") << same("t5xxl", "model")
        << same("ae", "model") << same("llm_adapter_path", "model") << same("t5_tokenizer_path", "tokenizer_2_path");
  table << same("qwen3", "model",
                "both tokenizers are in sd-scripts' own folder configs; name their folders in tokenizer_path and tokenizer_2_path");
  table << kind_row(
      "script", {"train_network.py", "train_db.py", "fine_tune.py", "train_textual_inversion.py", "sdxl_train.py", "sdxl_train_network.py",
                 "sdxl_train_textual_inversion.py", "flux_train.py", "flux_train_network.py", "anima_train.py", "anima_train_network.py"});
  table << no_place({{"v2", false}}, kAnotherKind);
  table << rewritten("v_parameterization", "prediction_type", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried("v_prediction") : left_out("");
           }).otherwise(false);
  table << same("zero_terminal_snr", "zero_terminal_snr").otherwise(false) << same("max_token_length", "max_token_length");
  table << rewritten("clip_skip", "clip_skip", [](const Value& value, const Settings& all) {
    return is_xl(all) || flows(all) ? left_out("sd-scripts leaves it unread for this model") : carried(value);
  });
  auto base_fp8 = [](const Value& value, const Settings& all) {
    if (is_conditioned(all)) return left_out(asks_for_something(value) ? "sd-scripts leaves it unread for this model" : "");
    return asks_for_something(value) ? carried(denoiser(all), "weights get a scale for each row here (weight_format fp8)") : left_out("");
  };
  table << rewritten("fp8_base", "fp8_models", base_fp8, false) << rewritten("fp8_base_unet", "fp8_models", base_fp8, false);
  table << rewritten(
      "guidance_scale", "embedded_guidance",
      [](const Value& value, const Settings& all) {
        if (all.text("model_type") == "chroma" || is_conditioned(all)) return left_out("");  // which embed no guidance
        if (flows(all)) return carried(value);
        return left_out(number_of(value) == 3.5 ? "" : "only models that flow take it");
      },
      3.5);
}

constexpr int64_t kWholeLokr = 10000;  ///< a rank from which on LoKr's second factor is whole, as full_matrix has it

void network_rows(Table& table) {
  table << rewritten("network_module", "lora_type", adapter_type);
  table << rewritten("network_module", "lora_format", [](const Value& value, const Settings& all) {
    if (all.has("network_weights")) return left_out("");
    return carried(text_of(value).starts_with("lycoris") ? "lycoris" : "kohya");
  });
  table << rewritten(
      "network_train_unet_only", "lora_base_model",
      [](const Value&, const Settings& all) { return trains_whole(all) ? left_out("") : carried(trained_parts(all), note_on_parts(all)); },
      false);
  table << rewritten(
      "train_text_encoder", "trainable_models",
      [](const Value&, const Settings& all) {
        return trains_whole(all) && !trains_word(all) ? carried(trained_parts(all), note_on_parts(all)) : left_out("");
      },
      false);
  table << rewritten(
      "network_dim", "lora_rank",
      [](const Value& value, const Settings& all) {
        bool is_whole = lower(all.text("network_args.algo")) == "lokr" && all.on("network_args.full_matrix");
        return trains_whole(all) ? left_out("") : when_new(is_whole ? Value(kWholeLokr) : value, all);
      },
      4);
  table << rewritten(
      "network_alpha", "lora_alpha",
      [](const Value& value, const Settings& all) { return trains_whole(all) ? left_out("") : when_new(value, all); }, 1);
  table << same("network_dropout", "lora_dropout") << same("network_weights", "lora_checkpoint");
  table << same("network_args.factor", "lokr_factor") << same("network_args.rs_lora", "use_rslora");
  table << same("network_args.loraplus_lr_ratio", "loraplus_lr_ratio");
  table << no_place({"network_args.loraplus_unet_lr_ratio", "network_args.loraplus_text_encoder_lr_ratio"},
                    "there is one ratio, loraplus_lr_ratio");
  table << looked_at({"network_args.algo",
                      {"network_args.full_matrix", false},
                      "network_args.dora_wd",
                      "network_args.train_t5xxl",
                      "network_args.train_llm_adapter",
                      {"network_train_text_encoder_only", false},
                      "kind_of_model",
                      "model_train_type",
                      {"model_type", "flux"}});
  table << needless({{"dim_from_weights", false}}, "a file's rank is its own")
        << needless({"network_args.split_qkv"}, "layers carry adapters by themselves here")
        << needless({"network_args.wd_on_output"}, "the magnitude of DoRA is per output (dora_norm)");
  table << no_place({"network_args.conv_dim", "network_args.conv_alpha", "network_args.preset"},
                    "name the layers, convolutions among them, in lora_target_modules, and their ranks in lora_rank_groups");
  table << no_place({"network_args.network_reg_dims", "network_args.network_reg_alphas", "network_args.network_reg_lrs"},
                    "write it for our layer paths in lora_rank_groups, lora_alpha_groups or lr_groups");
  table << no_place({"network_args.rank_dropout", "network_args.module_dropout"}, "adapters drop inputs alone (lora_dropout)");
  table << no_place({"network_args.*"}, "lora_target_modules and lora_rank_groups say which layers get which rank");
  table << no_place({"scale_weight_norms"}, "norms of adapters are not bounded");
  table << rewritten("base_weights", "preset_lora_path", [](const Value& value, const Settings& all) {
    auto list = value.is_array() ? value : Value::array({value});
    const auto* strengths = all.find("base_weights_multiplier");
    for (size_t i = 0; strengths && i < list.size(); ++i) {
      if (!strengths->is_array()) list[i] = text_of(list[i]) + (i == 0 ? ":" + text_of(*strengths) : "");
      else if (i < strengths->size()) list[i] = text_of(list[i]) + ":" + text_of((*strengths)[i]);
    }
    return carried(list);
  });
  table << looked_at({"base_weights_multiplier"});
  auto of_unet = [](const Value& value, const Settings& all) {
    return all.has("unet_lr") && !kohya_optimizer()(all).empty() ? encoder_rates(value, all) : left_out("");
  };
  table << rewritten("learning_rate", "text_encoder_lr", of_unet, 2e-6);
  for (const char* name :
       {"text_encoder_lr", "text_encoder_lr1", "text_encoder_lr2", "learning_rate_te", "learning_rate_te1", "learning_rate_te2"})
    table << rewritten(name, "text_encoder_lr", given_rate);
  table << rewritten("stop_text_encoder_training", "", [](const Value& value, const Settings& all) {
    auto steps = number_of(value).value_or(-1);
    bool stops = encoders_train(all) && steps >= 0 && (all.has("max_train_epochs") || steps < all.number("max_train_steps").value_or(1600));
    return left_out(stops ? "a text encoder trains to the end here; train so many steps with it, and go on without it from that file" : "");
  });
}

/// A word, its vectors and the captions that it stands in.
void inversion_rows(Table& table) {
  table << same("token_string", "embedding_token", "it is replaced as it stands, also within another word")
        << same("init_word", "embedding_init") << same("weights", "embedding_checkpoint");
  table << rewritten("num_vectors_per_token", "embedding_length", [](const Value& value, const Settings& all) {
             return all.has("weights") ? left_out("") : carried(value);
           }).otherwise(Value());
  auto seen = [](const Value& value, const Settings&) {
    return asks_for_something(value)
               ? carried(".of-no-file",
                         "captions beside pictures are not read, and class_tokens says those that are drawn, which are of "
                         "the kind of sd-scripts' and not the very list")
               : left_out("");
  };
  table << rewritten("use_object_template", "caption_extension", seen) << rewritten("use_style_template", "caption_extension", seen);
}

void caption_rows(Table& table) {
  table << rewritten(
      "caption_extension", "caption_extension",
      [](const Value& value, const Settings& all) {
        if (all.has("caption_extention")) return left_out("");
        bool reads_captions = all.has("train_data_dir") || all.has("image_dir");
        return all.has("caption_extension") || reads_captions ? caption_ending_row("").convert(value, all) : left_out("");
      },
      ".caption");
  table << caption_ending_row("caption_extention");
  table << same("shuffle_caption", "shuffle_caption").otherwise(false) << same("keep_tokens", "keep_tokens").otherwise(0)
        << same("caption_tag_dropout_rate", "caption_tag_dropout_rate").otherwise(0.0)
        << same("enable_wildcard", "enable_wildcard").otherwise(false) << same("caption_separator", "caption_separator").otherwise(",");
  for (const char* name : {"keep_tokens_separator", "secondary_separator", "caption_prefix", "caption_suffix"}) table << same(name, name);
  table << no_place({{"caption_dropout_every_n_epochs", 0}}, "give a share of visits in caption_dropout");
  table << no_place({{"token_warmup_step", 0}}, "leave tags out with caption_tag_dropout_rate")
        << needless({{"token_warmup_min", 1}}, "token_warmup_step asks for it, and that is told");
  table << no_place({{"weighted_captions", false}}, "captions are taken as they are written");
  table << rewritten("class_tokens", "class_tokens", given_caption) << rewritten("reg_class_tokens", "class_prompt", given_caption);
  table << looked_at({"loss_weight"});
}

void data_rows(Table& table) {
  table << rewritten("train_data_dir", "dataset_metadata_path", [](const Value& value, const Settings&) {
    bool is_there = std::filesystem::is_directory(text_of(value));
    return carried(value, is_there ? ""
                                   : "folders in it called REPEATS_WORDS there say how often their pictures are seen, and are one dataset "
                                     "here; where they are there when this is read, they are written as datasets of their own");
  });
  table << same("image_dir", "dataset_metadata_path");
  table << same("reg_data_dir", "class_metadata_path") << same("prior_loss_weight", "prior_loss_weight").otherwise(1.0);
  table << same("train_batch_size", "batch_size").otherwise(1) << same("batch_size", "batch_size");
  table << same("num_repeats", "dataset_repeat");
  table << rewritten("dataset_repeats", "dataset_repeat", [](const Value& value, const Settings& all) {
             return all.has("num_repeats") ? left_out("") : carried(value);
           }).otherwise(1);
  table << rewritten("resolution", "resolution", [](const Value& value, const Settings&) {
    auto sides = sides_of(value);
    if (sides.empty()) return left_out("is no side, nor width and height");
    return carried(std::to_string(sides[0]) + "," + std::to_string(sides[1]));
  });
  table << same("enable_bucket", "enable_bucket").otherwise(false);
  table << rewritten(
      "bucket_no_upscale", "bucket_no_upscale",
      [](const Value& value, const Settings& all) { return all.on("enable_bucket") ? carried(value) : left_out(""); }, false);
  const std::pair<const char*, int64_t> sides[] = {{"min_bucket_reso", 256}, {"max_bucket_reso", 1024}, {"bucket_reso_steps", 64}};
  for (const auto& [name, side] : sides) table << same(name, name).otherwise(side);
  table << no_place({"skip_image_resolution"}, "take small pictures out of the folder");
  table << no_place({"resize_interpolation"}, "all pictures are scaled in one way");
  table << same("caption_dropout_rate", "caption_dropout").otherwise(0.0) << same("flip_aug", "random_flip").otherwise(false)
        << same("random_crop", "random_crop").otherwise(false);
  caption_rows(table);
  table << no_place({{"color_aug", false}, "face_crop_aug_range"}, "pictures are cropped and mirrored, not changed otherwise");
  table << no_place({"dataset_config"}, "cannot be read from here; name the folder of pictures in dataset_metadata_path");
  table << no_place({"metadata_file", "in_json", "dataset_class"},
                    "name the folder of pictures, or a metadata file with the columns image and prompt, in dataset_metadata_path");
  table << rewritten("conditioning_data_dir", "mask_folder", [](const Value& value, const Settings& all) {
    return all.on("masked_loss") && !all.on("alpha_mask") ? carried(value, "the mean of a mask's colours counts, not its red")
                                                          : left_out("no control networks are trained");
  });
  table << no_place({{"network_multiplier", 1.0}}, "weigh the dataset's loss with loss_weight");
  table << needless({"custom_attributes"}, "nothing reads it but scripts of one's own")
        << needless({{"cache_info", false}}, "metadata is read at once");
  table << rewritten("masked_loss", "masked_loss", [](const Value& value, const Settings& all) {
             if (!asks_for_something(value)) return left_out("");
             return all.on("alpha_mask") ? carried("alpha")
                                         : carried("column", "masks are in mask_folder, or named in the column `mask` of a metadata file");
           }).otherwise(false);
  table << looked_at({{"alpha_mask", false}, {"is_reg", false}})
        << needless({{"debug_dataset", false}}, "`burnish data` shows what a run would read");
}

void loss_rows(Table& table) {
  table << rewritten(
      "timestep_sampling", "timestep_sampling",
      [](const Value& value, const Settings& all) {
        if (!flows(all)) return left_out("");
        if (is_conditioned(all) && !all.has("timestep_sampling")) return carried("sigmoid");
        auto scheme = all.text("weighting_scheme");
        bool drawn = text_of(value) == "sigma" && (scheme == "logit_normal" || scheme == "mode");
        return carried(drawn ? Value(scheme) : value);
      },
      "sigma");
  table << rewritten(
      "weighting_scheme", "loss_weighting",
      [](const Value& value, const Settings& all) {
        if (all.on("debiased_estimation_loss")) return carried("debiased");
        auto scheme = text_of(value);
        return carried(scheme == "sigma_sqrt" || scheme == "cosmap" ? Value(scheme) : Value("uniform"));
      },
      "none");
  table << looked_at({{"debiased_estimation_loss", false}});
  auto of_flows = [](const Value& value, const Settings& all) { return flows(all) ? carried(value) : left_out(""); };
  const std::pair<const char*, double> numbers[] = {{"sigmoid_scale", 1.0}, {"logit_mean", 0.0}, {"logit_std", 1.0}, {"mode_scale", 1.29}};
  for (const auto& [name, number] : numbers) table << rewritten(name, name, of_flows, number);
  table << rewritten(
      "discrete_flow_shift", "discrete_flow_shift",
      [](const Value& value, const Settings& all) {
        if (is_conditioned(all) && !all.has("discrete_flow_shift")) return carried(1.0);
        return flows(all) ? carried(value) : left_out("");
      },
      3.0);
  table << same("min_snr_gamma", "min_snr_gamma") << same("noise_offset", "noise_offset");
  table << same("loss_type", "loss_type").otherwise("l2") << same("huber_schedule", "huber_schedule").otherwise("snr")
        << same("huber_c", "huber_c").otherwise(0.1) << same("huber_scale", "huber_scale").otherwise(1.0);
  auto share = [](const Value& value, const Settings&) {
    auto number = number_of(value);
    return number ? carried(rest_of(*number / 1000)) : left_out("is no number");
  };
  table << rewritten("min_timestep", "max_timestep_boundary", share) << rewritten("max_timestep", "min_timestep_boundary", share);
  table << rewritten(
      "model_prediction_type", "",
      [](const Value& value, const Settings& all) {
        if (!flows(all) || is_conditioned(all) || text_of(value) == "raw") return left_out("");
        return left_out("predictions count as they are, which sd-scripts calls raw and advises");
      },
      "sigma_scaled");
  table << no_place({{"scale_v_pred_loss_like_noise_pred", false},
                     "v_pred_like_loss",
                     "multires_noise_iterations",
                     "adaptive_noise_scale",
                     "ip_noise_gamma",
                     {"noise_offset_random_strength", false},
                     {"ip_noise_gamma_random_strength", false}},
                    "this loss or noise is not there");
  table << no_place({{"apply_t5_attn_mask", false}}, "T5's padding is seen, as the model was trained");
  table << needless({{"multires_noise_discount", 0.3}}, "multires_noise_iterations asks for it, and that is told");
}

void run_rows(Table& table) {
  table << prompts_row() << rewritten("sample_every_n_steps", "preview_steps", [](const Value& value, const Settings& all) {
    return all.has("sample_prompts") ? carried(value) : left_out("");
  });
  table << no_place({"sample_every_n_epochs"}, "previews are drawn every preview_steps steps");
  table << looked_at(
      {"positive_prompts", "negative_prompts", "sample_width", "sample_height", "sample_cfg", "sample_seed", "sample_steps"});
  table << no_place({{"sample_sampler", "ddim"}}, "previews take the model's own sampler");
  table << needless({{"sample_at_first", false}}, "previews are drawn before the first step and after the last");
  table << no_place(
      {{"validation_split", 0.0}, "validate_every_n_steps", "validate_every_n_epochs", "max_validation_steps", "validation_seed"},
      "name held-out samples in validation_metadata_path");
  table << same("cpu_offload_checkpointing", "use_gradient_checkpointing_offload").otherwise(false);
  table << rewritten("fused_backward_pass", "fused_backward_pass", updates_in_backward, false);
  table << rewritten(
      "blockwise_fused_optimizers", "fused_backward_pass",
      [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); }, false);
  table << needless({"fused_optimizer_groups"}, "frees gradients earlier by the same updates; fused_backward_pass does");
  table << rewritten("cache_latents_to_disk", "cache_path", kept_on_disk, false)
        << rewritten("cache_text_encoder_outputs_to_disk", "cache_path", kept_on_disk, false);
  table << rewritten("blocks_to_swap", "blocks_to_swap", swapped_blocks);
  table << no_place({"vae_chunk_size"}, "vae_tile_size is what saves memory in the autoencoder");
  table << no_place({"train_block_lr", "block_lr", "self_attn_lr", "cross_attn_lr", "mlp_lr", "mod_lr"},
                    "write it for our layer paths in lr_groups");
  table << rewritten("llm_adapter_lr", "", [](const Value& value, const Settings&) {
    return left_out(number_of(value) == 0.0 ? "" : "write it for our layer paths in lr_groups");
  });
  table << rewritten("full_bf16", "trained_weights", weights_that_train, false);
  table << needless({{"full_fp16", false}}, "weights that train are not held in fp16");
  table << needless({{"cache_latents", false},
                     {"cache_text_encoder_outputs", false},
                     {"skip_cache_check", false},
                     {"skip_latents_validity_check", false},
                     {"vae_batch_size", 1},
                     "text_encoder_batch_size"},
                    "what frozen models make of the data is computed once");
  table << needless({{"mem_eff_attn", false},
                     {"diffusers_xformers", false},
                     {"no_half_vae", false},
                     {"lowram", false},
                     {"highvram", false},
                     {"mem_eff_save", false},
                     {"disable_mmap_load_safetensors", false},
                     {"split_mode", false},
                     "tokenizer_cache_dir",
                     "t5xxl_device",
                     "t5xxl_dtype"},
                    "says how the same is computed and read");
  table << needless({{"save_model_as", "safetensors"}, {"use_safetensors", false}}, "files are safetensors");
  table << no_place({{"no_token_padding", false}}, "captions are padded, as the model was trained");
  table << no_place({"double_blocks_to_swap", "single_blocks_to_swap"}, "say blocks_to_swap");
  table << no_place({"clip_g"}, kAnotherKind)
        << no_place({"train_blocks", "train_double_block_indices", "train_single_block_indices"},
                    "lora_target_modules says which layers carry adapters");
  table << no_place({"controlnet_model_name_or_path"}, "control networks of this script are not trained");
  table << rewritten("t5xxl_max_token_length", "max_sequence_length",
                     [](const Value& value, const Settings& all) { return flows(all) ? carried(value) : left_out(""); });
  table << same("t5_max_token_length", "max_sequence_length");
  table << rewritten("qwen3_max_token_length", "", [](const Value& value, const Settings& all) {
    bool differs = number_of(value) != all.number("t5_max_token_length").value_or(512);
    return left_out(differs ? "both tokenizers cut a text at max_sequence_length" : "");
  });
  table << same("unsloth_offload_checkpointing", "use_gradient_checkpointing_offload").otherwise(false);
  table << needless({"attn_mode", {"split_attn", false}, {"vae_disable_cache", false}}, "says how the same is computed");
}

Table table() {
  Table table;
  model_rows(table);
  network_rows(table);
  inversion_rows(table);
  data_rows(table);
  table << kohya_training(flows).rows;
  loss_rows(table);
  run_rows(table);
  return table;
}

}  // namespace
}  // namespace of_kohya

Program kohya() {
  using namespace of_kohya;
  return {"kohya", "kohya sd-scripts", recognises, arrange, table};
}

}  // namespace burnish::foreign
