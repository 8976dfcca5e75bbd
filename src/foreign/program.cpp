#include "foreign/program.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/text.h"
#include "io/files.h"

namespace burnish::foreign {

std::vector<Program> programs() {
  return {simpletuner(), diffusion_pipe(), ai_toolkit(), onetrainer(), musubi(), diffusers(), leco(), kohya(), accelerate()};
}

Value first_of(std::vector<Dataset> datasets, Arranged& arranged, const ClassSetKey& of_class) {
  arranged.without_datasets = arranged.tree;
  auto is_learned = [](const Dataset& one) { return !one.ours.value("is_reg", false); };
  auto classes = std::stable_partition(datasets.begin(), datasets.end(), is_learned);
  if (classes != datasets.end() && of_class.key != nullptr) {
    arranged.tree[of_class.key] = classes->settings.value(of_class.folder, Value());
    arranged.tree[of_class.caption_key] = classes->settings.value(of_class.caption, Value());
  }
  if (classes == datasets.begin()) return Value::object();
  auto first = datasets[0].settings;
  bool is_enough = classes - datasets.begin() == 1 && datasets.end() - classes <= 1 && datasets[0].ours.empty();
  if (!is_enough) arranged.datasets = std::move(datasets);
  return first;
}

void part_by_media(std::vector<Dataset>& datasets, const std::function<DatasetUse(const Dataset&)>& use_of) {
  std::set<std::string> of_pictures, of_clips;
  for (const auto& dataset : datasets) {
    const auto [folder, is_of_clips] = use_of(dataset);
    (is_of_clips ? of_clips : of_pictures).insert(folder);
  }
  for (auto& dataset : datasets) {
    const auto [folder, is_of_clips] = use_of(dataset);
    if (!folder.empty() && of_pictures.contains(folder) && of_clips.contains(folder))
      dataset.ours["media"] = is_of_clips ? "clips" : "pictures";
  }
}

Outcome dataset_of_hub(const Value& value, const Settings&) {
  if (!asks_for_something(value)) return left_out("");
  const auto name = text_of(value);
  return carried(io::is_there(name) ? name : "hf://datasets/" + name);
}

Outcome given_caption(const Value& value, const Settings&) { return asks_for_something(value) ? carried(text_of(value)) : left_out(""); }

Value without_sections(const Value& tree) {
  auto flat = Value::object();
  for (const auto& [key, value] : tree.items()) {
    if (value.is_object() && key != "launch") flat.update(value);
    else flat[key] = value;
  }
  return flat;
}

bool script_trains_whole(const Settings& all) {
  const auto script = all.text("script");
  return !script.empty() && script.find("network") == script.npos;
}

Value named_arguments(const Value& list) {
  if (list.is_object()) return list;
  auto object = Value::object();
  for (const auto& item : list.is_array() ? list : Value::array({list})) {
    auto text = text_of(item);
    auto equals = text.find('=');
    object[text.substr(0, equals)] = equals == text.npos ? "true" : text.substr(equals + 1);
  }
  return object;
}

Outcome dtype_of_run(const std::string& bits, bool too_narrow) {
  if (bits.empty()) return left_out("a dtype is fp32, bf16 or fp16");
  return bits == "fp16" && too_narrow
             ? carried("bf16", "weights that train, and models that flow, are held in bf16, since fp16 is too narrow for them")
             : carried(bits);
}

double rest_of(double share) { return std::round((1 - share) * 1e9) / 1e9; }

std::vector<int64_t> sides_of(const Value& resolution) {
  std::vector<int64_t> sides;
  auto list = resolution;
  if (resolution.is_string()) list = split_list(resolution.get<std::string>());
  for (const auto& item : list.is_array() ? list : Value::array({list})) {
    auto number = number_of(item);
    if (!number || *number < 1 || *number > 1e6) return {};
    sides.push_back(std::lround(*number));
  }
  if (sides.size() == 1) sides.push_back(sides[0]);
  return sides.size() == 2 ? sides : std::vector<int64_t>();
}

std::vector<SettingRow> size_rows(const std::string& theirs, std::function<bool(const Settings&)> fixed) {
  auto row = [&](const char* ours, auto convert) {
    return rewritten(theirs, ours, [fixed, convert, is_area = std::string(ours) == "max_pixels"](const Value& value, const Settings& all) {
      auto sides = sides_of(value);
      if (sides.empty()) return left_out("a run has one size; give height and width, or max_pixels");
      return fixed(all) == is_area ? left_out("") : carried(convert(sides));
    });
  };
  using Sides = const std::vector<int64_t>&;
  return {row("width", [](Sides sides) { return sides[0]; }), row("height", [](Sides sides) { return sides[1]; }),
          row("max_pixels", [](Sides sides) { return sides[0] * sides[1]; })};
}

const char* const kAnotherKind = "this kind is not trained here, and what is carried would train another";

SettingRow kind_row(const std::string& theirs, std::vector<std::string> known) {
  return rewritten(theirs, "", [known = std::move(known)](const Value& value, const Settings&) {
    auto kind = lower(text_of(value));
    bool is_known = std::any_of(known.begin(), known.end(), [&](const std::string& one) {
      return one.ends_with('*') ? kind.starts_with(one.substr(0, one.size() - 1)) : kind == one;
    });
    return left_out(is_known ? "" : kAnotherKind);
  });
}

const char* const kNameReferences =
    "name the pictures that the model sees in a column of a metadata file, for extra_inputs (docs/train.md)";

SettingRow caption_ending_row(const std::string& theirs) {
  return rewritten(theirs, "caption_extension", [](const Value& value, const Settings&) {
    auto ending = text_of(value);
    return carried(ending.starts_with(".") ? ending : "." + ending);
  });
}

const char* const kThirdAutomagic = "the third Automagic, which finds one rate for all that trains";
const char* const kNoOptimizer = "no such optimizer; docs/optimizers.md lists those there are, prodigy finds its own learning rate too";

Convert of_optimizer(OptimizerOf optimizer, Convert convert) {
  return [optimizer = std::move(optimizer), convert = std::move(convert)](const Value& value, const Settings& all) {
    return optimizer(all).empty() ? left_out("is a number for an optimizer that is not carried") : convert(value, all);
  };
}

SettingRow weight_decay_row(const std::string& theirs, OptimizerOf optimizer) {
  auto convert = [theirs, optimizer](const Value& value, const Settings& all) {
    auto name = optimizer(all);
    if (all.has(theirs)) return name.empty() ? left_out("is a number for an optimizer that is not carried") : carried(value);
    bool decays = name.empty() || (name.starts_with("adamw") && name != "adamw_schedulefree");
    return decays ? left_out("") : carried(0.0);  // what their other optimizers take
  };
  return rewritten(theirs, "weight_decay", convert, 0.0);
}

namespace {

/// The numbers that an optimizer here has, by the names of their packages.
const std::map<std::string, std::set<std::string>> kNumbers{
    {"adamw", {"betas", "beta1", "beta2", "eps"}},
    {"adamw8bit", {"betas", "beta1", "beta2", "eps"}},
    {"lion", {"betas", "beta1", "beta2"}},
    {"adafactor", {"scale_parameter", "relative_step", "warmup_init", "beta1", "decay_rate", "clip_threshold", "eps1", "eps2"}},
    {"automagic", {"beta2", "clip_threshold", "polarity_history"}},
    {"came", {"beta1", "beta2", "beta3", "clip_threshold", "eps1", "eps2"}},
    {"prodigy",
     {"betas", "beta1", "beta2", "beta3", "eps", "d0", "d_coef", "growth_rate", "use_bias_correction", "safeguard_warmup", "slice_p"}},
    {"adamw_schedulefree", {"betas", "beta1", "beta2", "eps", "r", "weight_lr_power"}},
    {"prodigy_schedulefree", {"betas", "beta1", "beta2", "beta3", "eps", "d0", "d_coef", "slice_p"}},
    {"muon", {"momentum", "nesterov", "ns_steps", "betas", "beta1", "beta2", "eps"}}};

std::set<std::string> numbers_of_all() {
  std::set<std::string> all;
  for (const auto& [optimizer, names] : kNumbers) all.insert(names.begin(), names.end());
  return all;
}

bool takes(const std::string& optimizer, const std::string& number) {
  auto it = kNumbers.find(optimizer);
  return it != kNumbers.end() && it->second.contains(number);
}

/// Writes a value of theirs as ours has it: lists without brackets.
std::string written(const Value& value) {
  std::vector<std::string> numbers;
  for (const auto& item : value.is_array() ? value : Value::array({value})) numbers.push_back(text_of(item));
  auto text = lower(join(numbers, ","));
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == '[' || c == ']' || c == ' '; });
  return text;
}

