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

constexpr const char* kTogether = "of batches here, whose samples go together, and there of samples";

// Frames of a clip that are given at a share of visits: a setting for each kind, and a list of objects of these kinds and two more.
constexpr const char *kIntrinsic = "ltx2_intrinsic_conditioning", *kFirstFrame = "ltx2_first_frame_conditioning_probability",
                     *kPrefix = "ltx2_prefix_conditioning_probability", *kSuffix = "ltx2_suffix_conditioning_probability";

/// Latents at an end of a clip that a setting asks for; `is_known` is false for what is given otherwise, parts of all frames.
struct GivenThere {
  std::string setting;
  bool is_known = true, is_end = false;
  int64_t num_latents = 1;
  double share = 1;
  /// Latents at an end of a clip are counted there, and here their frames.
  int64_t num_frames() const { return 8 * num_latents - 7; }
};

/// Returns the objects of the list, which may be written as a text.
std::vector<Value> objects_of_list(const Settings& all) {
  const auto* given = all.find(kIntrinsic);
  if (given == nullptr) return {};
  const auto list = given->is_string() ? Value::parse(given->get<std::string>(), nullptr, /*allow_exceptions=*/false) : *given;
  std::vector<Value> objects;
  for (const auto& one : list.is_array() ? list : Value::array({list})) {
    if (one.is_object()) objects.push_back(one);
  }
  return objects;
}

GivenThere given_by(const Value& object) {
  const auto type = lower(text_of(object.value("type", Value(""))));
  GivenThere given{
      .setting = kIntrinsic, .is_known = type == "first_frame" || type == "prefix" || type == "suffix", .is_end = type == "suffix"};
  const auto count = object.contains("temporal_boundary") ? object["temporal_boundary"] : object.value("num_frames", Value(1));
  if (type != "first_frame") given.num_latents = static_cast<int64_t>(number_of(count).value_or(1));
  given.share = number_of(object.value("probability", Value(1.0))).value_or(1);
  return given;
}

std::vector<GivenThere> all_given(const Settings& all) {
  std::vector<GivenThere> given;
  if (!is_ltx(all)) return given;
  for (const auto& object : objects_of_list(all)) given.push_back(given_by(object));
  const auto latents = [&](const char* name) { return static_cast<int64_t>(all.number(name).value_or(1)); };
  const GivenThere single[]{{.setting = kFirstFrame},
                            {.setting = kPrefix, .num_latents = latents("ltx2_prefix_conditioning_frames")},
                            {.setting = kSuffix, .is_end = true, .num_latents = latents("ltx2_suffix_conditioning_frames")}};
  for (auto one : single) {
    one.share = all.number(one.setting).value_or(0);
    given.push_back(one);
  }
  std::erase_if(given, [](const auto& one) { return one.share <= 0; });
  return given;
}

/// Returns what is given at an end of clips: the first that settings name, at the visits of all that name as many. Nothing where none does.
std::optional<GivenThere> given_at(bool is_end, const Settings& all) {
  std::optional<GivenThere> found;
  for (const auto& one : all_given(all)) {
    if (!one.is_known || one.is_end != is_end) continue;
    if (!found) found = one;
    else if (one.num_latents == found->num_latents) found->share = 1 - (1 - found->share) * (1 - one.share);
  }
  return found;
}

/// Frames that are given are columns of one option, as is sound: the setting that carries them.
std::string carrier_of_inputs(const Settings& all) {
  for (const bool is_end : {false, true}) {
    if (const auto given = given_at(is_end, all)) return given->setting;
  }
  return "dataset.dataset_type";
}

Outcome inputs(const Settings& all) {
  std::vector<std::string> columns;
  if (given_at(false, all)) columns.emplace_back("input_image");
  if (given_at(true, all)) columns.emplace_back("end_image");
  return carried(hears_clips(all) ? with_sound(join(columns, ",")) : join(columns, ","));
}

/// Tells what of a setting has no place: other numbers of frames at the same end, and parts of frames.
std::string why_not_given(const std::string& setting, const Settings& all) {
  for (const auto& one : all_given(all)) {
    if (one.setting != setting) continue;
    if (!one.is_known)
      return "parts of frames, by a mask or a region, are not given to the model; --masked_loss leaves them out of the loss";
    if (one.num_latents != given_at(one.is_end, all)->num_latents)
      return "one number of first frames is given in a run, and one of last ones; what stands first is carried";
  }
  return "";
}

void given_frames_rows(Table& table) {
  for (const char* name : {kIntrinsic, kFirstFrame, kPrefix, kSuffix}) {
    const auto from = [name](const char* ours, bool is_end, const std::function<Outcome(const GivenThere&)>& of) {
      return rewritten(name, ours, [=](const Value&, const Settings& all) {
        const auto given = given_at(is_end, all);
        return given && given->setting == name ? of(*given) : left_out("");
      });
    };
    const auto share = [](const GivenThere& given) { return given.share < 1 ? carried(given.share, kTogether) : left_out(""); };
    table << rewritten(name, "extra_inputs", [name](const Value&, const Settings& all) {
      return all_given(all).empty() || carrier_of_inputs(all) != name ? left_out("") : inputs(all);
    });
    table << from("given_frames", false, [](const GivenThere& given) { return carried(given.num_frames()); });
    table << from("given_frames_share", false, share);
    table << from("given_last_frames", true, [](const GivenThere& given) {
      return carried(given.num_frames(), "they stand beside the noise here, and not in its place");
    });
    table << from("given_last_frames_share", true, share);
    table << rewritten(name, "", [name](const Value&, const Settings& all) { return left_out(why_not_given(name, all)); });
  }
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
