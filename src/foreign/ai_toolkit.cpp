#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/program.h"

// Names and defaults: config/examples/ and toolkit/config_modules.py of ai-toolkit.
namespace burnish::foreign {

namespace of_ai_toolkit {
namespace {

const std::map<std::string, std::string> kOptimizers{{"adam", "adamw"},          {"adamw", "adamw"},     {"adam8bit", "adamw8bit"},
                                                     {"adamw8bit", "adamw8bit"}, {"lion", "lion"},       {"lion8bit", "lion"},
                                                     {"adafactor", "adafactor"}, {"prodigy", "prodigy"}, {"prodigy8bit", "prodigy"}};

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("train.optimizer", "adamw")));
  return it == kOptimizers.end() ? "" : it->second;
}

bool flows(const Settings& all) { return all.text("train.noise_scheduler", "ddpm") == "flowmatch"; }
bool trains_whole(const Settings& all) { return !all.has("network.type"); }

std::string denoiser(const Settings& all) { return flows(all) ? "dit" : "unet"; }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (!all.has("train.train_unet") || all.on("train.train_unet")) parts.push_back(denoiser(all));
  if (all.on("train.train_text_encoder")) parts.emplace_back("text_encoder");
  if (all.on("train.train_text_encoder") && (all.on("model.is_xl") || all.text("model.arch") == "sdxl"))
    parts.emplace_back("text_encoder_2");
  return join(parts, ",");
}

std::string bits(const Value& value) {
  auto word = lower(text_of(value));
  if (word == "bf16" || word == "bfloat16") return "bf16";
  if (word == "fp16" || word == "float16") return "fp16";
  return word == "fp32" || word == "float32" || word == "float" ? "fp32" : "";
}

Outcome dtype(const Value& value, const Settings& all) { return dtype_of_run(bits(value), flows(all) || trains_whole(all)); }

Outcome precision(const Value& value, const Settings&) {
  return bits(value).empty() ? left_out("a dtype is bf16, fp16 or fp32") : carried(bits(value));
}

Outcome quantized(const Value& value, const Settings& all) {
  if (!asks_for_something(value)) return left_out("");
  auto kind = lower(all.text("model.qtype", "qfloat8"));
  bool eight = kind == "qfloat8" || kind == "float8";
  return eight ? carried(denoiser(all))
               : left_out("weights are stored in fp8, int8 or nf4 (fp8_models with weight_format), not in " + kind);
}

Outcome sampling(const Value& value, const Settings& all) {
  if (!flows(all)) return left_out("");
  auto kind = text_of(value);
  if (kind == "sigmoid" || kind == "lognorm_blend" || kind == "flux_shift") return carried(kind);
  if (kind == "linear") return carried("uniform");
  if (kind == "shift") return carried("flux_shift");
  return left_out("no such way to draw timesteps");
}

/// Sides of squares: a picture keeps its shape below the area of each.
std::vector<int64_t> sides(const Value& value) {
  std::vector<int64_t> all;
  for (const auto& item : value.is_array() ? value : Value::array({value})) {
    auto number = number_of(item).value_or(0);
    if (number < 1 || number > 1e6) return {};
    all.push_back(std::lround(number));
  }
  return all;
}

bool has_several_sizes(const Settings& all) {
  const auto* resolution = all.find("dataset.resolution");
  return resolution != nullptr && sides(*resolution).size() > 1;
}

Outcome area(const Value& value, const Settings& all) {
  auto list = sides(value);
  if (list.empty()) return left_out("is no size");
  return has_several_sizes(all) ? left_out("") : carried(list[0] * list[0]);
}

Outcome if_several_sizes(const Value& value, const Settings& all) { return has_several_sizes(all) ? carried(value) : left_out(""); }

bool recognises(const Value& tree) {
  if (!tree.is_object() || !tree.contains("config") || !tree["config"].is_object()) return false;
  const auto& process = tree["config"].value("process", Value());
  return process.is_array() && !process.empty() && process[0].is_object();
}

Arranged arrange(Value tree, const Open&) {
  const auto& config = tree["config"];
  Arranged arranged{.tree = config["process"][0]};
  for (size_t i = 1; i < config["process"].size(); ++i)
    arranged.not_carried.push_back("config.process[" + std::to_string(i) + "]: a run is one process, and the first is taken");
  auto& process = arranged.tree;
  auto name = text_of(config.value("name", Value("run")));
  process["output_path"] = text_of(process.value("training_folder", Value("output"))) + "/" + name;
  process.erase("training_folder");
  auto list = process.value("datasets", Value::array());
  std::vector<std::pair<std::string, Value>> datasets;
  for (size_t i = 0; i < list.size(); ++i) {
    bool is_class_set = list[i].is_object() && list[i].value("is_reg", false) && !process.contains("class_set");
    if (is_class_set) process["class_set"] = list[i].value("folder_path", Value());
    else if (list[i].is_object()) datasets.emplace_back("datasets[" + std::to_string(i) + "].folder_path", list[i]);
  }
  process.erase("datasets");
  process["dataset"] = first_of(datasets, arranged);
  return arranged;
}

