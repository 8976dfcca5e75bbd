#include "foreign/ai_toolkit_h3.h"

#include <fmt/core.h>

#include <filesystem>
#include <map>

#include "base/text.h"
#include "foreign/ai_toolkit_ltx.h"
#include "foreign/h3.h"
#include "io/files.h"

// Facts: extensions_built_in/diffusion_models/minimax_h3/minimax_h3.py of ai-toolkit.
namespace burnish::foreign::of_ai_toolkit {

namespace {

const std::string kKwargs = "model.model_kwargs.";

std::string partition(const Settings& all) {
  const auto is_of_references = all.text("model.arch").ends_with("ref2va");
  return lower(all.text(kKwargs + "partition", is_of_references ? "ref2va_pruned" : "fl2va_pruned"));
}

/// Files of ComfyUI's repository that are not named one by one, by the names that model_kwargs has for them, which end in "_path".
std::map<std::string, std::string> files(const Settings& all) {
  std::map<std::string, std::string> files{
      {"dit_" + partition(all), fmt::format("diffusion_models/minimax_h3_{}_int8_convrot.safetensors", partition(all))},
      {"text_encoder", "text_encoders/qwen3vl_32b_minimax_h3_int8_convrot.safetensors"},
      {"video_vae", "vae/minimax_h3_video_vae_fp16.safetensors"}};
  std::erase_if(files, [&](const auto& file) { return all.has(kKwargs + file.first + "_path"); });
  return files;
}

/// Says which of the text encoder's files is taken, where the settings name none.
std::string of_encoder(const Settings& all) {
  return files(all).contains("text_encoder") ? "the text encoder is taken in INT8, for the scaled inputs of its NVFP4 are not read" : "";
}

/// The files that it takes of a folder that lies here.
Outcome files_here(const Value& value, const Settings& all) {
  if (is_ltx(all)) return ltx_files_here(value, all);
  const auto place = text_of(value);
  std::error_code failed;
  if (!is_h3(all) || (io::is_there(place) && !std::filesystem::is_directory(place, failed))) return carried(value);
  if (!io::is_there(place)) return left_out("");
  auto list = Value::array();
  for (const auto& [name, file] : files(all)) list.push_back((std::filesystem::path(place) / file).string());
  return carried(list, of_encoder(all));
}

/// The files that it takes of a repository.
Outcome files_of_hub(const Value& value, const Settings& all) {
  if (is_ltx(all)) return ltx_files_of_hub(value, all);
  const auto place = text_of(value);
  if (!is_h3(all) || io::is_there(place)) return left_out("");
  std::vector<std::string> ids;
  for (const auto& [name, file] : files(all)) ids.push_back(place + ":" + file);
  return ids.empty() ? left_out("")
                     : carried(join(ids, ","), "files of the hub lie below models/, or where DIFFSYNTH_MODEL_BASE_PATH says" +
                                                   (of_encoder(all).empty() ? "" : "; " + of_encoder(all)));
}

/// Tells whether modulations are left out of what is adapted, which they are here.
Outcome ignored_layers(const Value& value, const Settings& all) {
  const auto list = value.is_array() ? value : Value::array({value});
  const bool is_of_time = is_h3(all) && list.size() == 1 && text_of(list[0]) == "adaln_proj";
  return left_out(is_of_time || !asks_for_something(value) ? "" : "lora_target_modules says which layers carry adapters");
}

}  // namespace

bool is_h3(const Settings& all) { return all.text("model.arch").starts_with("minimax_h3"); }

Table h3_rows() {
  Table table;
  table << rewritten("model.name_or_path", "model", files_here)
        << rewritten("model.name_or_path", "model_id_with_origin_paths", files_of_hub);
  table << rewritten("model.name_or_path", "tokenizer_path", [](const Value& value, const Settings& all) {
    return is_h3(all) && !io::is_there(text_of(value)) ? carried("MiniMax/MiniMax-H3:FL2VA/tokenizer/") : left_out("");
  });
  table << rewritten("network.network_kwargs.ignore_if_contains", "", ignored_layers);
  table << rewritten("network.type", "lora_target_modules", [](const Value&, const Settings& all) {
    const auto* ignored = all.find("network.network_kwargs.ignore_if_contains");
    if (!is_h3(all) || all.has("network.pretrained_lora_path")) return left_out("");
    const bool has_time = ignored == nullptr || ignored->dump().find("adaln_proj") == std::string::npos;
    return carried(has_time ? R"((transformer_blocks|token_refiner\.refiner_blocks)\.[0-9]+\.(attn|ff|adaln_proj)\..*)"
                            : kBlocksAndTextOfH3);
  });
  // A number of 0 means no limit there.
  table << rewritten(kKwargs + "max_text_length", "max_sequence_length", [](const Value& value, const Settings& all) {
    return is_h3(all) && !asks_for_something(value) ? left_out("") : carried(value);
  });
  table << rewritten("model.arch", "max_sequence_length", [](const Value&, const Settings& all) {
    return is_h3(all) && !all.has(kKwargs + "max_text_length") ? carried(512) : left_out("");
  });
  const std::string file_not_taken = "partition asks for another file";
  for (const std::string of : {"fl2va", "fl2va_pruned", "ref2va", "ref2va_pruned"}) {
    table << rewritten(kKwargs + "dit_" + of + "_path", "model", [=](const Value& value, const Settings& all) {
      return of == partition(all) ? carried(value) : left_out(file_not_taken);
    });
  }
  table << same(kKwargs + "video_vae_path", "model") << no_place(kKwargs + "partition", "");
  table << same(kKwargs + "audio_vae_path", "model");
  return table;
}

}  // namespace burnish::foreign::of_ai_toolkit
