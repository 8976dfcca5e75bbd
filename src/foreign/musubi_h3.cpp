#include "foreign/musubi_h3.h"

#include "foreign/h3.h"

// Facts: docs/minimax_h3.md, docs/minimax_h3_1f.md and src/musubi_tuner/minimax_h3_train_network.py of musubi-tuner.
namespace burnish::foreign {

namespace {

/// The loss under guidance, which is none at 0.
std::vector<SettingRow> guidance_rows() {
  const std::string scale = "h3_guidance_loss_scale";
  const auto where_asked = [](const Value& value, const Value& ours) { return asks_for_something(value) ? carried(ours) : left_out(""); };
  return {
      rewritten(scale, "training_cfg_scale", [=](const Value& value, const Settings&) { return where_asked(value, value); }).otherwise(0.0),
      rewritten(scale, "training_cfg_loss", [=](const Value& value, const Settings&) { return where_asked(value, "target"); })
          .otherwise(0.0),
      rewritten(scale + "_audio", "", [](const Value&, const Settings&) { return left_out("sound has the guidance of frames"); })};
}

std::vector<SettingRow> sound_rows() {
  const auto weight = [](const Value& value, const Settings& all) {
    return hears_h3(all) && !all.on("video_only") ? carried(value) : left_out("");
  };
  const auto weight_of_seen = [](const Value& value, const Settings& all) {
    return hears_h3(all) && asks_for_something(value) ? carried(0.0) : left_out("");
  };
  return {
      rewritten("one_frame", "sound_of_stills",
                [](const Value& value, const Settings& all) {
                  if (!of_musubi_h3(all)) return left_out(asks_for_something(value) ? "previews of one frame are pictures" : "");
                  return carried("noise", "silence as its autoencoder has it stands beside a still there, and here the mean of all sounds");
                })
          .otherwise(false),
      rewritten("video_only", "sound_loss_weight", weight_of_seen),
      rewritten("audio_loss_weight", "sound_loss_weight", weight).otherwise(1.0),
      rewritten("audio_vae", "model",
                [](const Value& value, const Settings& all) { return hears_h3(all) ? carried(value) : left_out(""); }),
      rewritten("h3_shift_audio", "", [](const Value& value, const Settings& all) {
        return left_out(
            of_musubi_h3(all) && number_of(value) != 3.0 ? "the sound's noise follows from that of the frames as the model has it" : "");
      }).otherwise(3.0)};
}

}  // namespace

bool of_musubi_h3(const Settings& all) {
  return all.text("script").starts_with("minimax_h3_train") || all.text("network_module").ends_with("lora_minimax_h3");
}

bool hears_h3(const Settings& all) { return of_musubi_h3(all) && all.has("video_directory"); }

std::vector<SettingRow> musubi_h3_rows() {
  Table table;
  table << rewritten("h3_shift_video", "discrete_flow_shift", [](const Value& value, const Settings& all) {
             return of_musubi_h3(all) ? carried(value) : left_out("");
           }).otherwise(kShiftOfH3);
  table << rewritten("convrot_int8", "fp8_models", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried("dit") : left_out("");
           }).otherwise(false);
  table << rewritten("convrot_int8", "weight_format", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried("int8_convrot") : left_out("");
           }).otherwise(false);
  table << guidance_rows() << sound_rows();
  return table.rows;
}

}  // namespace burnish::foreign