void model_rows(Table& table) {
  table << same("model.vae_path", "model") << same("model.unet_path", "model") << same("model.name_or_path", "model");
  table << rewritten("train.dtype", "dtype", dtype, "fp32") << rewritten("model.quantize", "fp8_models", quantized);
  table << looked_at({"model.qtype", "model.qtype_te"});
  table << no_place({"model.quantize_te"}, "text encoders run once and are dropped before training");
  table << rewritten("model.is_v_pred", "prediction_type", [](const Value& value, const Settings&) {
    return asks_for_something(value) ? carried("v_prediction") : left_out("");
  });
  table << same("model.lora_path", "preset_lora_path");
  table << rewritten("model.assistant_lora_path", "preset_lora_path", [](const Value& value, const Settings&) {
    return carried(value, "previews are drawn without it unless preview_with_presets");
  });
  table << no_place({"model.low_vram", "model.layer_offloading", "model.auto_memory"},
                    "nothing is moved to main memory while a step runs; models are loaded one after the other");
  table << kind_row("model.arch", {"sd", "sd1", "sd15", "sdxl", "flux", "flux_kontext", "flux2_klein*", "qwen_image", "qwen_image_edit*",
                                   "zimage", "chroma"});
  table << no_place({"model.is_v2", "model.is_v3", "model.is_pixart", "model.is_pixart_sigma", "model.is_auraflow", "model.is_lumina2"},
                    kAnotherKind);
  table << needless(
      {"model.is_xl", "model.name", "model.dtype", "model.vae_dtype", "model.te_dtype", "model.compile", "model.extras_name_or_path"});
  for (const char* name : {"model.is_flux", "model.use_flux_cfg"}) table << needless({name});
  table << no_place({"model.*"}, "no option of the models here");
}

void network_rows(Table& table) {
  table << words("network.type", "lora_type", {{"lora", "lora"}, {"locon", "lora"}, {"dora", "dora"}, {"lokr", "lokr"}, {"loha", "loha"}},
                 "adapters here are lora, dora, loha and lokr");
  table << rewritten("network.type", "lora_base_model", [](const Value&, const Settings& all) { return carried(trained_parts(all)); });
  table << rewritten(
      "train.train_unet", "trainable_models",
      [](const Value&, const Settings& all) { return trains_whole(all) ? carried(trained_parts(all)) : left_out(""); }, true);
  auto when_new = [](const Value& value, const Settings& all) {
    return all.has("network.pretrained_lora_path") ? left_out("the file of pretrained_lora_path decides it") : carried(value);
  };
  table << rewritten("network.rank", "lora_rank", when_new) << rewritten("network.linear", "lora_rank", when_new);
  table << rewritten("network.alpha", "lora_alpha", when_new) << rewritten("network.linear_alpha", "lora_alpha", when_new);
  table << same("network.dropout", "lora_dropout") << same("network.lokr_factor", "lokr_factor");
  table << same("network.pretrained_lora_path", "lora_checkpoint");
  table << no_place({"network.conv", "network.conv_alpha", "network.network_kwargs.*"},
                    "name the layers, convolutions among them, in lora_target_modules");
  table << needless({"network.transformer_only", "network.lokr_full_rank"});
  table << no_place({"network.*"}, "no option of the adapters here");
}

