#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "foreign/program.h"
#include "foreign/prompts.h"
#include "foreign/simpletuner_data.h"

// Names and defaults: the fields of simpletuner_sdk/server/services/field_registry and helpers/models/field_registry, env_file.py,
// optimizer_param.py, custom_schedule.py, and DEFAULT_LORA_TARGET of helpers/models of SimpleTuner 4.10.1.
namespace burnish::foreign {

namespace of_simpletuner {
namespace {

const std::string kAttention = "to_k,to_q,to_v,to_out.0", kAdded = "add_k_proj,add_q_proj,add_v_proj,to_add_out",
                  kAddedFeedForward = "ff_context.net.0.proj,ff_context.net.2",
                  kFeedForward = "ff.net.0.proj,ff.net.2," + kAddedFeedForward;

/// The layers that LoRAs of a kind of model adapt.
const std::map<std::string, std::string>& targets_by_kind() {
  static const std::map<std::string, std::string> kTargets{{"sd1x", kAttention},
                                                           {"sdxl", kAttention},
                                                           {"flux", kAttention + "," + kAdded},
                                                           {"chroma", kAttention + "," + kAdded},
                                                           {"flux2", "attn.to_q,attn.to_k,attn.to_v,attn.to_out.0,attn.to_qkv_mlp_proj"},
                                                           {"flux3_image", "attn.to_q,attn.to_k,attn.to_v,attn.to_out.0"},
                                                           {"ideogram", "qkv,o,w1,w2,w3"},
                                                           {"qwen_image", kAttention},
                                                           {"z_image", kAttention},
                                                           {"krea2", kAttention},
                                                           {"anima", kAttention},
                                                           {"ernie", kAttention},
                                                           {"wan", kAttention}};
  return kTargets;
}

std::string family(const Settings& all) { return lower(all.text("model_family")); }
bool has_unet(const Settings& all) { return family(all) == "sdxl" || family(all) == "sd1x"; }
std::string denoiser(const Settings& all) { return has_unet(all) ? "unet" : "dit"; }
bool has_adapter(const Settings& all) { return lower(all.text("model_type", "full")) == "lora"; }
bool is_lycoris(const Settings& all) { return has_adapter(all) && lower(all.text("lora_type", "standard")) == "lycoris"; }
bool is_standard(const Settings& all) { return has_adapter(all) && !is_lycoris(all) && !all.has("init_lora"); }

Outcome same_value(const Value& value, const Settings&) { return carried(value); }
Convert only(bool (*when)(const Settings&), Convert convert) {
  return [when, convert](const Value& value, const Settings& all) { return when(all) ? convert(value, all) : left_out(""); };
}
Outcome if_on(const Value& value, const Value& ours) { return asks_for_something(value) ? carried(ours) : left_out(""); }

/// A flavour, or none, stands for a model on a hub where no file or id is given.
Outcome published_model(const Value& value, const Settings& all) {
  const bool is_asked = targets_by_kind().contains(family(all)) && !all.on("pretrained_model_name_or_path");
  return left_out(is_asked ? fmt::format("name the model of {} with --model, by its folder or its id on a hub",
                                         asks_for_something(value) ? "this flavour" : "the flavour that is taken by itself")
                           : "");
}

void model_rows(Table& table) {
  std::vector<std::string> known;
  for (const auto& [name, targets] : targets_by_kind()) known.push_back(name);
  table << kind_row("model_family", known);
  // Of two files that hold a part, the one named first is used.
  for (const char* name : {"pretrained_transformer_model_name_or_path", "pretrained_unet_model_name_or_path",
                           "pretrained_model_name_or_path", "qwen_text_encoder_model_name_or_path", "pretrained_t5_model_name_or_path"})
    table << same(name, "model");
  table << rewritten("pretrained_vae_model_name_or_path", "model", only(has_unet, same_value));
  table << rewritten("model_flavour", "", published_model).otherwise("");
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
  for (int i = 1; i <= 4; ++i)
    table << no_place({{fmt::format("text_encoder_{}_precision", i), "no_change"}},
                      "text encoders that are frozen run once; fp8_models may name them too");
  table << no_place({"quantization_config"}, "weight_format is one for what fp8_models names");
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
  table << no_place({{"flux_guidance_mode", "constant"},
                     {"flux_guidance_min", 0.0},
                     {"flux_guidance_max", 4.0},
                     {"flux_attention_masked_training", false}},
                    "one guidance value is given to the model (embedded_guidance), and all tokens of a text are seen");
  table << rewritten("vae_enable_tiling", "vae_tile_size", [](const Value& value, const Settings&) {
             return if_on(value, 512);
           }).otherwise(false);
  table << same("tokenizer_max_length", "max_sequence_length");
  table << no_place({{"controlnet", false}, "controlnet_model_name_or_path", "controlnet_custom_config", {"control", false}},
                    "ControlNets train by trainable_models and extra_inputs (docs/train.md)");
  table << no_place({"tread_config", "diffusion_blocks_config", {"train_text_encoder", false}, {"text_encoder_lr", nullptr}},
                    "lora_base_model and trainable_models say what trains, and all of it trains at every step");
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
  return !is_standard(all) || is_decided || kind == targets_by_kind().end() ? left_out("") : carried(kind->second);
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
  table << same("init_lora", "lora_checkpoint");
  table << rewritten("lora_format", "lora_format",
                     only(is_standard,
                          [](const Value& value, const Settings&) {
                            return lower(text_of(value)) == "diffusers"
                                       ? carried("diffusers")
                                       : left_out("burnish convert --lora_format comfyui writes those names");
                          }))
               .otherwise("diffusers");
  table << no_place({{"lora_init_type", "default"},
                     {"peft_lora_mode", "standard"},
                     {"singlora_ramp_up_steps", 0},
                     {"slider_lora_target", false},
                     "init_lora_step",
                     "init_lora_ema",
                     "init_lokr_norm"},
                    "a fresh adapter adds nothing, and starts as peft's do by themselves");
  table << rewritten("assistant_lora_path", "preset_lora_path", [](const Value& value, const Settings& all) {
    const auto strength = all.text("assistant_lora_strength", "1.0");
    if (all.on("disable_assistant_lora") || !asks_for_something(value)) return left_out("");
    return carried(Value::array({text_of(value) + (number_of(strength) == 1.0 ? "" : ":" + strength)}),
                   "name the file, where it is an id on a hub");
  });
  table << looked_at({{"assistant_lora_strength", 1.0}, {"disable_assistant_lora", false}});
  table << rewritten("assistant_lora_inference_strength", "preview_with_presets", [](const Value& value, const Settings& all) {
             return all.on("assistant_lora_path") ? if_on(value, true) : left_out("");
           }).otherwise(0.0);
}

/// What the file of lycoris_config says.
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
  table << looked_at({{"lycoris.full_matrix", false}, {"lycoris.multiplier", 1.0}});
  table << no_place({"lycoris.apply_preset", "lycoris.apply_preset.*"},
                    "modules by their classes, and numbers of their own: name layers in lora_target_modules, ranks in lora_rank_groups")
        << no_place({"lycoris", "lycoris.*"}, "no option of the adapters here");
  table << rewritten("lycoris_config", "", [](const Value&, const Settings& all) {
             return left_out(
                 is_lycoris(all) && !all.has("lycoris.algo") ? "cannot be read from here; say lora_type, lora_rank and lora_alpha" : "");
           }).otherwise("config/lycoris_config.json");
}

/// An optimizer of ours, with what theirs takes where nothing is given.
struct Theirs {
  std::string ours, betas, eps;
  double weight_decay = 0.01;
};

const std::map<std::string, Theirs>& optimizers() {
  static const std::map<std::string, Theirs> kOptimizers{
      {"adamw_bf16", {"adamw", "", "1e-6"}},
      {"torch-adamw", {"adamw", "", ""}},
      {"optimi-adamw", {"adamw", "0.9,0.99", "1e-6", 0.0}},
      {"bnb-adamw", {"adamw", "", "1e-6"}},
      {"bnb-adamw-paged", {"adamw", "", "1e-6"}},
      {"bnb-adamw8bit", {"adamw8bit", "", "1e-6"}},
      {"bnb-adamw8bit-paged", {"adamw8bit", "", "1e-6"}},
      {"ao-adamw8bit", {"adamw8bit", "", "1e-6"}},
      {"optimi-lion", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion-paged", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion8bit", {"lion", "0.9,0.99", "", 0.0}},
      {"bnb-lion8bit-paged", {"lion", "0.9,0.99", "", 0.0}},
      {"adamw_schedulefree", {"adamw_schedulefree", "0.9,0.999", ""}},
      {"adamw_schedulefree+aggressive", {"adamw_schedulefree", "0.9,0.999", "1e-6", 0.001}},
      {"adamw_schedulefree+no_kahan", {"adamw_schedulefree", "0.9,0.999", "1e-6", 0.001}},
      {"prodigy", {"prodigy_schedulefree", "0.9,0.99", "", 0.0}}};
  return kOptimizers;
}

const Theirs* theirs(const Settings& all) {
  auto it = optimizers().find(lower(all.text("optimizer", "adamw_bf16")));
  return it == optimizers().end() ? nullptr : &it->second;
}
std::string optimizer_of(const Settings& all) { return theirs(all) == nullptr ? "" : theirs(all)->ours; }

Outcome numbers(const Value&, const Settings& all) {
  if (theirs(all) == nullptr) return left_out("");
  std::map<std::string, std::string> others;
  const bool has_betas = all.has("optimizer_beta1") && all.has("optimizer_beta2");
  if (has_betas) others["betas"] = all.text("optimizer_beta1") + "," + all.text("optimizer_beta2");
  else if (!theirs(all)->betas.empty()) others["betas"] = theirs(all)->betas;
  if (!theirs(all)->eps.empty()) others["eps"] = theirs(all)->eps;
  return optimizer_numbers(optimizer_of(all), "optimizer_numbers.", all, others);
}

bool clips_norms(const Settings& all) { return lower(all.text("grad_clip_method", "value")) == "norm"; }

void optimizer_rows(Table& table) {
  table << rewritten("optimizer", "optimizer", [](const Value& value, const Settings& all) {
             if (theirs(all) == nullptr) return left_out(kNoOptimizer);
             const bool is_lion8 = text_of(value).find("lion8") != std::string::npos;
             return carried(optimizer_of(all), is_lion8 ? "its states are whole numbers here, of eight bits there" : "");
           }).otherwise("adamw_bf16");
  table << rewritten("optimizer", "optimizer_args", numbers).otherwise("adamw_bf16");
  table << rewritten("optimizer", "weight_decay", [](const Value&, const Settings& all) {
             if (theirs(all) == nullptr) return left_out("");
             const auto* given = all.find("optimizer_numbers.weight_decay");
             return carried(given ? *given : Value(theirs(all)->weight_decay));
           }).otherwise("adamw_bf16");
  table << looked_at({"optimizer_beta1", "optimizer_beta2", "optimizer_numbers.weight_decay"});
  table << optimizer_number_rows("optimizer_numbers.", optimizer_of);
  table << no_place({"optimizer_config"}, "expected name=value, with commas between")
        << no_place({"optimizer_numbers.*"}, "no number of the optimizers here");
  table << rewritten("learning_rate", "learning_rate", of_optimizer(optimizer_of, same_value)).otherwise(4e-7);
  table << rewritten("max_grad_norm", "max_grad_norm", [](const Value& value, const Settings& all) {
             if (optimizer_of(all) == "prodigy_schedulefree" || !asks_for_something(value)) return left_out("");
             return clips_norms(all) ? carried(value)
                                     : left_out(
                                           "grad_clip_method value, which it takes by itself, holds every number of a gradient within it; "
                                           "here max_grad_norm clips the norm of all");
           }).otherwise(2.0);
  table << rewritten("grad_clip_method", "", [](const Value& value, const Settings&) {
             const auto word = lower(text_of(value));
             return left_out(word == "norm" || word == "value" ? "" : "no such way to clip gradients");
           }).otherwise("value");
  table << needless({{"adam_beta1", 0.9}, {"adam_beta2", 0.999}, {"adam_weight_decay", 0.01}, {"adam_epsilon", 1e-8}},
                    "DeepSpeed alone reads it there; optimizer_config says the optimizer's numbers")
        << needless({{"fuse_optimizer", false}, "gradient_precision", {"optimizer_offload_gradients", false}, {"set_grads_to_none", false}},
                    "says how the same is computed");
  table << rewritten("optimizer_release_gradients", "fused_backward_pass", [](const Value& value, const Settings&) {
             return if_on(value, true);
           }).otherwise(false);
  table << rewritten("optimizer_cpu_offload_method", "enable_optimizer_cpu_offload",
                     [](const Value& value, const Settings&) { return if_on(value, true); });
  table << no_place({"prodigy_steps"}, "the rate is found at every step");
}

std::string schedule_of(const Settings& all) { return lower(all.text("lr_scheduler", "constant_with_warmup")); }
bool is_wave(const std::string& schedule) { return schedule == "cosine" || schedule == "sine" || schedule == "cosine_with_restarts"; }

/// Its cosine has no warm-up: lr_warmup_steps is the time in which it falls once, behind which it rises again. So it is a run's only where
/// the two are as long.
Outcome schedule(const Value&, const Settings& all) {
  static const std::map<std::string, std::string> kSchedules{
      {"constant", "constant"}, {"constant_with_warmup", "constant"}, {"linear", "linear"}, {"polynomial", "polynomial"}};
  const auto word = schedule_of(all);
  if (auto it = kSchedules.find(word); it != kSchedules.end()) return carried(it->second);
  if (!is_wave(word)) return left_out("no such schedule: the rate stays constant");
  const auto fall = all.number("lr_warmup_steps").value_or(0);
  if (word == "cosine" && fall > 0 && fall == all.number("max_train_steps")) return carried("cosine");
  return left_out(
      fmt::format("there it falls over lr_warmup_steps, {} steps, and begins again; here a cosine falls over the whole run, and the rate "
                  "stays constant",
                  fall > 0 ? fall : 1000.0));
}

Outcome end_of_schedule(const Value& value, const Settings& all) {
  const auto rate = all.number("learning_rate").value_or(4e-7), end = number_of(value).value_or(0);
  const bool falls =
      schedule_of(all) == "polynomial" || (schedule_of(all) == "cosine" && all.number("lr_warmup_steps") == all.number("max_train_steps"));
  return falls && end > 0 && rate > end ? carried(end / rate) : left_out("");
}

void schedule_rows(Table& table) {
  table << rewritten("lr_scheduler", "lr_scheduler", schedule).otherwise("constant_with_warmup");
  table << rewritten("lr_warmup_steps", "lr_warmup_steps", [](const Value& value, const Settings& all) {
             const auto word = schedule_of(all);
             return is_wave(word) || word == "constant" ? left_out("") : carried(value, note_on_warmup(number_of(value).value_or(0)));
           }).otherwise(0);
  table << rewritten("lr_end", "lr_scheduler_min_lr_ratio", end_of_schedule).otherwise(4e-7);
  table << rewritten("lr_power", "lr_scheduler_power", [](const Value& value, const Settings& all) {
             return schedule_of(all) == "polynomial" ? carried(value) : left_out("");
           }).otherwise(0.8);
  table << needless({{"lr_num_cycles", 1}}, "its own schedules do not read it");
  table << no_place({{"lr_scale", false}, {"lr_scale_sqrt", false}}, "say the rate as it is to be");
  table << same("max_train_steps", "max_steps");
  table << rewritten("num_train_epochs", "num_epochs", [](const Value& value, const Settings& all) {
             return all.on("max_train_steps") || !asks_for_something(value) ? left_out("") : carried(value);
           }).otherwise(1);
  table << same("train_batch_size", "batch_size").otherwise(4);
  table << rewritten("gradient_accumulation_steps", "gradient_accumulation_steps", accumulated).otherwise(1);
  table << same("seed", "seed") << rewritten("caption_dropout_probability", "caption_dropout", same_value);
  table << rewritten("use_ema", "ema_decay", [](const Value& value, const Settings& all) {
             return asks_for_something(value) ? carried(all.number("ema_decay").value_or(0.995)) : left_out("");
           }).otherwise(false);
  table << looked_at({{"ema_decay", 0.995}})
        << no_place({{"ema_update_interval", 1}, {"ema_warmup_steps", 0}}, "the average takes every step from the first on")
        << needless({{"ema_device", "cpu"}, {"ema_cpu_only", false}, {"ema_foreach_disable", false}, {"ema_validation", "comparison"}},
                    "says how the same is computed");
}

/// Static, by the picture's size, or none, where both are given by size.
double shift_of(const Settings& all) {
  if (family(all) == "flux3_image") return 6.93;
  return all.on("flow_schedule_auto_shift") ? 0 : std::max(0.0, all.number("flow_schedule_shift").value_or(3));
}

Outcome sampling(const Value&, const Settings& all) {
  if (has_unet(all) || family(all).empty()) return left_out("");
  if (family(all) == "ideogram") return carried("ideogram4_shift");
  const bool by_size = all.on("flow_schedule_auto_shift") && family(all) != "flux3_image", is_uniform = all.on("flow_use_uniform_schedule");
  if (is_uniform && by_size) return left_out("uniform draws are shifted by one number here (discrete_flow_shift)");
  if (is_uniform) return shift_of(all) > 0 ? carried("sigma", "in 1000 levels") : carried("uniform");
  if (by_size) return carried(family(all) == "qwen_image" ? "qwen_shift" : "flux_shift");
  return carried(shift_of(all) > 0 ? "shift" : "sigmoid");
}

void time_rows(Table& table) {
  table << rewritten("model_family", "timestep_sampling", sampling);
  table << looked_at({{"flow_use_uniform_schedule", false}, {"flow_schedule_auto_shift", false}});
  table << rewritten("flow_schedule_shift", "discrete_flow_shift", [](const Value&, const Settings& all) {
             const bool counts = !has_unet(all) && !family(all).empty() && family(all) != "ideogram" && shift_of(all) > 0;
             return counts ? carried(shift_of(all)) : left_out("");
           }).otherwise(3.0);
  table << rewritten("flow_sigmoid_scale", "sigmoid_scale", [](const Value& value, const Settings& all) {
             return has_unet(all) || family(all) == "ideogram" || all.on("flow_use_uniform_schedule") ? left_out("") : carried(value);
           }).otherwise(1.0);
  table << no_place({{"flow_use_beta_schedule", false},
                     "flow_cubic_schedule_weights",
                     "flow_custom_timesteps",
                     {"flux_fast_schedule", false},
                     {"mixflow_enabled", false},
                     "timestep_bias_strategy",
                     {"ideogram_schedule_mu", 0.0},
                     {"ideogram_schedule_std", 1.5}},
                    "no such distribution of times here; timestep_sampling lists those there are");
  table << looked_at({{"flow_beta_schedule_alpha", 2.0},
                      {"flow_beta_schedule_beta", 2.0},
                      {"flow_timesteps_mode", "fixed-list"},
                      {"mixflow_gamma", 0.8},
                      {"timestep_bias_begin", 0},
                      {"timestep_bias_end", 1000},
                      {"timestep_bias_multiplier", 1.0},
                      {"timestep_bias_portion", 0.25}});
  table << needless({{"disable_segmented_timestep_sampling", false}, {"training_scheduler_timestep_spacing", "trailing"}},
                    "times of samples are drawn one by one, of the same distribution");
}

void loss_rows(Table& table) {
  table << rewritten("model_family", "loss_weighting", [](const Value&, const Settings&) { return carried("uniform"); });
  table << words("loss_type", "loss_type", {{"l2", "l2"}, {"huber", "huber"}, {"smooth_l1", "smooth_l1"}}, "no such loss", "l2");
  auto of_robust = [](const Value& value, const Settings& all) {
    const auto type = lower(all.text("loss_type", "l2"));
    return type == "huber" || type == "smooth_l1" ? carried(value) : left_out("");
  };
  table << rewritten("huber_schedule", "huber_schedule", of_robust, "snr") << rewritten("huber_c", "huber_c", of_robust, 0.1);
  table << rewritten("snr_gamma", "min_snr_gamma", only(has_unet, same_value));
  table << rewritten("offset_noise", "noise_offset",
                     only(has_unet,
                          [](const Value& value, const Settings& all) {
                            if (!asks_for_something(value)) return left_out("");
                            const auto share = all.number("noise_offset_probability").value_or(0.25);
                            return carried(all.number("noise_offset").value_or(0.1),
                                           share < 1 ? "of every batch here, of a share of them there (noise_offset_probability)" : "");
                          }))
               .otherwise(false);
  table << looked_at({{"noise_offset", 0.1}, {"noise_offset_probability", 0.25}, {"soft_min_snr_sigma_data", nullptr}});
  table << no_place({{"use_soft_min_snr", false},
                     {"snr_weight", 1.0},
                     {"input_perturbation", 0.0},
                     {"input_perturbation_steps", 0},
                     {"masked_loss_probability", 1.0}},
                    "no such weight of the loss here");
  table << no_place({{"crepa_enabled", false},
                     {"urepa_enabled", false},
                     {"irepa_enabled", false},
                     {"layersync_enabled", false},
                     {"twinflow_enabled", false},
                     {"nextlat_enabled", false},
                     {"xm_enabled", false},
                     {"internal_guidance_enabled", false},
                     "distillation_method",
                     "distillation_config",
                     {"diff2flow_enabled", false},
                     {"scheduled_sampling_max_step_offset", 0},
                     {"refiner_training", false}},
                    "no such objective here");
}

void run_rows(Table& table) {
  table << same("output_dir", "output_path").otherwise("simpletuner-results");
  table << same("checkpoint_step_interval", "save_steps").otherwise(500) << same("checkpoint_epoch_interval", "save_epochs");
  table << same("checkpoints_total_limit", "keep_last").otherwise(5);
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing", [](const Value& value, const Settings&) {
             return carried(asks_for_something(value));
           }).otherwise(true);
  table << same("gradient_checkpointing_interval", "gradient_checkpointing_interval")
        << same("musubi_blocks_to_swap", "blocks_to_swap").otherwise(0);
  table << same("feed_forward_chunk_size", "feed_forward_chunk_size") << looked_at({{"enable_chunked_feed_forward", false}});
  table << rewritten("report_to", "enable_tensorboard_log", [](const Value& value, const Settings&) {
             const auto word = lower(text_of(value));
             if (word == "none" || word.empty()) return left_out("");
             return word == "tensorboard" || word == "all" ? carried(true)
                                                           : left_out("nothing is sent elsewhere; the log is log.jsonl in the run folder");
           }).otherwise("none");
  table << same("preview_steps", "preview_steps");
  table << rewritten("validation_prompt", "", [](const Value&, const Settings&) { return left_out(""); });
  table << looked_at({{"validation_step_interval", 100},
                      {"validation_guidance", 7.5},
                      {"validation_guidance_real", 1.0},
                      {"validation_num_inference_steps", 30},
                      {"validation_negative_prompt", "blurry, cropped, ugly"},
                      "validation_seed",
                      {"validation_resolution", "256"},
                      {"validation_disable", false},
                      "validation_num_video_frames",
                      {"validation_disable_unconditional", false}});
  table << no_place({"user_prompt_library"}, "cannot be read from here; name a file with a prompt a line in preview_prompts")
        << no_place({{"validation_prompt_library", false}}, "its prompts are its own; name a file with a prompt a line in preview_prompts")
        << no_place(
               {"eval_dataset_id", "eval_steps_interval", "eval_epoch_interval", "validation_epoch_interval", "validation_using_datasets"},
               "name held-out samples in validation_metadata_path");
  table << no_place({{"resume_from_checkpoint", "latest"}},
                    "states of other programs are not read; auto_resume goes on with a run of burnish");
  // What all datasets have: each takes it where it does not say it.
  table << looked_at({{"resolution", 1024},
                      {"resolution_type", "pixel_area"},
                      {"caption_strategy", "filename"},
                      "instance_prompt",
                      {"prepend_instance_prompt", false},
                      {"only_instance_prompt", false},
                      "minimum_image_size",
                      "maximum_image_size",
                      "target_downsample_size",
                      {"aspect_bucket_alignment", 64},
                      {"disable_multiline_split", false}});
  table << no_place({"data_backend_config"}, "cannot be read from here; name the folder of pictures in dataset_metadata_path");
}