/// CAME's and Adafactor's pairs have one name there and two here.
bool is_pair(const std::string& text) { return text.find(',') != text.npos; }

}  // namespace

std::vector<SettingRow> optimizer_number_rows(const std::string& prefix, OptimizerOf optimizer) {
  auto names = numbers_of_all();
  names.insert("decouple");
  std::vector<SettingRow> rows;
  for (const auto& name : names) {
    rows.push_back(rewritten(prefix + name, "", [optimizer, name](const Value& value, const Settings& all) {
      auto ours = optimizer(all);
      if (ours.empty()) return left_out("is a number for an optimizer that is not carried");
      if (name == "decouple") return left_out(asks_for_something(value) || ours != "prodigy" ? "" : "weight decay is decoupled here");
      bool pair = is_pair(written(value)) && (name == "eps" || name == "betas") && (ours == "adafactor" || ours == "came");
      return left_out(takes(ours, name) || pair || !asks_for_something(value) ? "" : "no number of " + ours + " here");
    }));
  }
  return rows;
}

Outcome optimizer_numbers(const std::string& optimizer, const std::string& prefix, const Settings& all,
                          const std::map<std::string, std::string>& others) {
  if (optimizer.empty()) return left_out("");
  std::map<std::string, std::string> entries;
  for (const auto& name : numbers_of_all()) {
    const auto* value = all.find(prefix + name);
    if (!value) continue;
    auto text = written(*value);
    if (takes(optimizer, name)) {
      if (text != "none" && !text.empty()) entries[name] = text;
    } else if (is_pair(text) && (optimizer == "adafactor" || optimizer == "came") && (name == "eps" || name == "betas")) {
      auto parts = split_list(text);
      const std::string stem = name == "eps" ? "eps" : "beta";
      for (size_t i = 0; i < parts.size(); ++i) {
        if (takes(optimizer, stem + std::to_string(i + 1))) entries[stem + std::to_string(i + 1)] = parts[i];
      }
    }
  }
  for (const auto& [name, text] : others) {
    if (takes(optimizer, name)) entries.emplace(name, text);
  }
  std::vector<std::string> list;
  for (const auto& [name, text] : entries) list.push_back(name + "=" + text);
  return list.empty() ? left_out("") : carried(join(list, ","));
}