void data_rows(Table& table) {
  table << same("dataset.folder_path", "dataset_metadata_path") << same("dataset.dataset_path", "dataset_metadata_path");
  table << same("class_set", "class_metadata_path") << same("dataset.num_repeats", "dataset_repeat");
  table << rewritten("dataset.resolution", "max_pixels", area, 512) << rewritten("dataset.resolution", "resolution", if_several_sizes);
  auto buckets = [](const Value&, const Settings& all) { return if_several_sizes(true, all); };
  table << rewritten("dataset.resolution", "enable_bucket", buckets)
        << rewritten("dataset.resolution", "min_bucket_reso",
                     [](const Value& value, const Settings& all) {
                       return has_several_sizes(all) ? carried(std::ranges::min(sides(value)) / 2) : left_out("");
                     })
        << rewritten("dataset.resolution", "max_bucket_reso", [](const Value& value, const Settings& all) {
             return has_several_sizes(all) ? carried(std::ranges::max(sides(value)) * 2) : left_out("");
           });
  table << rewritten("dataset.bucket_tolerance", "bucket_reso_steps", if_several_sizes);
  table << same("dataset.caption_dropout_rate", "caption_dropout");
  table << rewritten("dataset.flip_x", "random_flip", [](const Value& value, const Settings&) {
    return asks_for_something(value) ? carried(true, "half of the visits are mirrored; an epoch is no longer for it") : left_out("");
  });
  table << same("dataset.random_crop", "random_crop") << same("dataset.num_workers", "dataset_num_workers");
  table << caption_ending_row("dataset.caption_ext");
  table << same("dataset.shuffle_tokens", "shuffle_caption") << same("dataset.token_dropout_rate", "caption_tag_dropout_rate");
  table << rewritten("dataset.keep_tokens", "keep_tokens", [](const Value& value, const Settings&) {
    return carried(value, asks_for_something(value) ? "they keep their places too" : "");
  });
  for (const char* name : {"dataset.trigger_word", "trigger_word"}) {
    table << rewritten(name, "caption_prefix", [](const Value& value, const Settings&) {
      return asks_for_something(value) ? carried(value, "stands before every caption; [trigger] in one is not replaced") : left_out("");
    });
  }
  table << no_place({"dataset.default_caption"}, "name it in class_tokens of a dataset in a dataset_config");
  table << no_place({"dataset.random_triggers"}, "enable_wildcard draws one of {a|b|c} at each visit");
  table << no_place({"dataset.mask_path", "dataset.alpha_mask"}, "name the masks in a column of a metadata file (masked_loss column)");
  table << no_place({"dataset.control_path"}, kNameReferences);
  table << no_place({"dataset.inpaint_path", "dataset.num_frames"}, "a sample is a picture and a caption");
  table << needless({"dataset.cache_latents_to_disk", "dataset.cache_latents", "dataset.buckets", "dataset.is_reg", "dataset.type",
                     "dataset.network_weight"});
  table << no_place({"dataset.*"}, "no option of the data here");
}

void train_rows(Table& table) {
  table << rewritten(
      "train.lr", "learning_rate",
      [](const Value& value, const Settings& all) {
        return all.has("train.unet_lr") ? left_out("unet_lr takes its place") : carried(value);
      },
      1e-6);
  table << same("train.unet_lr", "learning_rate");
  table << rewritten("train.text_encoder_lr", "text_encoder_lr", [](const Value& value, const Settings& all) {
    return all.on("train.train_text_encoder") ? carried(value) : left_out("the text encoders do not train");
  });
  auto same_but = [](const Value& value, const Settings&) { return carried(value); };
  table << rewritten("train.steps", "max_steps", same_but, 1000) << same("train.batch_size", "batch_size");
  table << same("train.gradient_accumulation_steps", "gradient_accumulation_steps");
  table << same("train.gradient_accumulation", "gradient_accumulation_steps");
  table << rewritten("train.gradient_checkpointing", "use_gradient_checkpointing", same_but, true);
  table << rewritten("train.max_grad_norm", "max_grad_norm", same_but, 1.0);
  table << rewritten(
      "train.optimizer", "optimizer",
      [](const Value&, const Settings& all) {
        auto name = optimizer_of(all);
        return name.empty()
                   ? left_out("no such optimizer; docs/optimizers.md lists those there are, prodigy finds its own learning rate too")
                   : carried(name);
      },
      "adamw");
  table << weight_decay_row("train.optimizer_params.weight_decay", optimizer_of);
  table << rewritten("train.optimizer", "optimizer_args", [](const Value&, const Settings& all) {
    std::vector<std::string> entries;
    for (const auto& [name, value] : all.all()) {
      if (!name.starts_with("train.optimizer_params.") || name.ends_with(".weight_decay")) continue;
      std::vector<std::string> numbers;
      for (const auto& item : value.is_array() ? value : Value::array({value})) numbers.push_back(text_of(item));
      entries.push_back(name.substr(name.rfind('.') + 1) + "=" + join(numbers, ","));
    }
    return entries.empty() || optimizer_of(all).empty() ? left_out("") : carried(join(entries, ","));
  });
  table << looked_at({"train.optimizer_params.*"});
  table << words("train.lr_scheduler", "lr_scheduler",
                 {{"constant", "constant"}, {"constant_with_warmup", "constant"}, {"linear", "linear"}, {"cosine", "cosine"}},
                 "no such schedule");
  table << same("train.lr_scheduler_params.num_warmup_steps", "lr_warmup_steps");
  table << no_place({"train.lr_scheduler_params.*"}, "no such schedule");
  table << rewritten("train.ema_config.ema_decay", "ema_decay", [](const Value& value, const Settings& all) {
    return all.on("train.ema_config.use_ema") ? carried(value) : left_out("");
  });
  table << rewritten("train.ema_config.use_ema", "ema_decay", [](const Value& value, const Settings& all) {
    return asks_for_something(value) && !all.has("train.ema_config.ema_decay") ? carried(0.999) : left_out("");
  });
}