Table table() {
  Table table;
  model_rows(table);
  adapter_rows(table);
  lycoris_rows(table);
  optimizer_rows(table);
  schedule_rows(table);
  time_rows(table);
  loss_rows(table);
  run_rows(table);
  simpletuner_data_rows(table);
  simpletuner_further_rows(table);
  return table;
}

/// Names in config.env that are not the options' own in capitals.
const std::map<std::string, std::string> kOfEnvironment{{"RESUME_CHECKPOINT", "resume_from_checkpoint"},
                                                        {"DATALOADER_CONFIG", "data_backend_config"},
                                                        {"TRAINING_SEED", "seed"},
                                                        {"MINIMUM_RESOLUTION", "minimum_image_size"},
                                                        {"MAX_NUM_STEPS", "max_train_steps"},
                                                        {"NUM_EPOCHS", "num_train_epochs"},
                                                        {"CHECKPOINTING_STEPS", "checkpoint_step_interval"},
                                                        {"CHECKPOINTING_LIMIT", "checkpoints_total_limit"},
                                                        {"HUB_MODEL_NAME", "hub_model_id"},
                                                        {"MODEL_NAME", "pretrained_model_name_or_path"},
                                                        {"USE_GRADIENT_CHECKPOINTING", "gradient_checkpointing"},
                                                        {"LR_SCHEDULE", "lr_scheduler"},
                                                        {"VALIDATION_STEPS", "validation_step_interval"},
                                                        {"PUSH_CHECKPOINTS", "push_checkpoints_to_hub"},
                                                        {"TRAINING_NUM_PROCESSES", "num_processes"},
                                                        {"TRAINING_NUM_MACHINES", "num_machines"},
                                                        {"TRAINING_DYNAMO_BACKEND", "dynamo_backend"},
                                                        {"TRAINER_DYNAMO_BACKEND", "dynamo_backend"}};
