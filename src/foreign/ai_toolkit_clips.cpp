#include "foreign/ai_toolkit_clips.h"

#include <fmt/core.h>

#include "foreign/ai_toolkit_h3.h"
#include "foreign/ai_toolkit_ltx.h"
#include "foreign/h3.h"
#include "foreign/ltx.h"
#include "foreign/program.h"

namespace burnish::foreign {

namespace {

using of_ai_toolkit::is_h3;
using of_ai_toolkit::is_ltx;

bool makes_sound(const Settings& all) { return is_h3(all) || is_ltx(all); }
bool makes_clips(const Settings& all) { return all.text("model.arch").starts_with("wan2") || makes_sound(all); }
bool is_left_on(const Settings& all, const char* name) { return !all.has(name) || all.on(name); }
/// A dataset of one frame has pictures.
bool has_clips(const Settings& all) {
  return makes_clips(all) && (all.number("dataset.num_frames").value_or(1) > 1 || all.on("dataset.auto_frame_count"));
}
bool takes_a_rate(const Settings& all) {
  return has_clips(all) && (all.on("dataset.auto_frame_count") || !is_left_on(all, "dataset.shrink_video_to_frames"));
}

bool has_experts(const Settings& all) { return all.text("model.arch").starts_with("wan22_14b"); }
bool trains_high(const Settings& all) { return is_left_on(all, "model.model_kwargs.train_high_noise"); }
bool trains_low(const Settings& all) { return is_left_on(all, "model.model_kwargs.train_low_noise"); }

/// The two switches, each of which turns one expert off.
Outcome experts(const Value&, const Settings& all) {
  if (!has_experts(all) || trains_high(all) == trains_low(all)) return left_out("");
  return carried(trains_high(all) ? "high_noise" : "low_noise");
}

/// Says how experts take turns.
Outcome turns(const Value& value, const Settings& all) {
  const bool is_told = has_experts(all) && trains_high(all) && trains_low(all);
  return left_out(is_told ? fmt::format("experts take turns there, {} batches each, so that both learn from half of the steps; here each "
                                        "batch is the expert's at whose noise its time is drawn; --experts trains one at a time",
                                        text_of(value))
                          : "");
}

bool has_references(const Settings& all) { return is_h3(all) && all.text("model.arch").ends_with("ref2va"); }
bool hears(const Settings& all) { return makes_sound(all) && has_clips(all) && all.on("dataset.do_audio"); }

/// Sound that a dataset is asked for.
std::vector<SettingRow> sound_rows() {
  return {rewritten("dataset.do_audio", "extra_inputs",
                    [](const Value&, const Settings& all) {
                      const bool is_alone = hears(all) && !all.on("dataset.do_i2v") && !has_references(all);
                      return is_alone ? carried(with_sound("")) : left_out("");
                    })
              .otherwise(false),
          rewritten("train.audio_loss_multiplier", "sound_loss_weight", [=](const Value& value, const Settings& all) {
            return hears(all) ? carried(value) : left_out("");
          }).otherwise(1.0)};
}

}  // namespace

Table of_ai_toolkit_experts() {
  Table table;
  for (const char* name : {"model.model_kwargs.train_high_noise", "model.model_kwargs.train_low_noise"})
    table << rewritten(name, "experts", experts, true);
  table << rewritten("train.switch_boundary_every", "", turns, 1);
  table << rewritten("model.arch", "extra_inputs", [](const Value& value, const Settings& all) {
    if (has_references(all)) return carried(hears(all) ? with_sound("references") : "references", kReferencesOfH3);
    return makes_clips(all) && text_of(value).find("_i2v") != std::string::npos ? carried("input_image") : left_out("");
  });
  table << rewritten("dataset.do_i2v", "extra_inputs", [](const Value& value, const Settings& all) {
             const bool may_go_on = all.text("model.arch") == "wan22_5b" || all.text("model.arch") == "minimax_h3" || is_ltx(all);
             if (!asks_for_something(value) || !may_go_on || !has_clips(all)) return left_out("");
             return carried(hears(all) ? with_sound("input_image") : "input_image");
           }).otherwise(false);
  return table;
}

Table of_ai_toolkit_clips() {
  Table table;
  table << sound_rows();
  table << rewritten(
      "dataset.num_frames", "num_frames",
      [](const Value& value, const Settings& all) {
        if (!makes_clips(all)) return left_out(number_of(value).value_or(1) > 1 ? "a sample is a picture and a caption" : "");
        if (all.on("dataset.auto_frame_count")) return left_out("");
        if (is_ltx(all)) return carried_frames_of_ltx(value);
        return is_h3(all) ? carried(frames_of_h3(number_of(value).value_or(1))) : carried(value);
      },
      1);
  table << rewritten("dataset.auto_frame_count", "frame_extraction", [](const Value& value, const Settings& all) {
             return asks_for_something(value) && makes_clips(all) ? carried("whole") : left_out("");
           }).otherwise(false);
  table << rewritten("dataset.shrink_video_to_frames", "", [](const Value& value, const Settings& all) {
             const bool spreads = asks_for_something(value) && has_clips(all) && !all.on("dataset.auto_frame_count");
             return left_out(spreads ? "frames are spread over the whole clip there; here they follow each other at frame_rate" : "");
           }).otherwise(true);
  table << rewritten(
      "dataset.fps", "frame_rate",
      [](const Value& value, const Settings& all) {
        if (!takes_a_rate(all)) return left_out("");
        return carried(value, all.on("dataset.auto_frame_count") ? "" : "a clip begins anywhere in a file there, here at its head");
      },
      24);
  table << rewritten("dataset.trim_auto_frame_count_tail", "", [](const Value& value, const Settings& all) {
             const bool stretches = !asks_for_something(value) && has_clips(all) && all.on("dataset.auto_frame_count");
             return left_out(stretches ? "frames behind the last that the model takes are left out, not squeezed in" : "");
           }).otherwise(true);
  return table;
}

}  // namespace burnish::foreign
