#include "foreign/simpletuner_ltx.h"

#include <map>

#include "base/text.h"
#include "foreign/h3.h"
#include "foreign/ltx.h"
#include "foreign/simpletuner_model.h"
#include "io/files.h"

// Facts: helpers/models/ltxvideo2 and documentation/quickstart/LTXVIDEO2.md.
namespace burnish::foreign::of_simpletuner {

namespace {

std::string flavour(const Settings& all) { return lower(all.text("model_flavour", "dev")); }
bool is_25(const Settings& all) { return is_ltx(all) && flavour(all).starts_with("2.5"); }
bool is_20(const Settings& all) { return !flavour(all).starts_with("2.3") && !flavour(all).starts_with("2.5"); }

/// Returns the folder of a flavour on a hub; "" for one that has none there.
std::string folder_of(const Settings& all) {
  static const std::map<std::string, std::string> kFolders{{"", "Lightricks/LTX-2"},
                                                           {"dev", "Lightricks/LTX-2"},
                                                           {"2", "Lightricks/LTX-2"},
                                                           {"2.0", "Lightricks/LTX-2"},
                                                           {"2.3-dev", "dg845/LTX-2.3-Diffusers"},
                                                           {"2.3-distilled", "dg845/LTX-2.3-Distilled-Diffusers"}};
  const auto folder = kFolders.find(flavour(all));
  return is_ltx(all) && folder != kFolders.end() ? folder->second : "";
}

/// A model that is named, but for 2.5's on a hub, which is no folder of parts.
Outcome named_model(const Value& value, const Settings& all) {
  return is_25(all) && !io::is_there(text_of(value)) ? left_out("") : carried(value);
}

Outcome files_of_25(const Value& value, const Settings& all) {
  if (!is_25(all) || io::is_there(all.text("pretrained_model_name_or_path"))) return left_out("");
  const auto given = all.text("pretrained_model_name_or_path"), repository = given.empty() ? "Lightricks/LTX-2.5" : given;
  const std::string kind = lower(text_of(value)).ends_with("distilled") ? "distilled" : "dev";
  std::vector<std::string> ids;
  for (const auto& file :
       {"diffusion_models/ltx-2.5-22b-" + kind + "-transformer-bf16", std::string("text_encoders/gemma4-12b-with-proj-ltx-2.5-bf16"),
        std::string("vae/ltx-2.5-video-vae-conv-bf16"), std::string("vae/ltx-2.5-audio-vae-bf16")})
    ids.push_back(repository + ":" + file + ".safetensors");
  return carried(join(ids, ","), "files of the hub lie below models/, or where DIFFSYNTH_MODEL_BASE_PATH says");
}

/// Clips are heard where nothing else is said.
bool hears_clips(const Settings& all) {
  const bool is_split = !all.has("dataset.audio.auto_split") || all.on("dataset.audio.auto_split");
  return is_ltx(all) && lower(all.text("dataset.dataset_type")) == "video" && is_split;
}

constexpr const char *kFirstFrame = "ltx2_first_frame_conditioning_probability", *kPrefix = "ltx2_prefix_conditioning_probability",
                     *kSuffix = "ltx2_suffix_conditioning_probability";

bool is_given(const char* probability, const Settings& all) { return is_ltx(all) && all.number(probability) == 1.0; }

/// Frames that are given are columns of one option, as is sound: the setting that carries them.
std::string carrier_of_inputs(const Settings& all) {
  for (const char* name : {kFirstFrame, kPrefix, kSuffix}) {
    if (is_given(name, all)) return name;
  }
  return "dataset.dataset_type";
}

Outcome inputs(const Settings& all) {
  std::vector<std::string> columns;
  if (is_given(kFirstFrame, all) || is_given(kPrefix, all)) columns.emplace_back("input_image");
  if (is_given(kSuffix, all)) columns.emplace_back("end_image");
  return carried(hears_clips(all) ? with_sound(join(columns, ",")) : join(columns, ","));
}

/// Latents at an end of a clip are counted there, and here their frames.
int64_t frames_of_latents(const Value& count) { return 8 * static_cast<int64_t>(number_of(count).value_or(1)) - 7; }

void given_frames_rows(Table& table) {
  for (const char* name : {kFirstFrame, kPrefix, kSuffix})
    table << rewritten(name, "extra_inputs", [name](const Value& value, const Settings& all) {
               if (!asks_for_something(value)) return left_out("");
               if (is_given(name, all)) return carrier_of_inputs(all) == name ? inputs(all) : left_out("");
               return left_out("frames of a clip are given at every visit (extra_inputs input_image, end_image), or at none");
             }).otherwise(0.0);
  table << rewritten("ltx2_prefix_conditioning_frames", "given_frames", [](const Value& value, const Settings& all) {
             return is_given(kPrefix, all) ? carried(frames_of_latents(value)) : left_out("");
           }).otherwise(1);
  table << rewritten("ltx2_suffix_conditioning_frames", "given_last_frames", [](const Value& value, const Settings& all) {
             return is_given(kSuffix, all) ? carried(frames_of_latents(value), "they stand beside the noise here, and not in its place")
                                           : left_out("");
           }).otherwise(1);
}

void ltx_data_rows(Table& table) {
  table << rewritten("dataset.dataset_type", "extra_inputs", [](const Value&, const Settings& all) {
    const bool is_carrier = carrier_of_inputs(all) == "dataset.dataset_type";
    return hears_clips(all) && is_carrier ? carried(with_sound(""), "clips without a sound have noise beside them here") : left_out("");
  });
  given_frames_rows(table);
  table << rewritten("audio_loss_weight", "sound_loss_weight", [](const Value& value, const Settings& all) {
             return hears_clips(all) ? carried(value) : left_out("");
           }).otherwise(1.0);
  table << rewritten("dataset.audio.audio_only", "frames_loss_weight", [](const Value& value, const Settings& all) {
             if (!is_ltx(all) || !asks_for_something(value)) return left_out("");
             return carried(0.0, "frames stand beside the sound here too: those of the clip");
           }).otherwise(false);
  table << rewritten("framerate", "frame_rate", [](const Value& value, const Settings& all) {
    return is_ltx(all) ? carried(value, "so many frames a second are taken of a clip here, by their times") : left_out("");
  });
  table << rewritten("dataset.video.num_frames", "num_frames",
                     [](const Value& value, const Settings& all) { return is_ltx(all) ? carried_frames_of_ltx(value) : carried(value); });
}

}  // namespace

bool is_ltx(const Settings& all) { return family(all) == "ltxvideo2"; }

bool is_known_ltx(const Settings& all) { return !folder_of(all).empty() || is_25(all); }

std::string ltx_targets(const std::string& attention, const Settings& all) {
  if (!hears_clips(all)) return attention;
  const std::string of_captions = is_20(all) ? ",audio_caption_projection.linear_1,audio_caption_projection.linear_2" : "";
  return attention + ",audio_proj_in,audio_proj_out,audio_ff.net.0.proj,audio_ff.net.2" + of_captions;
}

void ltx_rows(Table& table) {
  table << rewritten("pretrained_model_name_or_path", "model", named_model);
  table << rewritten("model_flavour", "model", [](const Value&, const Settings& all) {
             const auto folder = folder_of(all);
             return all.on("pretrained_model_name_or_path") || folder.empty() ? left_out("") : carried(folder);
           }).otherwise("");
  table << rewritten("model_flavour", "model_id_with_origin_paths", files_of_25);
  ltx_data_rows(table);
}

}  // namespace burnish::foreign::of_simpletuner
