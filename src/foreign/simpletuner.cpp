#include <fmt/core.h>

#include <map>

#include "base/text.h"
#include "foreign/row_files.h"
#include "foreign/simpletuner_arrange.h"
#include "foreign/simpletuner_course.h"
#include "foreign/simpletuner_data.h"
#include "foreign/simpletuner_h3.h"
#include "foreign/simpletuner_ltx.h"
#include "foreign/simpletuner_model.h"

// Names and defaults: the fields of simpletuner_sdk/server/services/field_registry and helpers/models/field_registry, env_file.py,
// optimizer_param.py, custom_schedule.py, and DEFAULT_LORA_TARGET of helpers/models of SimpleTuner 4.10.1.
namespace burnish::foreign::of_simpletuner {

namespace {

const std::string kAttention = "to_k,to_q,to_v,to_out.0", kAdded = "add_k_proj,add_q_proj,add_v_proj,to_add_out",
                  kAddedFeedForward = "ff_context.net.0.proj,ff_context.net.2",
                  kFeedForward = "ff.net.0.proj,ff.net.2," + kAddedFeedForward,
                  kToSound = "audio_cross_attn.q_linear,audio_cross_attn.kv_linear,audio_cross_attn.proj", kTalk = "infinitetalk";

/// The layers that LoRAs of a kind of model adapt.
const std::map<std::string, std::string>& targets_by_kind() {
  static const std::map<std::string, std::string> kTargets{{"sd1x", kAttention},
                                                           {"sdxl", kAttention},
                                                           {"flux", kAttention + "," + kAdded},
                                                           {"chroma", kAttention + "," + kAdded},
                                                           {"sd3", kAttention},
                                                           {"flux2", "attn.to_q,attn.to_k,attn.to_v,attn.to_out.0,attn.to_qkv_mlp_proj"},
                                                           {"flux3_image", "attn.to_q,attn.to_k,attn.to_v,attn.to_out.0"},
                                                           {"ideogram", "qkv,o,w1,w2,w3"},
                                                           {"qwen_image", kAttention},
                                                           {"z_image", kAttention},
                                                           {"krea2", kAttention},
                                                           {"longcat_image", kAttention},
                                                           {"longcat_video", "kv_linear,proj,q_linear,qkv"},
                                                           {"boogu_image", kAttention},
                                                           {"kandinsky5-image", "to_key,to_query,to_value"},
                                                           {"moss_image",
                                                            "proj.q,proj.k,proj.v,proj.o,qkv,text_embedder.blocks.0.proj,"
                                                            "text_embedder.blocks.1.proj"},
                                                           {"anima", kAttention},
                                                           {"ernie", kAttention},
                                                           {"wan", kAttention},
                                                           {kTalk, kAttention + "," + kToSound},
                                                           {"minimaxh3", kAttention},
                                                           {"ltxvideo2", kAttention}};
  return kTargets;
}

/// What it takes by itself for InfiniteTalk, which has one flavour.
constexpr const char* kPictureToVideo = "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers";
constexpr const char* kAddedAndHearing =
    "MeiGen-AI/InfiniteTalk:single/infinitetalk.safetensors,TencentGameMate/chinese-wav2vec2-base:pytorch_model.bin";

/// A flavour, or none, stands for a model on a hub where no file or id is given.
Outcome published_model(const Value& value, const Settings& all) {
  const bool is_asked =
      targets_by_kind().contains(family(all)) && !all.on("pretrained_model_name_or_path") && !is_known_ltx(all) && family(all) != kTalk;
  return left_out(is_asked ? fmt::format("name the model of {} with --model, by its folder or its id on a hub",
                                         asks_for_something(value) ? "this flavour" : "the flavour that is taken by itself")
                           : "");
}

/// A flavour of Wan 2.2 is one of its experts.
Outcome expert_of_flavour(const Value& value, const Settings& all) {
  const auto flavour = lower(text_of(value));
  const bool is_high = flavour.ends_with("-high");
  if (family(all) != "wan" || (!is_high && !flavour.ends_with("-low"))) return left_out("");
  return carried(is_high ? "high_noise" : "low_noise",
                 fmt::format("SimpleTuner loads {} of the model's folder for it, which is its expert of {} noise",
                             is_high ? "transformer_2" : "transformer", is_high ? "little" : "much"));
}

/// A flavour of Boogu-Image, or none, is the distilled model.
Outcome distilled_flavour(const Value& value, const Settings& all) {
  const auto flavour = lower(text_of(value));
  const bool is_taken_by_itself = flavour.empty() && !all.on("pretrained_model_name_or_path");
  return family(all) == "boogu_image" && (is_taken_by_itself || flavour.starts_with("v0.1-turbo")) ? carried(true) : left_out("");
}

/// The columns of frames that a flavour of Wan goes on from, and of the pictures that one of Boogu-Image or MOSS-Image changes.
Outcome frames_of_flavour(const Value& value, const Settings& all) {
  const auto flavour = lower(text_of(value));
  if (family(all) == "boogu_image") return flavour.starts_with("v0.1-edit") ? carried("edit_image") : left_out("");
  if (family(all) == "kandinsky5-image") return flavour.starts_with("i2i") ? carried("edit_image") : left_out("");
  if (family(all) == "moss_image") return flavour.ends_with("-edit") ? carried("edit_image") : left_out("");
  if (family(all) != "wan") return left_out("");
  if (flavour.starts_with("flf2v")) return carried("input_image,end_image");
  return flavour.starts_with("i2v") ? carried("input_image") : left_out("");
}

/// Rows of InfiniteTalk: what is added and what hears lie in repositories of their own, and clips are heard.
void talk_rows(Table& table) {
  auto of_talk = [](const char* ours, const std::function<Outcome(const Settings& all)>& outcome) {
    return rewritten("model_family", ours,
                     [=](const Value&, const Settings& all) { return family(all) == kTalk ? outcome(all) : left_out(""); });
  };
  table << of_talk("model",
                   [](const Settings& all) { return all.on("pretrained_model_name_or_path") ? left_out("") : carried(kPictureToVideo); });
  table << of_talk("model_id_with_origin_paths", [](const Settings&) {
    return carried(kAddedAndHearing, "files of the hub lie below models/, or where DIFFSYNTH_MODEL_BASE_PATH says");
  });
  table << of_talk("extra_inputs", [](const Settings&) {
    return carried("input_image", "the first frame has no noise and no loss here, as when drawing; there it has both");
  });
}

void model_rows(Table& table) {
  std::vector<std::string> known;
  for (const auto& [name, targets] : targets_by_kind()) known.push_back(name);
  table << kind_row("model_family", known);
  table << rewritten("pretrained_vae_model_name_or_path", "model", only(has_unet, same_value));
  table << rewritten("model_family", "max_sequence_length", [](const Value&, const Settings& all) {
    if (all.has("tokenizer_max_length")) return left_out("");
    if (family(all) == "sd3") return carried(154);
    if (family(all) == "boogu_image") return carried(1024);
    if (family(all) == "moss_image") return carried(4096);
    return family(all) == "kandinsky5-image" ? carried(256) : left_out("");
  });
  table << rewritten("model_flavour", "", published_model).otherwise("");
  table << rewritten("model_flavour", "is_distilled", distilled_flavour).otherwise("");
  table << rewritten("model_flavour", "experts", expert_of_flavour) << rewritten("model_flavour", "extra_inputs", frames_of_flavour);
  table << rewritten("mixed_precision", "dtype", [](const Value& value, const Settings& all) {
             const auto word = lower(text_of(value));
             return dtype_of_run(word == "no" || word == "fp32"     ? "fp32"
                                 : word == "bf16" || word == "fp16" ? word
                                                                    : "",
                                 !has_unet(all) || !has_adapter(all));
           }).otherwise("bf16");
  auto stored = [](const char* ours) {
    return [ours = std::string(ours)](const Value& value, const Settings& all) {
      const auto word = lower(text_of(value));
      const std::string format = word.starts_with("int8") || word.starts_with("uint8") ? "int8"
                                 : word.starts_with("fp8")                             ? "fp8"
                                 : word == "nf4-bnb"                                   ? "nf4"
                                                                                       : "";
      if (word == "no_change") return left_out("");
      if (format.empty()) return left_out("weights are held in int8, fp8 or nf4 (weight_format)");
      return ours == "fp8_models" ? carried(denoiser(all))
                                  : carried(format, "rows have scales of their own, whatever the library there has");
    };
  };
  table << rewritten("base_model_precision", "fp8_models", stored("fp8_models"), "no_change")
        << rewritten("base_model_precision", "weight_format", stored("weight_format"), "no_change");
  table << rewritten("prediction_type", "prediction_type", [](const Value& value, const Settings& all) {
    const auto word = lower(text_of(value));
    return has_unet(all) && (word == "epsilon" || word == "v_prediction") ? carried(word) : left_out("");
  });
  table << rewritten("rescale_betas_zero_snr", "zero_terminal_snr",
                     only(has_unet, [](const Value& value, const Settings&) { return if_on(value, true); }))
               .otherwise(false);
  table << rewritten("flux_guidance_value", "embedded_guidance", [](const Value& value, const Settings& all) {
             return family(all) == "flux" ? carried(value) : left_out("");
           }).otherwise(1.0);
}

/// Layers by the names of sets of them.
Outcome named_targets(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kSets{
      {"all", kAttention + "," + kAdded},
      {"context", kAdded},
      {"context+ffs", kAdded + "," + kAddedFeedForward},
      {"all+ffs", kAttention + "," + kAdded + "," + kFeedForward + ",proj_mlp,proj_out"},
      {"all+ffs+embedder", "x_embedder," + kAttention + "," + kAdded + "," + kFeedForward + ",proj_mlp,proj_out"},
      {"ai-toolkit", kAttention + "," + kAdded + "," + kFeedForward + ",norm.linear,norm1.linear,norm1_context.linear,proj_mlp,proj_out"}};
  if (!is_standard(all) || all.has("peft_lora_target_modules") || (family(all) != "flux" && family(all) != "chroma")) return left_out("");
  const auto set = kSets.find(lower(text_of(value)));
  return set == kSets.end() ? left_out("name its layers in lora_target_modules") : carried(set->second);
}

Outcome targets_of_kind(const Value& value, const Settings& all) {
  const auto kind = targets_by_kind().find(lower(text_of(value)));
  const bool is_decided = all.has("peft_lora_target_modules") || all.has("flux_lora_target");
  return !is_standard(all) || is_decided || kind == targets_by_kind().end() ? left_out("")
         : is_ltx(all)                                                      ? carried(ltx_targets(kind->second, all))
                                                                            : carried(kind->second);
}

void adapter_rows(Table& table) {
  table << rewritten("model_type", "trainable_models", [](const Value& value, const Settings& all) {
             const auto word = lower(text_of(value));
             return word == "full" ? carried(denoiser(all))
                                   : left_out(word == "lora" ? "" : "a run trains a model whole (full) or a LoRA on it (lora)");
           }).otherwise("full");
  table << rewritten("lora_type", "", [](const Value& value, const Settings& all) {
             const auto word = lower(text_of(value));
             return left_out(
                 !has_adapter(all) || word == "standard" || word == "lycoris" ? "" : "adapters here are lora, dora, loha, lokr and oft");
           }).otherwise("standard");
  table << rewritten("lora_rank", "lora_rank", only(is_standard, same_value)).otherwise(16);
  table << rewritten("lora_alpha", "lora_alpha", only(is_standard, same_value));
  table << rewritten("lora_dropout", "lora_dropout", only(is_standard, same_value)).otherwise(0.1);
  table << rewritten("use_dora", "lora_type", only(is_standard, [](const Value& value, const Settings&) { return if_on(value, "dora"); }))
               .otherwise(false);
  table << rewritten("flux_lora_target", "lora_target_modules", named_targets);
  table << rewritten("model_family", "lora_target_modules", targets_of_kind);
  table << rewritten("peft_lora_target_modules", "lora_target_modules", only(has_adapter, [](const Value& value, const Settings&) {
                       std::vector<std::string> names;
                       for (const auto& item : value.is_array() ? value : Value::array({value})) names.push_back(text_of(item));
                       return carried(join(names, ","));
                     }));
  table << rewritten("lora_format", "lora_format",
                     only(is_standard,
                          [](const Value& value, const Settings&) {
                            return lower(text_of(value)) == "diffusers"
                                       ? carried("diffusers")
                                       : left_out("burnish convert --lora_format comfyui writes those names");
                          }))
               .otherwise("diffusers");
  table << rewritten("assistant_lora_path", "preset_lora_path", [](const Value& value, const Settings& all) {
    const auto strength = all.text("assistant_lora_strength", "1.0");
    if (all.on("disable_assistant_lora") || !asks_for_something(value)) return left_out("");
    return carried(Value::array({text_of(value) + (number_of(strength) == 1.0 ? "" : ":" + strength)}),
                   "name the file, where it is an id on a hub");
  });
  table << rewritten("assistant_lora_inference_strength", "preview_with_presets", [](const Value& value, const Settings& all) {
             return all.on("assistant_lora_path") ? if_on(value, true) : left_out("");
           }).otherwise(0.0);
}

/// The rows of the file that lycoris_config names.
void lycoris_rows(Table& table) {
  table << rewritten("lycoris.algo", "lora_type", only(is_lycoris, [](const Value& value, const Settings&) {
                       const auto word = lower(text_of(value));
                       if (word == "lora" || word == "locon") return carried("lora");
                       if (word == "tlora") return carried("lora", "its factors begin as those of a LoRA, not as singular vectors");
                       return word == "lokr" || word == "loha" || word == "full"
                                  ? carried(word)
                                  : left_out("adapters here are lora, dora, loha, lokr and oft");
                     }));
  table << rewritten("lycoris.algo", "lora_format", only(is_lycoris, [](const Value&, const Settings&) { return carried("lycoris"); }));
  table << rewritten("lycoris.linear_dim", "lora_rank",
                     only(is_lycoris,
                          [](const Value& value, const Settings& all) {
                            const bool is_whole = all.on("lycoris.full_matrix") || number_of(value).value_or(0) >= 10000;
                            return is_whole ? carried(1000000) : carried(value);
                          }))
               .otherwise(4);
  table << rewritten("lycoris.linear_alpha", "lora_alpha",
                     only(is_lycoris, [](const Value& value,
                                         const Settings& all) { return all.on("lycoris.full_matrix") ? left_out("") : carried(value); }))
               .otherwise(1);
  table << rewritten("lycoris.factor", "lokr_factor", only(is_lycoris, [](const Value& value, const Settings& all) {
                       return lower(all.text("lycoris.algo")) == "lokr" ? carried(value) : left_out("");
                     }));
  const auto of_tlora = [](const Value& value, const Settings& all) {
    return lower(all.text("lycoris.algo")) == "tlora" ? carried(value) : left_out("");
  };
  table << rewritten("lycoris.tlora_min_rank", "tlora_min_rank", only(is_lycoris, of_tlora)).otherwise(1)
        << rewritten("lycoris.tlora_alpha", "tlora_alpha", only(is_lycoris, of_tlora)).otherwise(1.0);
  table << rewritten("lycoris.dropout", "lora_dropout", only(is_lycoris, same_value)).otherwise(0.0);
  table << rewritten("lycoris_config", "", [](const Value&, const Settings& all) {
             return left_out(
                 is_lycoris(all) && !all.has("lycoris.algo") ? "cannot be read from here; say lora_type, lora_rank and lora_alpha" : "");
           }).otherwise("config/lycoris_config.json");
}

void run_rows(Table& table) {
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing", [](const Value& value, const Settings&) {
             return carried(asks_for_something(value));
           }).otherwise(true);
  table << rewritten("report_to", "enable_tensorboard_log", [](const Value& value, const Settings&) {
             const auto word = lower(text_of(value));
             if (word == "none" || word.empty()) return left_out("");
             return word == "tensorboard" || word == "all" ? carried(true)
                                                           : left_out("nothing is sent elsewhere; the log is log.jsonl in the run folder");
           }).otherwise("none");
  table << rewritten("validation_prompt", "", [](const Value&, const Settings&) { return left_out(""); });
}

bool says_whole(const Settings& all) { return lower(all.text("model_type")) == "full"; }

Table table() {
  Table table;
  table << rows_in("simpletuner");
  model_rows(table);
  talk_rows(table);
  adapter_rows(table);
  lycoris_rows(table);
  optimizer_rows(table);
  schedule_rows(table);
  time_rows(table);
  loss_rows(table);
  h3_rows(table);
  ltx_rows(table);
  run_rows(table);
  simpletuner_data_rows(table);
  return table;
}

}  // namespace

}  // namespace burnish::foreign::of_simpletuner

namespace burnish::foreign {

Program simpletuner() {
  using namespace of_simpletuner;
  return {"simpletuner", "SimpleTuner", recognises, arrange, table, nullptr, says_whole};
}

}  // namespace burnish::foreign
