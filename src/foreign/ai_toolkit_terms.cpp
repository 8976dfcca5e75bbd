#include "foreign/ai_toolkit_terms.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace burnish::foreign {

namespace {

/// Carries a value only where another key is on.
Convert where_on(const std::string& key) {
  return [key](const Value& value, const Settings& all) { return all.on(key) ? carried(value) : left_out(""); };
}

}  // namespace

std::vector<SettingRow> ai_toolkit_preservation_rows() {
  const std::string by_class = "train.diff_output_preservation", by_blank = "train.blank_prompt_preservation";
  return {rewritten(by_class, "diff_output_preservation", where_on(by_class)),
          rewritten(by_class + "_class", "diff_output_preservation_class", where_on(by_class)),
          rewritten(by_class + "_multiplier", "diff_output_preservation_multiplier", where_on(by_class)),
          rewritten(by_blank, "blank_prompt_preservation", where_on(by_blank)),
          rewritten(by_blank + "_multiplier", "blank_prompt_preservation_multiplier", where_on(by_blank))};
}

constexpr const char* kSliderOfPairs = "image_reference_slider_trainer";
constexpr const char* kSideBySide =
    "pictures of both ends lie side by side in one file; cut them into two folders, for pos_folder and neg_folder";

bool is_ai_toolkit_slider_of_targets(const Settings& all) { return all.text("type") == "slider"; }
bool is_ai_toolkit_slider(const Settings& all) { return is_ai_toolkit_slider_of_targets(all) || all.text("type") == "concept_slider"; }

void put_ai_toolkit_targets(Value& process, Arranged& arranged) {
  auto slider = process.find("slider");
  if (slider == process.end() || !slider->is_object() || !slider->contains("targets") || !(*slider)["targets"].is_array()) return;
  const auto targets = (*slider)["targets"];
  slider->erase("targets");
  const std::vector<std::pair<const char*, const char*>> names{
      {"target_class", "target_class"}, {"positive", "positive_prompt"}, {"negative", "negative_prompt"}};
  OptionFile file{"concept_config", "concepts", "# Concepts of a slider, by `burnish import`.\n", "slider.targets"};
  bool is_one = targets.size() == 1;
  for (const auto& target : targets) {
    if (!target.is_object()) continue;
    file.add_table();
    for (const auto& [theirs, ours] : names) file.set(ours, text_of(target.value(theirs, Value(""))));
    if (const auto weight = number_of(target.value("weight", Value(1))).value_or(1); weight != 1) {
      file.set("loss_weight", weight);
      is_one = false;
    }
    if (number_of(target.value("multiplier", Value(1))).value_or(1) != 1)
      arranged.not_carried.emplace_back("slider.targets.multiplier: the ends of a slider lie at strengths 1 and -1");
    if (asks_for_something(target.value("shuffle", Value(false))))
      arranged.not_carried.emplace_back("slider.targets.shuffle: prompts stay as they are written");
  }
  if (!is_one) return arranged.option_files.push_back(std::move(file));
  for (const auto& [theirs, ours] : names) (*slider)[ours] = targets[0].value(theirs, Value(""));
}

void put_ai_toolkit_pairs(Value& process, std::vector<Dataset>& datasets, Arranged& arranged) {
  if (text_of(process.value("type", Value(""))) != kSliderOfPairs) return;
  datasets.clear();  // which it does not read
  const auto slider = process.find("slider");
  if (slider == process.end() || !slider->is_object()) return;
  const auto pairs = slider->value("datasets", Value::array());
  slider->erase("datasets");
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& pair = pairs[i];
    const auto name = fmt::format("slider.datasets[{}].", i);
    const auto has = [&](const char* key) { return asks_for_something(pair.value(key, Value())); };
    if (!has("pos_folder") || !has("neg_folder")) {
      arranged.not_carried.push_back(name + "pair_folder: " + kSideBySide);
      continue;
    }
    for (const auto& [end, sign] : {std::pair{"pos", 1.0}, std::pair{"neg", -1.0}}) {
      const auto folder = fmt::format("{}_folder", end);
      Dataset set{name + folder, {{"folder_path", pair[folder]}, {"resolution", pair.value("size", Value(512))}}};
      set.settings["default_caption"] = pair.value("target_class", Value(""));
      const auto weight = pair.value(fmt::format("{}_weight", end), pair.value("network_weight", Value(1)));
      set.ours["slider_strength"] = sign * std::abs(number_of(weight).value_or(1));
      datasets.push_back(std::move(set));
    }
  }
}