/// Options that were called otherwise before.
const std::map<std::string, std::string> kOlderNames{{"checkpointing_steps", "checkpoint_step_interval"},
                                                     {"validation_steps", "validation_step_interval"}};

/// The settings by the options' own names, whether they had their dashes or were the environment's.
Value by_option(const Value& tree) {
  auto options = Value::object();
  for (const auto& [key, value] : tree.items()) {
    auto name = key.substr(std::min(key.size(), key.find_first_not_of('-')));
    if (name == "TRAINER_EXTRA_ARGS") {
      options.update(parse_command_line(text_of(value)));
      continue;
    }
    if (auto it = kOfEnvironment.find(name); it != kOfEnvironment.end()) name = it->second;
    name = lower(name);
    if (auto it = kOlderNames.find(name); it != kOlderNames.end()) name = it->second;
    options[name] = value;
  }
  return options;
}

bool recognises(const Value& tree) {
  if (is_simpletuner_data(tree)) return true;
  const auto has = [&](const char* name) { return tree.is_object() && tree.contains(name); };
  return has("model_family") || has("--model_family") || has("MODEL_FAMILY") || has("data_backend_config") ||
         has("--data_backend_config") || has("DATALOADER_CONFIG");
}

/// "1024x768" or "1024", of several the first.
std::vector<int64_t> sides_of_preview(std::string text) {
  text = text.substr(0, text.find(','));
  std::ranges::replace(text, 'x', ',');
  return sides_of(text);
}

