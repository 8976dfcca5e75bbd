#include "foreign/kohya_model.h"

#include <algorithm>

#include "base/text.h"

namespace burnish::foreign::of_kohya {

namespace {

/// The kind of model between whose text encoder and denoiser a conditioner lies, as its scripts' names begin.
const std::string kConditioned = "anima";
/// The kind of model that three text encoders read for.
const std::string kOfThreeEncoders = "sd3";

bool is_zero(const Settings& all, const std::string& name) { return all.number(name) == 0.0; }

constexpr size_t kNumEncoders = 3;
constexpr const char* kEncoders[kNumEncoders] = {"text_encoder", "text_encoder_2", "text_encoder_3"};

/// Tells whether the rate of one of three text encoders is 0, by its number from 0 on.
bool has_no_rate(const Settings& all, size_t number) {
  const auto own = std::to_string(number + 1);
  const auto* list = all.find("text_encoder_lr");
  if (trains_whole(all)) return is_zero(all, "learning_rate_te" + own);
  if (list && list->is_array()) return number < list->size() && number_of((*list)[number]) == 0.0;
  return is_zero(all, "text_encoder_lr" + own) || is_zero(all, "text_encoder_lr");
}

}  // namespace

/// The kind of model: by the script, else by what only one kind is given, by its files, or by its name. The last are looked up once, when
/// the settings are arranged.
std::string kind_of(const Settings& all) {
  auto script = all.text("script"), type = lower(all.text("model_train_type"));
  if (script.starts_with("flux") || type.starts_with("flux")) return "flux";
  if (script.starts_with("sdxl") || type.starts_with("sdxl")) return "sdxl";
  for (const char* of_first : {"train_network.py", "train_db.py", "fine_tune.py", "train_textual_inversion.py"}) {
    if (script == of_first) return "sd15";
  }
  if (type.starts_with("sd-")) return "sd15";
  auto module = all.text("network_module");
  if (script.starts_with("sd3_train") || module == "networks.lora_sd3" || all.has("clip_g")) return kOfThreeEncoders;
  if (script.starts_with("anima_train") || module == "networks.lora_anima" || all.has("qwen3")) return kConditioned;
  bool drawn = all.has("timestep_sampling") && module != "networks.lora";
  if (all.has("clip_l") || all.has("t5xxl") || all.has("ae") || drawn || module.ends_with("lora_flux") ||
      all.text("model_type") == "chroma")
    return "flux";
  if (all.has("text_encoder_lr2") || all.has("learning_rate_te2") || all.has("learning_rate_te1")) return "sdxl";
  return all.text("kind_of_model");
}

/// Settings of a model that flows, whose denoiser is called dit; the others have a unet.
bool flows(const Settings& all) { return kind_of(all) == "flux" || is_conditioned(all) || has_three_encoders(all); }
bool is_conditioned(const Settings& all) { return kind_of(all) == kConditioned; }
bool has_three_encoders(const Settings& all) { return kind_of(all) == kOfThreeEncoders; }

std::string denoiser(const Settings& all) { return flows(all) ? "dit" : "unet"; }

bool is_xl(const Settings& all) { return kind_of(all) == "sdxl"; }

/// Settings without a network train the model itself.
bool trains_whole(const Settings& all) { return !all.has("network_module"); }

/// Settings of a word whose vectors train, and nothing else.
bool trains_word(const Settings& all) { return all.has("token_string") || all.text("script").ends_with("train_textual_inversion.py"); }

/// The text encoders that train. sd-scripts' networks adapt them too unless told otherwise, CLIP alone of FLUX.1's; a rate of 0 leaves them
/// as they are, and so do outputs that are kept, but for FLUX.1, of which they are T5's.
std::vector<std::string> text_encoders(const Settings& all) {
  std::vector<std::string> parts;
  if (has_three_encoders(all)) {
    const bool clips = trains_whole(all) ? all.on("train_text_encoder") : !all.on("network_train_unet_only");
    const bool t5 = all.on(trains_whole(all) ? "train_t5xxl" : "network_args.train_t5xxl");
    const bool has_trains[] = {clips, clips, t5};
    for (size_t i = 0; i < kNumEncoders; ++i)
      if (has_trains[i] && !has_no_rate(all, i)) parts.emplace_back(kEncoders[i]);
    return parts;
  }
  if (trains_whole(all)) {
    if (flows(all)) return {};
    bool of_db = all.text("script") == "train_db.py" && all.number("stop_text_encoder_training").value_or(0) >= 0;
    if (!all.on("train_text_encoder") && !of_db) return {};
    if (!is_zero(all, "learning_rate_te1") && !is_zero(all, "learning_rate_te")) parts.emplace_back("text_encoder");
    if (is_xl(all) && !is_zero(all, "learning_rate_te2")) parts.emplace_back("text_encoder_2");
    return parts;
  }
  bool keeps_outputs = all.on("cache_text_encoder_outputs") || all.on("cache_text_encoder_outputs_to_disk");
  if (all.on("network_train_unet_only") || (keeps_outputs && !flows(all)) || is_zero(all, "text_encoder_lr")) return {};
  if (all.text("model_type") == "chroma") {  // which has T5 alone
    if (all.on("network_args.train_t5xxl")) parts.emplace_back("text_encoder");
    return parts;
  }
  if (!is_zero(all, "text_encoder_lr1")) parts.emplace_back("text_encoder");
  bool second = is_xl(all) || (flows(all) && all.on("network_args.train_t5xxl"));
  if (second && !is_zero(all, "text_encoder_lr2")) parts.emplace_back("text_encoder_2");
  return parts;
}

bool encoders_train(const Settings& all) { return !text_encoders(all).empty(); }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (!all.on("network_train_text_encoder_only")) parts.push_back(denoiser(all));
  // Among all weights it trains unless told otherwise, among adapters where it is asked for.
  const bool with_conditioner = trains_whole(all) ? !is_zero(all, "llm_adapter_lr") : all.on("network_args.train_llm_adapter");
  if (is_conditioned(all) && with_conditioner) parts.emplace_back("text_conditioner");
  for (const auto& part : text_encoders(all)) parts.push_back(part);
  return join(parts, ",");
}

/// A line where the kind is not known and the second text encoder would train.
std::string note_on_parts(const Settings& all) {
  bool unknown = kind_of(all).empty() && encoders_train(all);
  return unknown
             ? "neither the settings nor the model's file, which is not there, say whether this is SDXL, whose second text encoder trains "
               "as well: write unet,text_encoder,text_encoder_2 for it"
             : "";
}

}  // namespace burnish::foreign::of_kohya
