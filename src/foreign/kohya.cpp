#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/kohya_gui.h"
#include "foreign/program.h"

// Names and defaults: library/train_util.py, train_network.py, library/flux_train_utils.py and docs/config_README-en.md of sd-scripts.
namespace burnish::foreign {

namespace of_kohya {
namespace {

constexpr const char* kFileDecides = "the file of network_weights decides type, rank and alpha";

/// Settings of a model that flows, whose denoiser is called dit; the others have a unet.
bool flows(const Settings& all) {
  return all.has("clip_l") || all.has("t5xxl") || all.has("ae") || all.has("timestep_sampling") ||
         all.text("script").starts_with("flux_train") || all.text("network_module").ends_with("lora_flux");
}

std::string denoiser(const Settings& all) { return flows(all) ? "dit" : "unet"; }

bool is_xl(const Settings& all) { return all.text("script").starts_with("sdxl") || all.has("text_encoder_lr2"); }

/// Settings without a network train the model itself.
bool trains_whole(const Settings& all) { return !all.has("network_module"); }

std::vector<std::string> text_encoders(const Settings& all) {
  if (is_xl(all)) return {"text_encoder", "text_encoder_2"};
  bool t5 = flows(all) && all.on("network_args.train_t5xxl");
  return t5 ? std::vector<std::string>{"text_encoder", "text_encoder_2"} : std::vector<std::string>{"text_encoder"};
}

/// sd-scripts' networks adapt text encoders too unless told otherwise; caching their outputs freezes them.
bool encoders_train(const Settings& all) {
  if (trains_whole(all)) return all.on("train_text_encoder") || (all.text("script") == "train_db.py");
  return !all.on("network_train_unet_only") && !all.on("cache_text_encoder_outputs") && !all.on("cache_text_encoder_outputs_to_disk");
}

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (!all.on("network_train_text_encoder_only")) parts.push_back(denoiser(all));
  if (encoders_train(all)) {
    for (const auto& part : text_encoders(all)) parts.push_back(part);
  }
  return join(parts, ",");
}

/// A single block counts there as half a double block; a UNet has no such option.
Outcome swapped_blocks(const Value& value, const Settings& /*all*/) {
  auto count = static_cast<int64_t>(number_of(value).value_or(0));
  return carried(count / 2 + 2 * (count - count / 2), "a number of blocks, whatever their size");
}

/// Gradients of all of such a model take as much as its weights: where nothing needs them together, they are freed one by one.
Outcome updates_in_backward(const Value& value, const Settings& all) {
  if (asks_for_something(value)) return carried(true);
  auto optimizer = lower(all.text("optimizer_type", "adamw"));
  bool can = all.number("gradient_accumulation_steps").value_or(1) == 1 && lower(all.text("mixed_precision")) == "bf16" &&
             optimizer != "prodigy" && optimizer != "prodigyopt.prodigy";
  if (!trains_whole(all) || !flows(all) || !can) return left_out("");
  return carried(true, "gradients are freed one by one, and max_grad_norm clips each by its own norm; take it out to clip by that of all");
}

Outcome kept_on_disk(const Value& value, const Settings&) {
  return asks_for_something(value) ? carried("cache", "a folder beside the settings") : left_out("");
}

Outcome when_new(const Value& value, const Settings& all) {
  if (trains_whole(all)) return left_out("nothing but an adapter has it");
  return all.has("network_weights") ? left_out(kFileDecides) : carried(value);
}

Outcome adapter_type(const Value& module, const Settings& all) {
  if (all.has("network_weights")) return left_out("");
  auto name = text_of(module), algorithm = lower(all.text("network_args.algo", "lora"));
  if (!name.starts_with("lycoris")) {
    bool known =
        name == "networks.lora" || name.ends_with("lora_flux") || name.ends_with("networks.loha") || name.ends_with("networks.lokr");
    if (!known) return left_out("adapters here are lora, dora, loha and lokr");
    return carried(name.ends_with("loha") ? "loha" : name.ends_with("lokr") ? "lokr" : "lora");
  }
  if (algorithm == "lora" || algorithm == "locon") return carried(all.on("network_args.dora_wd") ? "dora" : "lora");
  if (algorithm == "diag-oft") return carried("oft");
  if (algorithm != "loha" && algorithm != "lokr" && algorithm != "full")
    return left_out("adapters here are lora, dora, loha and lokr, not " + algorithm);
  return carried(algorithm);
}

Outcome text_encoder_rate(const Value& value, const Settings& all) {
  if (!encoders_train(all)) return left_out("the text encoders do not train");
  if (!value.is_array()) return carried(value);
  std::vector<std::string> rates;
  auto parts = text_encoders(all);
  for (size_t i = 0; i < std::min(parts.size(), value.size()); ++i) rates.push_back(parts[i] + "=" + text_of(value[i]));
  return carried(join(rates, ","));
}

Outcome second_rate(const Value& value, const Settings& all) {
  auto first = all.text("text_encoder_lr1", all.text("learning_rate_te1"));
  if (!encoders_train(all)) return left_out("the text encoders do not train");
  return carried((first.empty() ? "" : "text_encoder=" + first + ",") + "text_encoder_2=" + text_of(value));
}

bool is_dataset_file(const Value& tree) { return tree.contains("datasets"); }

bool recognises(const Value& tree) {
  if (!tree.is_object()) return false;
  if (is_dataset_file(tree)) {
    const auto& datasets = tree["datasets"];
    return datasets.is_array() && !datasets.empty() && datasets[0].is_object() && datasets[0].contains("subsets");
  }
  if (is_kohya_gui(tree)) return true;
  for (const auto& [key, value] : tree.items()) {
    if (key == "pretrained_model_name_or_path" || key == "train_data_dir" || key == "network_module") return true;
    if (value.is_object() && recognises(value)) return true;
  }
  return false;
}

/// --config_file's sections are headings only.
void flatten_sections(Value& tree) {
  auto flat = Value::object();
  for (const auto& [key, value] : tree.items()) {
    if (value.is_object() && key != "launch") flat.update(value);
    else flat[key] = value;
  }
  tree = flat;
}

/// The dataset file's levels, the outer ones under the inner ones, as if they were options.
void merge_datasets(const Value& file, Arranged& arranged) {
  std::vector<std::pair<std::string, Value>> subsets;
  auto general = file.value("general", Value::object());
  const auto& datasets = file["datasets"];
  for (size_t i = 0; i < datasets.size(); ++i) {
    auto list = datasets[i].value("subsets", Value::array());
    for (size_t k = 0; k < list.size(); ++k) {
      auto merged = general;
      merged.update(datasets[i]);
      merged.update(list[k]);
      merged.erase("subsets");
      auto name = "datasets[" + std::to_string(i) + "].subsets[" + std::to_string(k) + "].image_dir";
      bool is_class_set = merged.value("is_reg", false) && !arranged.tree.contains("reg_data_dir");
      if (is_class_set) arranged.tree["reg_data_dir"] = merged.value("image_dir", Value());
      else subsets.emplace_back(name, merged);
    }
  }
  arranged.tree.update(first_of(subsets, arranged));
}

Arranged arrange(Value tree, const Open& open) {
  if (is_dataset_file(tree)) {
    Arranged arranged{.tree = Value::object(), .whole = false};
    merge_datasets(tree, arranged);
    return arranged;
  }
  if (is_kohya_gui(tree)) tree = options_of_kohya_gui(tree);
  flatten_sections(tree);
  Arranged arranged{.tree = tree};
  for (const char* name : {"network_args", "optimizer_args"}) {
    if (tree.contains(name)) arranged.tree[name] = named_arguments(tree[name]);
  }
  if (!tree.contains("mixed_precision") && tree.contains("launch") && tree["launch"].contains("mixed_precision"))
    arranged.tree["mixed_precision"] = tree["launch"]["mixed_precision"];
  if (tree.contains("dataset_config")) {
    auto file = open(text_of(tree["dataset_config"]));
    if (file.is_object() && is_dataset_file(file)) {
      arranged.tree.erase("dataset_config");
      merge_datasets(file, arranged);
    }
  }
  return arranged;
}

void model_rows(Table& table) {
  // Of two files that hold a part the first is taken.
  table << same("vae", "model") << same("pretrained_model_name_or_path", "model") << same("clip_l", "model") << same("t5xxl", "model")
        << same("ae", "model");
  table << kind_row("script", {"train_network.py", "train_db.py", "fine_tune.py", "sdxl_train.py", "sdxl_train_network.py", "flux_train.py",
                               "flux_train_network.py"});
  table << no_place({"v2"}, kAnotherKind);
  table << rewritten("v_parameterization", "prediction_type", [](const Value& value, const Settings&) {
    return asks_for_something(value) ? carried("v_prediction") : left_out("");
  });
  table << same("zero_terminal_snr", "zero_terminal_snr") << same("max_token_length", "max_token_length");
  table << rewritten("clip_skip", "clip_skip", [](const Value& value, const Settings& all) {
    return is_xl(all) ? left_out("sd-scripts leaves it unread for this model") : carried(value);
  });
  auto base_fp8 = [](const Value& value, const Settings& all) {
    return asks_for_something(value) ? carried(denoiser(all), "weights get a scale for each row here (weight_format fp8)") : left_out("");
  };
  table << rewritten("fp8_base", "fp8_models", base_fp8) << rewritten("fp8_base_unet", "fp8_models", base_fp8);
  table << rewritten(
      "guidance_scale", "embedded_guidance",
      [](const Value& value, const Settings& all) {
        if (all.text("model_type") == "chroma") return left_out("");  // which embeds no guidance
        return flows(all) ? carried(value) : left_out("only models that flow take it");
      },
      3.5);
}

void network_rows(Table& table) {
  table << rewritten("network_module", "lora_type", adapter_type);
  table << rewritten("network_module", "lora_format", [](const Value& value, const Settings& all) {
    if (all.has("network_weights")) return left_out("");
    return carried(text_of(value).starts_with("lycoris") ? "lycoris" : "kohya");
  });
  table << rewritten(
      "network_train_unet_only", "lora_base_model",
      [](const Value&, const Settings& all) { return trains_whole(all) ? left_out("") : carried(trained_parts(all)); }, false);
  table << rewritten(
      "train_text_encoder", "trainable_models",
      [](const Value&, const Settings& all) { return trains_whole(all) ? carried(trained_parts(all)) : left_out(""); }, false);
  table << rewritten(
      "network_dim", "lora_rank",
      [](const Value& value, const Settings& all) { return trains_whole(all) ? left_out("") : when_new(value, all); }, 4);
  table << rewritten(
      "network_alpha", "lora_alpha",
      [](const Value& value, const Settings& all) { return trains_whole(all) ? left_out("") : when_new(value, all); }, 1);
  table << same("network_dropout", "lora_dropout") << same("network_weights", "lora_checkpoint");
  table << same("network_args.factor", "lokr_factor") << same("network_args.rs_lora", "use_rslora");
  table << same("network_args.loraplus_lr_ratio", "loraplus_lr_ratio");
  table << no_place({"network_args.loraplus_unet_lr_ratio", "network_args.loraplus_text_encoder_lr_ratio"},
                    "there is one ratio, loraplus_lr_ratio");
  table << looked_at({"network_args.algo", "network_args.dora_wd", "network_args.train_t5xxl", "network_args.split_qkv",
                      "network_train_text_encoder_only", "network_args.wd_on_output", "dim_from_weights"});
  table << no_place({"network_args.conv_dim", "network_args.conv_alpha", "network_args.preset"},
                    "name the layers, convolutions among them, in lora_target_modules, and their ranks in lora_rank_groups");
  table << no_place({"network_args.network_reg_dims", "network_args.network_reg_alphas", "network_args.network_reg_lrs"},
                    "write it for our layer paths in lora_rank_groups, lora_alpha_groups or lr_groups");
  table << no_place({"network_args.rank_dropout", "network_args.module_dropout"}, "adapters drop inputs alone (lora_dropout)");
  table << no_place({"network_args.*"}, "lora_target_modules and lora_rank_groups say which layers get which rank");
  table << no_place({"scale_weight_norms"}, "norms of adapters are not bounded");
  table << rewritten("base_weights", "preset_lora_path", [](const Value& value, const Settings& all) {
    auto list = value.is_array() ? value : Value::array({value});
    const auto* strengths = all.find("base_weights_multiplier");
    for (size_t i = 0; strengths && i < list.size(); ++i) {
      if (!strengths->is_array()) list[i] = text_of(list[i]) + (i == 0 ? ":" + text_of(*strengths) : "");
      else if (i < strengths->size()) list[i] = text_of(list[i]) + ":" + text_of((*strengths)[i]);
    }
    return carried(list);
  });
  table << looked_at({"base_weights_multiplier"});
  auto first_rate = [](const Value& value, const Settings& all) {
    bool two = all.has("text_encoder_lr2") || all.has("learning_rate_te2");
    if (!encoders_train(all)) return left_out("the text encoders do not train");
    return two ? left_out("") : carried(value);  // the second says both
  };
  table << rewritten("text_encoder_lr", "text_encoder_lr", text_encoder_rate);
  for (const char* name : {"text_encoder_lr1", "learning_rate_te", "learning_rate_te1"})
    table << rewritten(name, "text_encoder_lr", first_rate);
  for (const char* name : {"text_encoder_lr2", "learning_rate_te2"}) table << rewritten(name, "text_encoder_lr", second_rate);
}

void data_rows(Table& table) {
  table << same("train_data_dir", "dataset_metadata_path") << same("image_dir", "dataset_metadata_path");
  table << same("reg_data_dir", "class_metadata_path") << same("prior_loss_weight", "prior_loss_weight");
  table << same("train_batch_size", "batch_size") << same("batch_size", "batch_size");
  table << same("num_repeats", "dataset_repeat") << same("dataset_repeats", "dataset_repeat");
  table << rewritten("resolution", "resolution", [](const Value& value, const Settings&) {
    auto sides = sides_of(value);
    if (sides.empty()) return left_out("is no side, nor width and height");
    return carried(std::to_string(sides[0]) + "," + std::to_string(sides[1]));
  });
  table << same("enable_bucket", "enable_bucket");
  table << rewritten(
      "bucket_no_upscale", "bucket_no_upscale",
      [](const Value& value, const Settings& all) { return all.on("enable_bucket") ? carried(value) : left_out(""); }, false);
  for (const char* name : {"min_bucket_reso", "max_bucket_reso", "bucket_reso_steps"}) table << same(name, name);
  table << no_place({"skip_image_resolution"}, "take small pictures out of the folder");
  table << no_place({"resize_interpolation"}, "all pictures are scaled in one way");
  table << same("caption_dropout_rate", "caption_dropout") << same("flip_aug", "random_flip") << same("random_crop", "random_crop");
  table << caption_ending_row("caption_extension") << caption_ending_row("caption_extention");
  for (const char* name : {"shuffle_caption", "keep_tokens", "keep_tokens_separator", "caption_separator", "secondary_separator",
                           "caption_tag_dropout_rate", "enable_wildcard", "caption_prefix", "caption_suffix"})
    table << same(name, name);
  table << no_place({"caption_dropout_every_n_epochs"}, "give a share of visits in caption_dropout");
  table << no_place({"token_warmup_min", "token_warmup_step"}, "leave tags out with caption_tag_dropout_rate");
  table << no_place({"weighted_captions"}, "captions are taken as they are written");
  table << no_place({"class_tokens"}, "a dataset in a dataset_config may have it; else every picture has a caption file");
  table << no_place({"color_aug", "face_crop_aug_range"}, "pictures are cropped and mirrored, not changed otherwise");
  table << no_place({"dataset_config"}, "cannot be read from here; name the folder of pictures in dataset_metadata_path");
  table << no_place({"metadata_file", "in_json", "dataset_class"},
                    "name the folder of pictures, or a metadata file with the columns image and prompt, in dataset_metadata_path");
  table << no_place({"conditioning_data_dir"}, "name the masks in a column of a metadata file (masked_loss column)");
  table << rewritten("masked_loss", "masked_loss", [](const Value& value, const Settings& all) {
    if (!asks_for_something(value)) return left_out("");
    return all.on("alpha_mask") ? carried("alpha") : carried("column", "masks are named in the column `mask` of a metadata file");
  });
  table << looked_at({"alpha_mask", "is_reg", "debug_dataset"});
}

void loss_rows(Table& table) {
  table << rewritten(
      "timestep_sampling", "timestep_sampling",
      [](const Value& value, const Settings& all) {
        if (!flows(all)) return left_out("");
        auto scheme = all.text("weighting_scheme");
        bool drawn = text_of(value) == "sigma" && (scheme == "logit_normal" || scheme == "mode");
        return carried(drawn ? Value(scheme) : value);
      },
      "sigma");
  table << rewritten(
      "weighting_scheme", "loss_weighting",
      [](const Value& value, const Settings& all) {
        if (all.on("debiased_estimation_loss")) return carried("debiased");
        auto scheme = text_of(value);
        return carried(scheme == "sigma_sqrt" || scheme == "cosmap" ? Value(scheme) : Value("uniform"));
      },
      "none");
  table << looked_at({"debiased_estimation_loss"});
  for (const char* name : {"discrete_flow_shift", "sigmoid_scale", "logit_mean", "logit_std", "mode_scale", "min_snr_gamma", "noise_offset",
                           "loss_type", "huber_schedule", "huber_c", "huber_scale"})
    table << same(name, name);
  auto share = [](const Value& value, const Settings&) {
    auto number = number_of(value);
    return number ? carried(rest_of(*number / 1000)) : left_out("is no number");
  };
  table << rewritten("min_timestep", "max_timestep_boundary", share) << rewritten("max_timestep", "min_timestep_boundary", share);
  table << rewritten("model_prediction_type", "", [](const Value& value, const Settings&) {
    return left_out(text_of(value) == "raw" ? "" : "predictions count as they are, which sd-scripts calls raw and advises");
  });
  table << no_place(
      {"scale_v_pred_loss_like_noise_pred", "v_pred_like_loss", "multires_noise_iterations", "multires_noise_discount",
       "adaptive_noise_scale", "ip_noise_gamma", "noise_offset_random_strength", "ip_noise_gamma_random_strength", "apply_t5_attn_mask"},
      "this loss or noise is not there");
}

void run_rows(Table& table) {
  table << same("sample_prompts", "preview_prompts") << same("sample_every_n_steps", "preview_steps");
  table << no_place({"sample_every_n_epochs"}, "previews are drawn every preview_steps steps");
  table << no_place({"sample_sampler"}, "previews take the model's own sampler");
  table << needless({"sample_at_first"});
  table << no_place({"validation_split", "validate_every_n_steps", "validate_every_n_epochs", "max_validation_steps", "validation_seed"},
                    "name held-out samples in validation_metadata_path");
  table << same("cpu_offload_checkpointing", "use_gradient_checkpointing_offload");
  table << rewritten("fused_backward_pass", "fused_backward_pass", updates_in_backward, false);
  table << same("blockwise_fused_optimizers", "fused_backward_pass");
  table << rewritten("cache_latents_to_disk", "cache_path", kept_on_disk)
        << rewritten("cache_text_encoder_outputs_to_disk", "cache_path", kept_on_disk);
  table << rewritten("blocks_to_swap", "blocks_to_swap", swapped_blocks);
  table << no_place({"vae_chunk_size"}, "vae_tile_size is what saves memory in the autoencoder");
  table << no_place({"train_block_lr", "block_lr"}, "write it for our layer paths in lr_groups");
  table << needless({"cache_latents",
                     "cache_text_encoder_outputs",
                     "skip_cache_check",
                     "vae_batch_size",
                     "text_encoder_batch_size",
                     "sdpa",
                     "xformers",
                     "mem_eff_attn",
                     "no_half_vae",
                     "lowram",
                     "highvram",
                     "mem_eff_save",
                     "disable_mmap_load_safetensors",
                     "full_bf16",
                     "full_fp16",
                     "save_model_as",
                     "output_name",
                     "training_comment",
                     "logging_dir",
                     "log_prefix",
                     "log_tracker_name",
                     "tokenizer_cache_dir",
                     "use_safetensors",
                     "split_mode",
                     "t5xxl_max_token_length",
                     "model_type",
                     "no_metadata",
                     "ddp_timeout"});
}

Table table() {
  Table table;
  model_rows(table);
  network_rows(table);
  data_rows(table);
  table << kohya_training(flows).rows;
  loss_rows(table);
  run_rows(table);
  return table;
}

}  // namespace
}  // namespace of_kohya

Program kohya() {
  using namespace of_kohya;
  return {"kohya", "kohya sd-scripts", recognises, arrange, table};
}

}  // namespace burnish::foreign