PromptLine line_of(const std::string& prompt, const Settings& all) {
  PromptLine line{.prompt = prompt};
  const auto sides = sides_of_preview(all.text("validation_resolution", "256"));
  if (!sides.empty()) line.width = sides[0], line.height = sides[1];
  line.steps = static_cast<int64_t>(all.number("validation_num_inference_steps").value_or(30));
  if (auto seed = all.number("validation_seed")) line.seed = static_cast<int64_t>(*seed);
  const bool embeds = family(all) == "flux";
  line.guidance = embeds ? all.number("validation_guidance_real").value_or(1.0) : all.number("validation_guidance").value_or(7.5);
  if (number_of(line.guidance) > 1.0) line.negative = all.text("validation_negative_prompt", "blurry, cropped, ugly");
  if (auto frames = all.number("validation_num_video_frames")) line.frames = static_cast<int64_t>(*frames);
  return line;
}

void put_prompts(Arranged& arranged, const Open& open) {
  const Settings all(arranged.tree);
  if (all.on("validation_disable")) return;
  std::vector<PromptLine> lines;
  if (all.on("validation_prompt")) lines.push_back(line_of(all.text("validation_prompt"), all));
  if (const auto library = all.on("user_prompt_library") ? open(all.text("user_prompt_library")) : Value(); library.is_object()) {
    for (const auto& [name, prompt] : library.items()) {
      const auto& text = prompt.is_object() ? prompt.value("prompt", Value()) : prompt;
      if (text.is_string()) lines.push_back(line_of(text.get<std::string>(), all));
    }
    arranged.tree.erase("user_prompt_library");
  }
  if (lines.empty()) return;
  arranged.prompts_from = "validation_prompt";
  put_lines(lines, arranged);
  arranged.tree["preview_steps"] = static_cast<int64_t>(std::max(0.0, all.number("validation_step_interval").value_or(100)));
}

Arranged arrange(Value tree, const Open& open) {
  if (tree.is_array()) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    put_simpletuner_datasets(tree, arranged);
    return arranged;
  }
  Arranged arranged{.tree = by_option(tree)};
  auto& options = arranged.tree;
  if (options.contains("optimizer_config") && asks_for_something(options["optimizer_config"])) {
    options["optimizer_numbers"] = named_arguments(Value(split_list(text_of(options["optimizer_config"]))));
    options.erase("optimizer_config");
  }
  const auto lycoris = text_of(options.value("lycoris_config", Value("config/lycoris_config.json")));
  if (lower(text_of(options.value("lora_type", Value()))) == "lycoris") {
    if (auto file = open(lycoris); file.is_object()) options["lycoris"] = file;
  }
  put_prompts(arranged, open);
  if (auto list = open(text_of(options.value("data_backend_config", Value("")))); is_simpletuner_data(list)) {
    options.erase("data_backend_config");
    put_simpletuner_datasets(list, arranged);
  }
  return arranged;
}

}  // namespace
}  // namespace of_simpletuner

Program simpletuner() {
  using namespace of_simpletuner;
  return {"simpletuner", "SimpleTuner", recognises, arrange, table};
}

}  // namespace burnish::foreign