void loss_rows(Table& table) {
  table << rewritten("train.timestep_type", "timestep_sampling", sampling, "sigmoid");
  table << rewritten(
      "train.noise_scheduler", "loss_weighting", [](const Value&, const Settings&) { return carried("uniform"); }, "ddpm");
  table << same("train.min_snr_gamma", "min_snr_gamma") << same("train.snr_gamma", "min_snr_gamma");
  table << same("train.noise_offset", "noise_offset") << same("train.reg_weight", "prior_loss_weight");
  table << rewritten("train.prompt_dropout_prob", "caption_dropout",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0) / 1000)); };
  table << rewritten("train.min_denoising_steps", "max_timestep_boundary", share);
  table << rewritten("train.max_denoising_steps", "min_timestep_boundary", [](const Value& value, const Settings&) {
    auto last = number_of(value).value_or(999);
    return last >= 999 ? left_out("") : carried(rest_of(last / 1000));
  });
  table << rewritten("train.loss_type", "", [](const Value& value, const Settings&) {
    return left_out(text_of(value) == "mse" ? "" : "losses here are l2, huber and smooth_l1 (loss_type)");
  });
  table << rewritten("train.content_or_style", "", [](const Value& value, const Settings&) {
    return left_out(text_of(value) == "balanced" ? "" : "timesteps are drawn by timestep_sampling");
  });
  table << no_place({"train.linear_timesteps", "train.linear_timesteps2"}, "no such weights of losses");
  table << no_place({"train.bypass_guidance_embedding"}, "the guidance that a model is told is embedded_guidance, 1 by default");
  table << no_place({"train.diff_output_preservation", "train.blank_prompt_preservation"},
                    "class_metadata_path keeps what a model knows of a class");
}

void run_rows(Table& table) {
  table << same("output_path", "output_path");
  auto same_but = [](const Value& value, const Settings&) { return carried(value); };
  table << rewritten("save.save_every", "save_steps", same_but, 1000) << rewritten("save.max_step_saves_to_keep", "keep_last", same_but, 5);
  table << rewritten("save.dtype", "save_dtype", precision, "float16");
  table << rewritten("save.save_format", "", [](const Value& value, const Settings&) {
    auto format = text_of(value);
    return left_out(format == "safetensors" || format == "diffusers" ? "" : "files are safetensors");
  });
  table << no_place({"save.push_to_hub"}, "nothing is sent elsewhere");
  table << no_place({"sample.prompts", "sample.samples"},
                    "write them a line each in a file, and name it in preview_prompts (with preview_steps)");
  table << rewritten("type", "", [](const Value& value, const Settings&) {
    auto type = text_of(value);
    return left_out(type == "sd_trainer" || type == "diffusion_trainer" || type == "ui_trainer"
                        ? ""
                        : "a run of another kind; this is imported as plain training");
  });
  table << rewritten("sample.sample_every", "", [](const Value& value, const Settings&) {
    return left_out("say preview_steps " + text_of(value) + " with preview_prompts");
  });
  table << rewritten("sample.sample_steps", "", [](const Value& value, const Settings&) {
    return left_out("say preview_num_inference_steps " + text_of(value) + " with preview_prompts");
  });
  table << same("training_seed", "seed");
  table << rewritten("sample.seed", "seed", [](const Value& value, const Settings& all) {
    return all.has("training_seed") ? left_out("") : carried(value, "previews and training draw by one seed");
  });
  table << needless({"save.hf_repo_id",
                     "save.hf_private",
                     "sample.sampler",
                     "sample.width",
                     "sample.height",
                     "sample.neg",
                     "sample.walk_seed",
                     "sample.guidance_scale",
                     "sample.num_frames",
                     "sample.fps",
                     "sample.ext",
                     "sample.format",
                     "logging.*",
                     "device",
                     "performance_log_every",
                     "sqlite_db_path",
                     "train.skip_first_sample",
                     "train.force_first_sample",
                     "train.disable_sampling",
                     "train.train_text_encoder",
                     "train.unload_text_encoder",
                     "train.cache_text_embeddings",
                     "train.xformers",
                     "train.sdp",
                     "train.attention_backend"});
  table << no_place({"train.*", "slider.*", "adapter.*", "embedding.*"}, "no option of training here");
}

Table table() {
  Table table;
  model_rows(table);
  network_rows(table);
  data_rows(table);
  train_rows(table);
  loss_rows(table);
  run_rows(table);
  return table;
}

}  // namespace
}  // namespace of_ai_toolkit

Program ai_toolkit() {
  using namespace of_ai_toolkit;
  return {"ai-toolkit", "ai-toolkit", recognises, arrange, table};
}

}  // namespace burnish::foreign
