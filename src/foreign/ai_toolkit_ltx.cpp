#include "foreign/ai_toolkit_ltx.h"

#include <algorithm>

#include "base/text.h"
#include "foreign/ltx.h"
#include "io/files.h"

// Facts: extensions_built_in/diffusion_models/ltx2/ltx2.py of ai-toolkit.
namespace burnish::foreign::of_ai_toolkit {

namespace {

constexpr const char* kOfHub = "files of the hub lie below models/, or where DIFFSYNTH_MODEL_BASE_PATH says";
const std::string kEncoder = "model.te_name_or_path", kModelKwargs = "model.model_kwargs.";

bool is_25(const Settings& all) { return all.text("model.arch") == "ltx2.5"; }

/// Returns a file of a hub, "author/model/path", as "author/model:path"; "" for another place.
std::string file_of_hub(const std::string& place) {
  if (io::is_there(place) || !place.ends_with(".safetensors") || place.starts_with("/") || place.starts_with(".")) return "";
  const auto first = place.find('/');
  const auto second = first == place.npos ? first : place.find('/', first + 1);
  return second == place.npos ? "" : place.substr(0, second) + ":" + place.substr(second + 1);
}

/// Files of 2.5's repository that are not named one by one, by the names that model_kwargs has for them, which end in "_path".
std::vector<std::string> files_of_25(const Settings& all, const std::string& repository) {
  std::vector<std::string> ids;
  auto add = [&](bool is_named, const char* file) {
    if (!is_named) ids.push_back(repository + ":" + file);
  };
  add(all.text("model.name_or_path").ends_with(".safetensors") || all.has(kModelKwargs + "dit_path"),
      "diffusion_models/ltx-2.5-22b-dev-transformer-comfy-int8-convrot.safetensors");
  add(all.has(kEncoder) || all.has(kModelKwargs + "text_encoder_path"),
      "text_encoders/gemma4-12b-with-proj-ltx-2.5-comfy-int8-convrot.safetensors");
  add(all.has(kModelKwargs + "video_vae_path"), "vae/ltx-2.5-video-vae-conv-bf16.safetensors");
  add(all.has(kModelKwargs + "audio_vae_path"), "vae/ltx-2.5-audio-vae-bf16.safetensors");
  return ids;
}

/// The text encoder: a file here, or a model of a hub, whose shards are named.
Outcome encoder_here(const Value& value, const Settings& all) {
  if (!is_ltx(all)) return left_out("no option of the models here");
  return io::is_there(text_of(value)) ? carried(value) : left_out("");
}

}  // namespace

bool is_ltx(const Settings& all) { return all.text("model.arch").starts_with("ltx2"); }

Outcome ltx_files_here(const Value& value, const Settings& all) {
  const auto place = text_of(value);
  const bool is_of_hub = !file_of_hub(place).empty() || (is_25(all) && !io::is_there(place));
  return is_of_hub ? left_out("") : carried(value);
}

Outcome ltx_files_of_hub(const Value& value, const Settings& all) {
  const auto place = text_of(value);
  std::vector<std::string> ids;
  if (const auto file = file_of_hub(place); !file.empty()) ids.push_back(file);
  if (is_25(all)) {
    const bool is_repository = !io::is_there(place) && !place.ends_with(".safetensors");
    for (auto& id : files_of_25(all, is_repository ? place : "Lightricks/LTX-2.5")) ids.push_back(id);
  } else if (all.text("model.arch") == "ltx2.3" && place.ends_with(".safetensors") && !all.has(kEncoder)) {
    ids.emplace_back("Lightricks/gemma-3-12b-it-qat-q4_0-unquantized:model-*.safetensors");
  }
  if (const auto encoder = all.text(kEncoder); !encoder.empty() && !io::is_there(encoder)) {
    const auto file = file_of_hub(encoder);
    ids.push_back(file.empty() ? encoder + ":model-*.safetensors" : file);
  }
  return ids.empty() ? left_out("") : carried(join(ids, ","), kOfHub);
}

Table ltx_rows() {
  Table table;
  table << rewritten(kEncoder, "model", encoder_here);
  table << rewritten("network.type", "lora_target_modules", [](const Value&, const Settings& all) {
    const bool is_of_file = all.has("network.pretrained_lora_path");
    return is_ltx(all) && !is_of_file ? carried(kBlocksOfLtx) : left_out("");
  });
  table << rewritten(kModelKwargs + "dit_path", "model", [](const Value& value, const Settings& all) {
    return is_ltx(all) ? carried(value) : left_out("no option of the models here");
  });
  return table;
}

}  // namespace burnish::foreign::of_ai_toolkit