namespace {

/// The rows of a run's kind, among them the slider of pictures, which is plain training of sets with a strength.
std::vector<SettingRow> kind_rows() {
  const auto is_of_pairs = [](const Settings& all) { return all.text("type") == kSliderOfPairs; };
  return {rewritten("type", "task",
                    [=](const Value& value, const Settings& all) {
                      const auto type = text_of(value);
                      if (is_ai_toolkit_slider(all)) return carried("slider");
                      const bool is_plain = type == "sd_trainer" || type == "diffusion_trainer" || type == "ui_trainer";
                      return left_out(is_plain || is_of_pairs(all) ? "" : "a run of another kind; this is imported as plain training");
                    }),
          rewritten("type", "gradient_accumulation_steps", [=](const Value&, const Settings& all) {
            if (!is_of_pairs(all)) return left_out("");
            const auto num_batches = std::max(1.0, all.number("train.gradient_accumulation_steps").value_or(1));
            return carried(2 * num_batches,
                           "both ends of a pair, pictures of one name, are in one batch there, under the caption of one of "
                           "them; a batch is of one end here, and every picture has its own caption");
          })};
}

}  // namespace

std::vector<SettingRow> ai_toolkit_slider_rows() {
  auto of_slider = [](const Value& value, const Settings& all) {
    return is_ai_toolkit_slider(all) ? carried(value) : left_out("no training of this kind");
  };
  Table table;
  table << kind_rows();
  for (const char* name : {"target_class", "positive_prompt", "negative_prompt", "anchor_class", "guidance_strength", "anchor_strength"})
    table << rewritten(std::string("slider.") + name, name, of_slider);
  // The kind of targets draws under guidance of 3, and its ends are one difference from what is made of no prompt.
  auto of_targets = [](Value ours, std::string note = "") -> Convert {
    return [=](const Value&, const Settings& all) { return is_ai_toolkit_slider_of_targets(all) ? carried(ours, note) : left_out(""); };
  };
  table << rewritten("type", "concept_latents", [](const Value&, const Settings& all) {
    if (!is_ai_toolkit_slider(all)) return left_out("");
    return carried(is_ai_toolkit_slider_of_targets(all) && !all.has("dataset.folder_path") ? "drawn" : "pictures");
  });
  table << rewritten("type", "guidance_strength",
                     of_targets(1.0, "ends lie around what is made of target_class, and have its mean and deviation"));
  table << rewritten("type", "denoising_cfg_scale", of_targets(3.0));
  table << rewritten("train.max_denoising_steps", "max_denoising_steps", only(is_ai_toolkit_slider_of_targets, same_value));
  table << rewritten("slider.resolutions", "resolution", [=](const Value& value, const Settings& all) {
    auto sizes = Value::array();
    for (const auto& size : value.is_array() ? value : Value::array()) {
      const auto sides = sides_of(size);  // height and width
      if (sides.size() == 2) sizes.push_back(fmt::format("{},{}", sides[1], sides[0]));
    }
    return sizes.empty() ? left_out("is no list of sizes") : of_slider(sizes, all);
  });
  return table.rows;
}

std::vector<SettingRow> ai_toolkit_guidance_rows() {
  const std::string on = "train.do_guidance_loss", target = "train.guidance_loss_target", differs = "train.do_differential_guidance";
  auto end_of_range = [=](size_t end, const Settings& all) {
    const auto* given = all.find(target);
    const auto scale = given == nullptr ? Value(3.0) : *given;
    return scale.is_array() ? scale.at(std::min(end, scale.size() - 1)) : scale;
  };
  return {
      rewritten(on, "training_cfg_scale",
                [=](const Value&, const Settings& all) {
                  if (!all.on(on)) return left_out("");
                  return carried(end_of_range(0, all),
                                 all.has("model.assistant_lora_path")
                                     ? "a LoRA that learns guidance beside a training adapter brings it twice when it "
                                       "is drawn without that; take one of the two"
                                     : "a model that is told its guidance is told embedded_guidance");
                }),
      rewritten(on, "training_cfg_loss", [=](const Value&, const Settings& all) { return all.on(on) ? carried("target") : left_out(""); }),
      rewritten(target, "training_cfg_scale_max",
                [=](const Value& value, const Settings& all) {
                  return all.on(on) && value.is_array() ? carried(end_of_range(1, all)) : left_out("");
                }),
      rewritten("train.guidance_loss_schedule", "training_cfg_schedule", where_on(on)),
      rewritten("train.do_guidance_loss_cfg_zero", "training_cfg_zero", where_on(on)),
      rewritten("train.unconditional_prompt", "training_cfg_negative_prompt", where_on(on)),
      rewritten(differs, "sft_loss_weight", [=](const Value&, const Settings& all) {
        if (!all.on(differs)) return left_out("");
        return carried(all.number("train.differential_guidance_scale").value_or(3.0),
                       "its gradient is that of the loss times this number, which an optimizer that adapts sees beside other "
                       "terms and clipping alone");
      })};
}

}  // namespace burnish::foreign
