#include "foreign/ai_toolkit_terms.h"

#include <algorithm>

namespace burnish::foreign {

namespace {

/// What counts only where another key is on.
Convert where_on(const std::string& key) {
  return [key](const Value& value, const Settings& all) { return all.on(key) ? carried(value) : left_out(""); };
}

}  // namespace

std::vector<Row> ai_toolkit_preservation_rows() {
  const std::string by_class = "train.diff_output_preservation", by_blank = "train.blank_prompt_preservation";
  return {rewritten(by_class, "diff_output_preservation", where_on(by_class)),
          rewritten(by_class + "_class", "diff_output_preservation_class", where_on(by_class)),
          rewritten(by_class + "_multiplier", "diff_output_preservation_multiplier", where_on(by_class)),
          rewritten(by_blank, "blank_prompt_preservation", where_on(by_blank)),
          rewritten(by_blank + "_multiplier", "blank_prompt_preservation_multiplier", where_on(by_blank)),
          same("class_target", "class_target")};
}

std::vector<Row> ai_toolkit_slider_rows() {
  auto of_slider = [](const Value& value, const Settings& all) {
    return all.text("type") == "concept_slider" ? carried(value) : left_out("no training of this kind");
  };
  std::vector<Row> rows;
  for (const char* name : {"target_class", "positive_prompt", "negative_prompt", "anchor_class", "guidance_strength", "anchor_strength"})
    rows.push_back(rewritten(std::string("slider.") + name, name, of_slider));
  rows.push_back(rewritten("type", "concept_latents", [](const Value& value, const Settings&) {
    return value == "concept_slider" ? carried("pictures") : left_out("");
  }));
  return rows;
}

std::vector<Row> ai_toolkit_guidance_rows() {
  const std::string on = "train.do_guidance_loss", target = "train.guidance_loss_target", differs = "train.do_differential_guidance";
  auto end_of_range = [=](size_t end, const Settings& all) {
    const auto* given = all.find(target);
    const auto scale = given == nullptr ? Value(3.0) : *given;
    return scale.is_array() ? scale.at(std::min(end, scale.size() - 1)) : scale;
  };
  return {
      rewritten(on, "training_cfg_scale",
                [=](const Value&, const Settings& all) {
                  return all.on(on) ? carried(end_of_range(0, all), "a model that is told its guidance is told embedded_guidance")
                                    : left_out("");
                }),
      rewritten(on, "training_cfg_loss", [=](const Value&, const Settings& all) { return all.on(on) ? carried("target") : left_out(""); }),
      rewritten(target, "training_cfg_scale_max",
                [=](const Value& value, const Settings& all) {
                  return all.on(on) && value.is_array() ? carried(end_of_range(1, all)) : left_out("");
                }),
      rewritten("train.guidance_loss_schedule", "training_cfg_schedule", where_on(on)),
      rewritten("train.do_guidance_loss_cfg_zero", "training_cfg_zero", where_on(on)),
      rewritten("train.unconditional_prompt", "",
                [=](const Value& value, const Settings& all) {
                  return left_out(all.on(on) && asks_for_something(value) ? "guidance leads away from the empty prompt" : "");
                }),
      rewritten(differs, "sft_loss_weight",
                [=](const Value&, const Settings& all) {
                  if (!all.on(differs)) return left_out("");
                  return carried(all.number("train.differential_guidance_scale").value_or(3.0),
                                 "its gradient is that of the loss times this number, which an optimizer that adapts sees beside other "
                                 "terms and clipping alone");
                }),
      looked_at({{"train.differential_guidance_scale", 3.0}})[0]};
}

}  // namespace burnish::foreign
