#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/program.h"
#include "foreign/prompts.h"
#include "foreign/row_files.h"

// Names and defaults: examples/dreambooth/train_dreambooth*.py and examples/textual_inversion/textual_inversion*.py of diffusers.
namespace burnish::foreign {

namespace of_diffusers {
namespace {

std::string script(const Settings& all) { return all.text("script"); }
bool has(const Settings& all, const char* word) { return script(all).find(word) != std::string::npos; }
bool is_inversion(const Settings& all) { return has(all, "textual_inversion"); }
bool trains_whole(const Settings& all) { return !has(all, "_lora") && !is_inversion(all); }
bool flows(const Settings& all) { return has(all, "flux") || has(all, "qwen") || has(all, "z_image"); }
bool has_clip_beside_t5(const Settings& all) { return has(all, "flux") && !has(all, "flux2"); }
bool is_told_guidance(const Settings& all) { return has(all, "flux") && !has(all, "klein"); }
bool has_adapter(const Settings& all) { return !trains_whole(all) && !is_inversion(all); }
bool is_xl(const Settings& all) { return has(all, "sdxl"); }

std::string trained_parts(const Settings& all) {
  std::string parts = flows(all) ? "dit" : "unet";
  if (all.on("train_text_encoder")) parts += is_xl(all) ? ",text_encoder,text_encoder_2" : ",text_encoder";
  return parts;
}

std::string optimizer_of(const Settings& all) {
  auto name = lower(all.text("optimizer", "AdamW"));
  if (name == "prodigy") return "prodigy";
  return name == "adamw" ? (all.on("use_8bit_adam") ? "adamw8bit" : "adamw") : "";
}

/// Values that differ from one of its scripts to the next.
Outcome when_absent(const Settings& all, const char* name, const Value& given, const Value& otherwise) {
  return carried(all.has(name) ? given : otherwise);
}

Outcome rate(const Value& value, const Settings& all) {
  bool is_lora_of_sd = script(all) == "train_dreambooth_lora.py", is_whole_sd = script(all) == "train_dreambooth.py";
  double number = number_of(value).value_or(0), factor = 1;
  if (!all.has("learning_rate")) number = is_lora_of_sd ? 5e-4 : is_whole_sd ? 5e-6 : 1e-4;
  if (all.on("scale_lr"))
    factor = all.number("gradient_accumulation_steps").value_or(1) * all.number("train_batch_size").value_or(is_inversion(all) ? 16 : 4);
  return carried(number * factor, factor == 1 ? "" : fmt::format("times {:g}, by scale_lr, for one process", factor));
}

Outcome encoder_rate(const Value& value, const Settings& all) {
  bool has_own = has_clip_beside_t5(all) || is_xl(all);
  return all.on("train_text_encoder") && has_own ? carried(value) : left_out("");
}

Outcome decay(const Value& value, const Settings& all) {
  bool of_sd = script(all) == "train_dreambooth_lora.py" || script(all) == "train_dreambooth.py" || is_inversion(all);
  return when_absent(all, "adam_weight_decay", value, of_sd ? 1e-2 : 1e-4);
}

Outcome size(const Value& value, const Settings& all) {
  auto side = when_absent(all, "resolution", value, is_xl(all) ? 1024 : 512);
  return carried(text_of(*side.value));
}

std::string schedule_of(const Settings& all) { return lower(all.text("lr_scheduler", "constant")); }

Outcome schedule(const Value& value, const Settings&) {
  static const std::map<std::string, std::string> kSchedules{
      {"constant", "constant"}, {"constant_with_warmup", "constant"}, {"linear", "linear"},
      {"cosine", "cosine"},     {"polynomial", "polynomial"},         {"cosine_with_restarts", "cosine_with_restarts"}};
  auto it = kSchedules.find(lower(text_of(value)));
  return it == kSchedules.end() ? left_out("no such schedule: the rate stays constant") : carried(it->second);
}

Outcome warmup(const Value& value, const Settings& all) {
  auto steps = number_of(value).value_or(0);
  return schedule_of(all) == "constant" ? left_out("") : carried(value, note_on_warmup(steps));
}

Convert of_schedule(const char* schedule, Convert convert) {
  return [schedule = std::string(schedule), convert](const Value& value, const Settings& all) {
    return schedule_of(all) == schedule ? convert(value, all) : left_out("");
  };
}

Outcome weighting(const Value& value, const Settings&) {
  auto scheme = text_of(value);
  return carried(scheme == "sigma_sqrt" || scheme == "cosmap" ? Value(scheme) : Value("uniform"));
}

/// Timesteps are drawn by the scheme; those that weigh losses draw them evenly over the model's own grid.
Outcome sampling(const Value& value, const Settings& all) {
  if (!flows(all)) return left_out("");
  auto scheme = text_of(value);
  return carried(scheme == "logit_normal" || scheme == "mode" ? Value(scheme) : Value("sigma"));
}

bool recognises(const Value& tree) {
  if (!tree.is_object()) return false;
  auto name = text_of(tree.value("script", Value("")));
  return name.starts_with("train_dreambooth") || name.starts_with("train_text_to_image") || name.starts_with("textual_inversion");
}

bool may_be(const Value& tree) {
  if (!tree.is_object()) return false;
  return tree.contains("placeholder_token") || tree.contains("instance_data_dir") || tree.contains("instance_prompt");
}

/// Its scripts train a model itself, a LoRA or a word, as their names say.
bool says_whole(const Settings& all) { return trains_whole(all); }

Arranged arrange(Value tree, const Open&) {
  Arranged arranged{.tree = tree};
  if (!tree.contains("script"))
    arranged.tree["script"] = tree.contains("placeholder_token") ? "textual_inversion.py" : "train_dreambooth_lora.py";
  arranged.prompts_from = "validation_prompt";
  if (tree.contains("validation_prompt")) put_lines({{.prompt = text_of(tree["validation_prompt"])}}, arranged);
  if (!tree.contains("mixed_precision") && tree.contains("launch") && tree["launch"].contains("mixed_precision"))
    arranged.tree["mixed_precision"] = tree["launch"]["mixed_precision"];
  return arranged;
}

void model_rows(Table& table) {
  table << kind_row(
      "script", {"train_dreambooth.py", "train_dreambooth_lora.py", "train_dreambooth_lora_sdxl.py", "train_dreambooth_flux.py",
                 "train_dreambooth_lora_flux.py", "train_dreambooth_lora_flux_kontext.py", "train_dreambooth_lora_qwen_image.py",
                 "textual_inversion.py", "textual_inversion_sdxl.py", "train_dreambooth_lora_z_image.py", "train_dreambooth_lora_flux2.py",
                 "train_dreambooth_lora_flux2_klein.py"});
  table << rewritten("mixed_precision", "dtype", [](const Value& value, const Settings& all) {
             auto word = lower(text_of(value));
             return dtype_of_run(word == "no" ? "fp32" : word, flows(all) || trains_whole(all));
           }).otherwise("no");
  table << rewritten("guidance_scale", "embedded_guidance", only(is_told_guidance, same_value)).otherwise(3.5);
  table << rewritten("max_sequence_length", "max_sequence_length", [](const Value& value, const Settings& all) {
             if (!flows(all)) return left_out("");
             return when_absent(all, "max_sequence_length", value, script(all) == "train_dreambooth_flux.py" ? 77 : 512);
           }).otherwise(512);
}

void adapter_rows(Table& table) {
  table << rewritten("script", "lora_base_model", [](const Value&, const Settings& all) {
    return has_adapter(all) ? carried(trained_parts(all)) : left_out("");
  }) << rewritten("script", "trainable_models", [](const Value&, const Settings& all) {
    return trains_whole(all) ? carried(trained_parts(all)) : left_out("");
  }) << rewritten("script", "lora_format", [](const Value&, const Settings& all) {
    if (!has_adapter(all)) return left_out("");
    return carried(all.on("output_kohya_format") ? "kohya" : "diffusers");
  });
  auto of_adapter = only(has_adapter, same_value);
  table << rewritten("rank", "lora_rank", of_adapter, 4) << rewritten("lora_dropout", "lora_dropout", of_adapter, 0.0);
  table << rewritten("lora_alpha", "lora_alpha", [](const Value& value, const Settings& all) {
             if (!has_adapter(all)) return left_out("");
             // SD's and SDXL's scripts have no such option: their alpha is the rank.
             return all.has("lora_alpha") || flows(all) ? carried(value) : left_out("");
           }).otherwise(4);
  table << rewritten("lora_layers", "lora_target_modules", of_adapter);
  table << rewritten("script", "lora_target_modules", [](const Value&, const Settings& all) {
    bool attention_alone = !flows(all) || has(all, "qwen") || has(all, "z_image");
    if (!has_adapter(all) || all.has("lora_layers") || !attention_alone) return left_out("");
    bool encoders = all.on("train_text_encoder");
    return carried(std::string("to_q,to_k,to_v,to_out.0") + (encoders ? ",q_proj,k_proj,v_proj,out_proj" : ""));
  });
}

/// A word, its vectors and the captions that it stands in.
void inversion_rows(Table& table) {
  auto of_word = only(is_inversion, same_value);
  table << rewritten("placeholder_token", "embedding_token", of_word) << rewritten("initializer_token", "embedding_init", of_word)
        << rewritten("num_vectors", "embedding_length", of_word, 1);
  table << rewritten("script", "embedding_format", [](const Value&, const Settings& all) {
    return is_inversion(all) ? carried("diffusers") : left_out("");
  }) << rewritten("train_data_dir", "dataset_metadata_path", of_word);
  table << rewritten(
      "learnable_property", "class_tokens",
      [](const Value& value, const Settings& all) {
        if (!is_inversion(all)) return left_out("");
        const bool is_style = text_of(value) == "style";
        return carried((is_style ? "a painting in the style of " : "a photo of ") + all.text("placeholder_token"),
                       "one of the captions that are drawn there; others go into .txt files beside the pictures");
      },
      "object");
}

void data_rows(Table& table) {
  table << same("instance_data_dir", "dataset_metadata_path",
                "instance_prompt is the caption of pictures without a text file, of all there");
  table << rewritten("dataset_name", "dataset_metadata_path", dataset_of_hub);
  table << rewritten("class_data_dir", "class_metadata_path", [](const Value& value, const Settings& all) {
    return all.on("with_prior_preservation") ? carried(value) : left_out("");
  });
  table << rewritten("instance_prompt", "class_tokens", given_caption);
  table << rewritten(
      "repeats", "dataset_repeat",
      [](const Value& value, const Settings& all) { return when_absent(all, "repeats", value, is_inversion(all) ? 100 : 1); }, 1);
  table << rewritten("class_prompt", "class_prompt", [](const Value& value, const Settings& all) {
    return all.on("with_prior_preservation") && all.has("class_data_dir") ? given_caption(value, all) : left_out("");
  });
  table << rewritten("resolution", "resolution", size, 512);
  table << rewritten("center_crop", "random_crop", [](const Value& value, const Settings& all) {
             return is_inversion(all) ? left_out("") : carried(!asks_for_something(value));
           }).otherwise(false);
  table << rewritten(
      "random_flip", "random_flip",
      [](const Value& value, const Settings& all) { return is_inversion(all) ? carried(true) : carried(value); }, false);
}

void optimizer_rows(Table& table) {
  table << rewritten("optimizer", "optimizer", [](const Value&, const Settings& all) {
             auto name = optimizer_of(all);
             return name.empty() ? left_out(kNoOptimizer) : carried(name);
           }).otherwise("AdamW");
  table << rewritten("optimizer", "optimizer_args", [](const Value&, const Settings& all) {
             if (optimizer_of(all) != "prodigy") return left_out("");
             auto text = fmt::format("beta1={},beta2={},eps={},use_bias_correction={},safeguard_warmup={}", all.text("adam_beta1", "0.9"),
                                     all.text("adam_beta2", "0.999"), all.text("adam_epsilon", "1e-08"),
                                     all.text("prodigy_use_bias_correction", "true"), all.text("prodigy_safeguard_warmup", "true"));
             return carried(lower(all.has("prodigy_beta3") ? text + ",beta3=" + all.text("prodigy_beta3") : text));
           }).otherwise("AdamW");
  table << rewritten("adam_beta1", "optimizer_args", [](const Value&, const Settings& all) {
             if (!optimizer_of(all).starts_with("adamw")) return left_out("");
             auto text = fmt::format("beta1={},beta2={},eps={}", all.text("adam_beta1", "0.9"), all.text("adam_beta2", "0.999"),
                                     all.text("adam_epsilon", "1e-08"));
             return text == "beta1=0.9,beta2=0.999,eps=1e-08" ? left_out("") : carried(text);
           }).otherwise(0.9);
  table << rewritten("adam_weight_decay", "weight_decay", of_optimizer(optimizer_of, decay), 1e-4);
  table << rewritten("adam_weight_decay_text_encoder", "weight_decay_groups", [](const Value& value, const Settings& all) {
             return all.on("train_text_encoder") && has_clip_beside_t5(all) ? carried("text_encoder=" + text_of(value)) : left_out("");
           }).otherwise(1e-3);
  table << rewritten("learning_rate", "learning_rate", of_optimizer(optimizer_of, rate), 1e-4);
  table << rewritten("text_encoder_lr", "text_encoder_lr", of_optimizer(optimizer_of, encoder_rate), 5e-6);
  table << rewritten("lr_scheduler", "lr_scheduler", schedule, "constant") << rewritten("lr_warmup_steps", "lr_warmup_steps", warmup, 500);
  table << rewritten("lr_num_cycles", "lr_scheduler_num_cycles", of_schedule("cosine_with_restarts", same_value), 1)
        << rewritten("lr_power", "lr_scheduler_power", of_schedule("polynomial", same_value), 1.0);
  table << rewritten("lr_power", "lr_scheduler_min_lr_ratio",
                     of_schedule("polynomial",
                                 [](const Value&, const Settings& all) {
                                   auto ours = rate(Value(all.number("learning_rate").value_or(0)), all);
                                   auto number = number_of(*ours.value).value_or(0);
                                   return number > 1e-7 ? carried(1e-7 / number) : left_out("");
                                 }),
                     1.0);
}

void run_rows(Table& table) {
  table << rewritten(
      "train_batch_size", "batch_size",
      [](const Value& value, const Settings& all) { return when_absent(all, "train_batch_size", value, is_inversion(all) ? 16 : 4); }, 4);
  table << rewritten("num_train_epochs", "num_epochs", [](const Value& value, const Settings& all) {
             return all.has("max_train_steps") || is_inversion(all) ? left_out("") : carried(value);
           }).otherwise(1);
  table << rewritten(
      "max_train_steps", "max_steps",
      [](const Value& value, const Settings& all) {
        return all.has("max_train_steps") || is_inversion(all) ? when_absent(all, "max_train_steps", value, 5000) : left_out("");
      },
      5000);
  table << rewritten("gradient_accumulation_steps", "gradient_accumulation_steps", accumulated, 1);
  table << rewritten("max_grad_norm", "max_grad_norm", unless(is_inversion, same_value), 1.0);
  table << rewritten("weighting_scheme", "timestep_sampling", sampling, "none")
        << rewritten("weighting_scheme", "loss_weighting", weighting, "none");
  for (const auto& [name, number] : {std::pair{"logit_mean", 0.0}, std::pair{"logit_std", 1.0}, std::pair{"mode_scale", 1.29}})
    table << rewritten(name, name, only(flows, same_value), number);
}

Table table() {
  Table table;
  table << rows_in("diffusers");
  model_rows(table);
  adapter_rows(table);
  inversion_rows(table);
  data_rows(table);
  optimizer_rows(table);
  run_rows(table);
  return table;
}

}  // namespace
}  // namespace of_diffusers

Program diffusers() {
  using namespace of_diffusers;
  return {"diffusers", "diffusers' training scripts", recognises, arrange, table, may_be, says_whole};
}

}  // namespace burnish::foreign