std::string note_on_warmup(double num_steps) {
  return num_steps >= 1 ? "the first step has the rate 0 there and a step's share of the rise here, which is one step ahead" : "";
}

Outcome accumulated(const Value& value, const Settings&) {
  bool several = number_of(value).value_or(1) > 1;
  return carried(
      value, several ? "an epoch whose batches are no multiple of it ends there with an update by the batches that are left, and "
                       "goes on into the next epoch here: 10 batches by 3 are 4 updates an epoch there, 20 are 7 updates here and 8 there"
                     : "");
}

namespace {

/// Tells a model by the names of its tensors, which head a safetensors file.
std::string kind_of_file(const std::filesystem::path& path) {
  constexpr size_t kMostOfAHead = 8 << 20;
  std::string head(kMostOfAHead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), kMostOfAHead);
  head.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  if (head.find("conditioner.embedders.1.") != head.npos) return "sdxl";
  if (head.find("double_blocks.0.") != head.npos) return "flux";
  if (head.find("joint_blocks.0.context_block.") != head.npos) return "sd3";
  return head.find("cond_stage_model.") != head.npos ? "sd15" : "";
}

}  // namespace

std::string kind_of_model(const std::string& path) {
  if (path.empty() || !io::is_there(path)) return "";
  auto folder = std::filesystem::path(path);
  if (!io::is_folder(folder)) return kind_of_file(folder);
  if (io::is_there(folder / "unet")) return io::is_there(folder / "text_encoder_2") ? "sdxl" : "sd15";
  if (!io::is_there(folder / "transformer")) return "";
  return io::is_there(folder / "text_encoder_3") ? "sd3" : io::is_there(folder / "text_encoder_2") ? "flux" : "";
}

}  // namespace burnish::foreign
