#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "foreign/program.h"
#include "foreign/row_files.h"

// Names and defaults: config_util.py, prompt_util.py and train_util.py of p1atdev/LECO.
namespace burnish::foreign {

namespace of_leco {
namespace {

/// A key of a prompt, and our option of a concept that is erased and of a slider; "" where there is none.
struct Name {
  const char *theirs, *of_erased, *of_slider;
};
constexpr Name kNames[]{{"target", "target_class", "target_class"},
                        {"positive", "erase_prompt", "positive_prompt"},
                        {"neutral", "neutral_prompt", ""},
                        {"unconditional", "", "negative_prompt"},
                        {"guidance_scale", "erase_strength", "guidance_strength"}};
std::string ours_of(const Name& name, bool slider) { return slider ? name.of_slider : name.of_erased; }

bool is_slider(const Settings& all) { return all.text("prompts.action") == "slider"; }

/// A prompt with everything that it leaves out, which LECO takes from what it says.
Value filled(const Value& prompt) {
  const auto said = [&](const char* key, const Value& otherwise) {
    const auto value = prompt.value(key, Value());
    return value.is_null() ? otherwise : value;
  };
  const auto target = text_of(said("target", "")), unconditional = text_of(said("unconditional", ""));
  return {{"target", target},
          {"positive", text_of(said("positive", target))},
          {"unconditional", unconditional},
          {"neutral", text_of(said("neutral", unconditional))},
          {"guidance_scale", number_of(said("guidance_scale", 1.0)).value_or(1)},
          {"is_erased", text_of(said("action", "erase")) == "erase"},
          {"resolution", static_cast<int64_t>(std::clamp(number_of(said("resolution", 512)).value_or(512), 0.0, 1e6))},
          {"dynamic_resolution", asks_for_something(said("dynamic_resolution", false))},
          {"dynamic_crops", asks_for_something(said("dynamic_crops", false))},
          {"batch_size", said("batch_size", 1)}};
}

/// Tells whether the prompt adds the difference of two others, its ends, to what is made of the target itself.
bool is_between(const Value& prompt) {
  return prompt["unconditional"] != "" && prompt["neutral"] == prompt["target"] && prompt["positive"] != prompt["unconditional"];
}

/// Makes a concept of ours of a prompt, by their names: the action is in a sign, or in which end is which.
Value concept_of(const Value& prompt, bool slider) {
  auto ours = Value::object();
  for (const auto& name : kNames) {
    if (!ours_of(name, slider).empty()) ours[name.theirs] = prompt[name.theirs];
  }
  const bool is_erased = prompt["is_erased"];
  if (slider && is_erased) std::swap(ours["positive"], ours["unconditional"]);
  if (!slider && !is_erased) ours["guidance_scale"] = -prompt["guidance_scale"].get<double>();
  return ours;
}

/// Sizes that a prompt is seen at: a square of its resolution, or all sides from half of it up to less than it in steps of 64.
std::vector<std::string> sizes_of(const Value& prompt) {
  const auto side = prompt["resolution"].get<int64_t>();
  std::vector<std::string> sizes;
  if (!prompt["dynamic_resolution"] || side > 4096) return {fmt::format("{0},{0}", side)};
  for (int64_t height = side / 2 / 64; height < side / 64; ++height) {
    for (int64_t width = side / 2 / 64; width < side / 64; ++width) sizes.push_back(fmt::format("{},{}", 64 * width, 64 * height));
  }
  return sizes;
}

/// Tells what a prompt says and a run has no place for, or has one of for all prompts.
void tell(const std::string& name, const Value& prompt, const Value& first, bool slider, Arranged& arranged) {
  const auto told = [&](const char* key, const std::string& why) {
    arranged.not_carried.push_back(fmt::format("{}.{} = {}: {}", name, key, text_of(prompt[key]), why));
  };
  if (!slider && prompt["unconditional"] != "")
    told("unconditional",
         "what is led away is led away from what is made of no prompt; a prompt whose neutral is its target is a slider, "
         "where all of a run are");
  if (!slider && prompt["target"] == "")
    told("target", "a concept is learned under positive itself where no other prompt is said; write one");
  if (prompt["batch_size"] != first["batch_size"])
    told("batch_size", fmt::format("a run has one, which is {}, that of the first prompt", text_of(first["batch_size"])));
  if (sizes_of(prompt) != sizes_of(first)) told("resolution", "all prompts of a run are seen at the sizes of all");
  if (prompt["dynamic_crops"]) told("dynamic_crops", "latents are drawn as pictures that were not cut");
}

/// The list of prompts: one as options of a run, several as tables of a file; what they share stands for all.
void put_prompts(const Value& list, Value& tree, Arranged& arranged) {
  std::vector<Value> prompts;
  for (const auto& item : list) {
    if (item.is_object()) prompts.push_back(filled(item));
  }
  if (prompts.empty()) return;
  const bool slider = std::ranges::all_of(prompts, is_between);
  auto shared = Value{{"action", slider ? "slider" : "erase"}, {"batch_size", prompts[0]["batch_size"]}, {"resolution", Value::array()}};
  OptionFile file{"concept_config", "concepts", "# Concepts of LECO's prompts, by `burnish import`.\n", "prompts"};
  for (size_t i = 0; i < prompts.size(); ++i) {
    tell(fmt::format("prompts[{}]", i), prompts[i], prompts[0], slider, arranged);
    for (const auto& size : sizes_of(prompts[i])) {
      if (std::ranges::find(shared["resolution"], Value(size)) == shared["resolution"].end()) shared["resolution"].push_back(size);
    }
    const auto ours = concept_of(prompts[i], slider);
    file.add_table();
    for (const auto& name : kNames) {
      if (ours.contains(name.theirs)) file.set(ours_of(name, slider), ours[name.theirs]);
    }
    if (prompts.size() == 1) shared.update(ours);
  }
  if (prompts.size() > 1) arranged.option_files.push_back(std::move(file));
  tree["prompts"] = shared;
}

bool recognises(const Value& tree) {
  if (tree.is_array()) return !tree.empty() && tree[0].is_object() && tree[0].contains("target");
  return tree.is_object() && tree.contains("prompts_file") && tree.contains("pretrained_model");
}

Arranged arrange(Value tree, const Open& open) {
  Arranged arranged;
  if (tree.is_array()) {
    arranged.whole = false;
    arranged.tree = Value::object();
    put_prompts(tree, arranged.tree, arranged);
    return arranged;
  }
  const auto file = text_of(tree.value("prompts_file", Value("")));
  const auto prompts = open(file);
  if (prompts.is_array()) put_prompts(prompts, tree, arranged);
  else arranged.not_carried.push_back(fmt::format("prompts_file = {}: no list of prompts is there, which say what is learned", file));
  if (auto arguments = tree.find("train"); arguments != tree.end() && arguments->is_object() && arguments->contains("optimizer_args")) {
    std::istringstream text(text_of((*arguments)["optimizer_args"]));
    auto words = Value::array();
    for (std::string word; text >> word;) words.push_back(word);
    (*arguments)["optimizer_args"] = named_arguments(words);
  }
  arranged.tree = tree;
  return arranged;
}

void prompt_rows(Table& table) {
  table << rewritten("prompts.action", "task", [](const Value& value, const Settings& all) {
    return carried(value, is_slider(all) ? "both ends are learned, around what is made of target, with its mean and deviation" : "");
  }) << rewritten("prompts.action", "denoising_cfg_scale", [](const Value&, const Settings&) { return carried(3.0); });
  for (const auto& name : kNames) {
    for (const bool slider : {false, true}) {
      if (ours_of(name, slider).empty()) continue;
      table << rewritten(std::string("prompts.") + name.theirs, ours_of(name, slider), [slider](const Value& value, const Settings& all) {
        return is_slider(all) == slider ? carried(value) : left_out("");
      });
    }
  }
}

std::string bits(const Value& value) {
  const auto word = lower(text_of(value));
  return word == "float32" ? "fp32" : word == "float16" ? "fp16" : word == "bfloat16" ? "bf16" : word;
}

/// c3lier has convolutions beside the layers that are adapted by default; of one attention alone LECO finds none.
Outcome layers(const Value& value, const Settings& all) {
  const auto method = all.text("network.training_method", "full");
  const std::string attention = method == "selfattn" ? "attn1." : method == "xattn" ? "attn2." : "";
  if (!attention.empty())
    return carried(fmt::format("{0}to_q,{0}to_k,{0}to_v,{0}to_out.0", attention), "the layers that " + method + " names");
  if (lower(text_of(value)) != "c3lier") return left_out("");
  return carried(
      "to_q,to_k,to_v,to_out.0,ff.net.0.proj,ff.net.2,proj_in,proj_out,conv1,conv2,conv_shortcut,time_emb_proj,downsamplers.0.conv,"
      "upsamplers.0.conv");
}

void model_rows(Table& table) {
  table << rewritten(
               "network.type", "lora_base_model", [](const Value&, const Settings&) { return carried("unet"); }, "lierla")
        << rewritten("network.type", "lora_target_modules", layers, "lierla");
  table << rewritten("network.training_method", "", [](const Value& value, const Settings&) {
             const auto method = text_of(value);
             if (method == "full" || method == "selfattn" || method == "xattn") return left_out("");
             return left_out(
                 "all layers train, as in LECO, which looks for it in the names of whole blocks; lora_target_modules leaves some out");
           }).otherwise("full");
}

std::string optimizer_of(const Settings& all) {
  static const std::map<std::string, std::string> kOptimizers{{"adam", "adamw"}, {"adamw", "adamw"},   {"adam8bit", "adamw8bit"},
                                                              {"lion", "lion"},  {"lion8bit", "lion"}, {"prodigy", "prodigy"}};
  const auto it = kOptimizers.find(lower(all.text("train.optimizer", "adamw")));
  return it == kOptimizers.end() ? "" : it->second;
}

Outcome decay(const Value& value, const Settings& all) {
  if (all.has("train.optimizer_args.weight_decay")) return carried(value);
  return lower(all.text("train.optimizer", "adamw")) == "adamw" ? left_out("") : carried(0.0);  // what the others take
}

Outcome schedule(const Value& value, const Settings&) {
  const auto word = text_of(value);
  if (word == "constant" || word == "cosine") return carried(word);
  const bool restarts = word == "cosine_with_restarts", steps = word == "step";
  return left_out(restarts ? "its waves double in length: the rate stays constant"
                  : steps  ? "falls by a thousandth each hundredth of the run: the rate stays constant"
                           : "no such schedule: the rate stays constant");
}

void train_rows(Table& table) {
  const std::string numbers = "train.optimizer_args.";
  const auto same_value = [](const Value& value, const Settings&) { return carried(value); };
  table << rewritten(
      "train.precision", "dtype", [](const Value& value, const Settings&) { return dtype_of_run(bits(value), false); }, "bfloat16");
  table << rewritten(
      "train.precision", "save_dtype", [](const Value& value, const Settings&) { return carried(bits(value)); }, "bfloat16");
  table << rewritten("train.lr", "learning_rate", of_optimizer(optimizer_of, same_value), 1e-4);
  table << rewritten(
      "train.optimizer", "optimizer",
      [](const Value& value, const Settings& all) {
        const auto name = optimizer_of(all);
        return name.empty() ? left_out(kNoOptimizer)
                            : carried(name, lower(text_of(value)) == "lion8bit" ? "states are not held in 8 bits" : "");
      },
      "adamw");
  table << rewritten(numbers + "weight_decay", "weight_decay", of_optimizer(optimizer_of, decay), 0.0)
        << optimizer_number_rows(numbers, optimizer_of)
        << rewritten(
               "train.optimizer", "optimizer_args",
               [=](const Value&, const Settings& all) { return optimizer_numbers(optimizer_of(all), numbers, all); }, "adamw");
  table << rewritten("train.lr_scheduler", "lr_scheduler", schedule, "constant")
        << rewritten("train.lr_scheduler", "lr_scheduler_min_lr_ratio",
                     [](const Value& value, const Settings&) { return text_of(value) == "cosine" ? carried(0.01) : left_out(""); });
  table << rewritten("save.precision", "", [](const Value& value, const Settings& all) {
    const bool differs = bits(value) != bits(all.text("train.precision", "bfloat16"));
    return left_out(differs ? "LECO writes files in train.precision, whatever this says; save_dtype names another" : "");
  });
}

Table table() {
  Table table;
  table << rows_in("leco");
  prompt_rows(table);
  model_rows(table);
  train_rows(table);
  return table;
}

}  // namespace
}  // namespace of_leco

Program leco() {
  using namespace of_leco;
  return {"leco", "LECO", recognises, arrange, table};
}

}  // namespace burnish::foreign
