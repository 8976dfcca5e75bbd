#include "foreign/simpletuner_h3.h"

#include "base/text.h"
#include "foreign/h3.h"
#include "foreign/simpletuner_model.h"

// Facts: helpers/models/minimaxh3/model.py, helpers/distillation/h3_drift/distiller.py and documentation/quickstart/MINIMAX_H3.md.
namespace burnish::foreign::of_simpletuner {

namespace {

const std::string kMethod = "distillation_method", kConfig = "distillation_config";
constexpr const char* kNoObjective = "no such objective here";

bool drifts(const Settings& all) { return is_h3(all) && lower(all.text(kMethod)) == "h3_drift"; }

/// Its loss on the distance from the model before training; the distance of frames and sound is one sum where nothing else is said.
std::vector<SettingRow> drift_rows() {
  const auto of_drift = [](const char* name) -> Convert {
    return [=](const Value&, const Settings& all) {
      return drifts(all) ? carried(all.number(std::string("h3_drift.") + name).value_or(1.0)) : left_out("");
    };
  };
  return {rewritten(kMethod, "drift_loss_weight", of_drift("loss_weight")),
          rewritten(kMethod, "sft_loss_weight", of_drift("sft_loss_weight")),
          rewritten(kMethod, "",
                    [](const Value& value, const Settings& all) {
                      return left_out(drifts(all) || !asks_for_something(value) ? "" : kNoObjective);
                    }),
          no_place("h3_drift.loss_weight", ""),
          no_place("h3_drift.sft_loss_weight", ""),
          no_place("h3_drift.inner_distillation_method", kNoObjective),
          no_place("h3_drift.inner_distillation_config.*", kNoObjective),
          no_place("h3_drift.balance", "the distances of frames and of sound are added, each a mean of its own", "token"),
          no_place("h3_drift.video_weight", "write it into drift_loss_weight", 1.0),
          no_place("h3_drift.audio_weight", "sound_loss_weight weighs the sound in every loss", 1.0)};
}

/// Tells whether the sound of clips is asked for, in the settings or in those of a dataset.
bool hears(const Settings& all) {
  for (const char* name : {"minimax_h3_target_mode", "dataset.minimax_h3_target_mode", "dataset.h3_target_mode"})
    if (lower(all.text(name)) == "av") return true;
  return false;
}

/// The rows of sound, which stills have none of there, whatever target mode is asked for.
std::vector<SettingRow> sound_rows() {
  const auto heard = [](const Value& value, const Settings& all) {
    return is_h3(all) && lower(text_of(value)) == "av" ? carried(with_sound("")) : left_out("");
  };
  return {rewritten("model_family", "sound_of_stills",
                    [](const Value&, const Settings& all) { return is_h3(all) && !hears(all) ? carried("none") : left_out(""); }),
          rewritten("minimax_h3_target_mode", "extra_inputs", heard).otherwise("auto"),
          rewritten("dataset.minimax_h3_target_mode", "extra_inputs", heard), rewritten("dataset.h3_target_mode", "extra_inputs", heard),
          no_place("audio_flow_schedule_shift", "the sound's noise follows from that of the frames as the model has it", 3.0)};
}

}  // namespace

bool is_h3(const Settings& all) { return family(all) == "minimaxh3"; }

void put_h3_drift(Value& options) {
  if (lower(text_of(options.value(kMethod, Value()))) != "h3_drift" || !options.contains(kConfig)) return;
  auto config = options[kConfig];
  if (config.is_string()) config = Value::parse(config.get<std::string>(), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return;
  options["h3_drift"] = config.contains("h3_drift") ? config["h3_drift"] : config;
  options.erase(kConfig);
}

void h3_rows(Table& table) {
  table << drift_rows() << sound_rows();
  table << rewritten("model_family", "max_sequence_length", [](const Value&, const Settings& all) {
    return is_h3(all) && !all.has("tokenizer_max_length") ? carried(512) : left_out("");
  });
  // Its autoencoder has its own tiles, which cannot be turned off there.
  table << rewritten("vae_enable_tiling", "vae_tile_size", [](const Value& value, const Settings& all) {
             return is_h3(all) ? left_out("") : if_on(value, 512);
           }).otherwise(false);
  table << no_place("minimax_h3_sparse_attention", "attention sees all tokens", "disabled");
}

}  // namespace burnish::foreign::of_simpletuner
