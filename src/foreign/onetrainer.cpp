#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/program.h"

// Names and defaults: modules/util/config/ and training_presets/ of OneTrainer.
namespace burnish::foreign {

namespace of_onetrainer {
namespace {

const std::map<std::string, std::string> kOptimizers{{"adam", "adamw"},
                                                     {"adamw", "adamw"},
                                                     {"adamw_8bit", "adamw8bit"},
                                                     {"adam_8bit", "adamw8bit"},
                                                     {"adafactor", "adafactor"},
                                                     {"came", "came"},
                                                     {"lion", "lion"},
                                                     {"lion_8bit", "lion"},
                                                     {"prodigy", "prodigy"},
                                                     {"prodigy_plus_schedule_free", "prodigy_schedulefree"},
                                                     {"schedule_free_adamw", "adamw_schedulefree"},
                                                     {"muon", "muon"}};

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("optimizer.optimizer", "ADAMW")));
  return it == kOptimizers.end() ? "" : it->second;
}

/// Its models with a UNet are called after their schedule's age: 1.5, 2.0, 2.1, XL.
bool has_unet(const Settings& all) {
  auto type = all.text("model_type", "DIFFUSION_15");
  for (const char* part : {"DIFFUSION_15", "DIFFUSION_20", "DIFFUSION_21", "DIFFUSION_XL"}) {
    if (type.find(part) != type.npos) return true;
  }
  return false;
}

/// SDXL's and FLUX.1's.
bool has_second_encoder(const Settings& all) {
  auto type = lower(all.text("model_type"));
  return type.find("diffusion_xl") != type.npos || type == "flux_dev_1";
}
std::string denoiser(const Settings& all) { return has_unet(all) ? "unet" : "dit"; }
/// What it calls the denoiser.
std::string part_of(const Settings& all) { return has_unet(all) ? "unet" : "transformer"; }
bool is_lora(const Settings& all) { return all.text("training_method", "FINE_TUNE") == "LORA"; }
bool from_file(const Settings& all) { return all.on("lora_model_name"); }

/// Parts train unless the settings say otherwise.
bool trains(const Settings& all, const std::string& part) { return !all.has(part + ".train") || all.on(part + ".train"); }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (trains(all, part_of(all))) parts.push_back(denoiser(all));
  if (trains(all, "text_encoder")) parts.emplace_back("text_encoder");
  if (has_second_encoder(all) && trains(all, "text_encoder_2")) parts.emplace_back("text_encoder_2");
  return join(parts, ",");
}

std::string bits(const Value& value) {
  auto word = text_of(value);
  return word == "BFLOAT_16" ? "bf16" : word == "FLOAT_16" ? "fp16" : word == "FLOAT_32" || word == "TFLOAT_32" ? "fp32" : "";
}

Outcome precision(const Value& value, const Settings&) {
  auto word = bits(value);
  return word.empty() ? left_out("a dtype is bf16, fp16 or fp32") : carried(word);
}

Outcome dtype(const Value& value, const Settings& all) { return dtype_of_run(bits(value), !has_unet(all) || !is_lora(all)); }

/// Our format for weights stored in few bits, "" for those that are not.
std::string format_of(const std::string& dtype) {
  if (dtype == "FLOAT_8") return "fp8_tensor";
  if (dtype == "FLOAT_W8A8") return "fp8";
  if (dtype == "INT_8" || dtype == "INT_W8A8") return "int8";
  return dtype == "NFLOAT_4" ? "nf4" : "";
}

std::string dtype_of(const Settings& all, const std::string& part) { return all.text(part + ".weight_dtype"); }

Outcome quantized_models(const Value& value, const Settings& all) {
  auto format = format_of(text_of(value));
  if (format.empty()) return left_out(bits(value).empty() && text_of(value) != "NONE" ? "weights are stored in fp8, int8 or nf4" : "");
  if (!is_lora(all)) return left_out("weights that train are not stored in few bits (trained_weights fp8 does that)");
  std::vector<std::string> parts{denoiser(all)};
  for (const char* part : {"text_encoder", "text_encoder_2"}) {
    if (format_of(dtype_of(all, part)) == format) parts.emplace_back(part);
  }
  return carried(join(parts, ","), text_of(value) == "INT_W8A8" ? "what they are multiplied with stays in the run's dtype" : "");
}

Outcome quantized_format(const Value& value, const Settings& all) {
  auto format = format_of(text_of(value));
  return format.empty() || !is_lora(all) ? left_out("") : carried(format);
}

Outcome adapter_type(const Value& value, const Settings& all) {
  if (!is_lora(all) || from_file(all)) return left_out("");
  auto type = lower(text_of(value));
  if (type == "loha" || type == "lokr") return carried(type);
  if (type != "lora") return left_out("adapters here are lora, dora, loha and lokr");
  return carried(all.on("lora_decompose") ? "dora" : "lora");
}

Outcome when_new(const Value& value, const Settings& all) {
  if (!is_lora(all)) return left_out("");
  return from_file(all) ? left_out("the file of lora_model_name decides it") : carried(value);
}

/// An expression that is looked for in a name, as one for the whole name.
std::string found_anywhere(std::string expression) {
  bool from_start = expression.starts_with('^'), to_end = expression.ends_with('$') && !expression.ends_with("\\$");
  expression = expression.substr(from_start, expression.size() - from_start - to_end);
  return (from_start ? "(" : ".*(") + expression + (to_end ? ")" : ").*");
}

/// Parts of layer names as one expression, for a list of names would be ends of names here.
Outcome layers(const Value& value, const Settings& all) {
  if (!is_lora(all) || from_file(all)) return left_out("");
  auto filter = text_of(value);
  if (filter.empty())
    return all.text("layer_filter_preset", "full") == "full" ? carried("all-linear", has_unet(all) ? "convolutions carry no adapter" : "")
                                                             : left_out("");
  std::vector<std::string> parts;
  if (all.on("layer_filter_regex")) {
    for (const auto& expression : split_list(filter)) parts.push_back(found_anywhere(expression));
    return carried(parts.size() == 1 ? parts[0] : "(" + join(parts, "|") + ")");
  }
  for (const auto& name : split_list(filter)) {
    std::string escaped;
    for (char c : name) escaped += c == '.' ? std::string("\\.") : std::string(1, c);
    parts.push_back(escaped);
  }
  return carried(".*(" + join(parts, "|") + ").*");
}

Outcome warmup(const Value& value, const Settings&) {
  auto number = number_of(value).value_or(0);
  if (number > 0 && number <= 1) return left_out("a share of a run whose steps are not known here; write lr_warmup_steps");
  return carried(std::round(number));
}

/// Sides of squares, one of which a picture takes at a visit: "512,768"; or one exact size: "768x512".
std::vector<std::string> resolutions(const Settings& all) {
  auto parts = split_list(all.text("resolution", "512"));
  for (auto& part : parts) std::replace(part.begin(), part.end(), 'x', ',');
  return parts;
}

Outcome resolution(const Value&, const Settings& all) {
  auto parts = resolutions(all);
  bool are_sizes = !parts.empty() && std::all_of(parts.begin(), parts.end(), [](const auto& part) { return !sides_of(part).empty(); });
  return are_sizes ? carried(parts) : left_out("is no size");
}

bool buckets(const Settings& all) {
  auto parts = resolutions(all);
  bool is_exact = parts.size() == 1 && parts[0].find(',') != std::string::npos;
  return !is_exact && (!all.has("aspect_ratio_bucketing") || all.on("aspect_ratio_bucketing"));
}

bool shuffles(const Settings& all) { return all.on("concept.text.enable_tag_shuffling"); }
bool drops_tags(const Settings& all) {
  return all.on("concept.text.tag_dropout_enable") && all.text("concept.text.tag_dropout_mode", "FULL") == "RANDOM";
}

Outcome sampling(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kFlow{
      {"UNIFORM", "sigma"},   {"LOGIT_NORMAL", "logit_normal"},           {"HEAVY_TAIL", "heavy_tail"},
      {"COS_MAP", "cos_map"}, {"INVERTED_PARABOLA", "inverted_parabola"}, {"BETA", "beta"},
      {"SIGMOID", "logistic"}};
  auto it = kFlow.find(text_of(value));
  if (it == kFlow.end()) return left_out("no such way to draw timesteps");
  if (has_unet(all)) return carried(it->second == "sigma" ? "uniform" : it->second);
  if (all.on("dynamic_timestep_shifting") && it->second == "logit_normal")
    return carried("flux_shift", "the shift that follows a picture's size is that of flux_shift");
  return carried(it->second);
}

bool is(const Settings& all, const char* distribution) { return all.text("timestep_distribution", "UNIFORM") == distribution; }

Outcome saves(const Value& value, const Settings& all, const std::string& unit, double factor) {
  return all.text("save_every_unit", "NEVER") == unit ? carried(number_of(value).value_or(0) * factor) : left_out("");
}

bool recognises(const Value& tree) {
  return tree.is_object() && (tree.contains("training_method") || tree.contains("base_model_name")) && tree.contains("model_type");
}

Arranged arrange(Value tree, const Open& open) {
  Arranged arranged{.tree = tree};
  auto& settings = arranged.tree;
  auto concepts = tree.value("concepts", Value());
  if (!concepts.is_array() && tree.contains("concept_file_name")) {
    concepts = open(text_of(tree["concept_file_name"]));
    if (concepts.is_array()) settings.erase("concept_file_name");
  }
  settings.erase("concepts");
  std::vector<std::pair<std::string, Value>> datasets;
  for (size_t i = 0; concepts.is_array() && i < concepts.size(); ++i) {
    const auto& one = concepts[i];
    if (!one.is_object() || !one.value("enabled", true)) continue;
    auto type = one.value("type", std::string("STANDARD"));
    auto name = "concepts[" + std::to_string(i) + "]";
    if (type == "VALIDATION") settings["validation_path"] = one.value("path", Value());
    else if (type == "STANDARD") datasets.emplace_back(name + ".path", one);
    else arranged.not_carried.push_back(name + ".type = " + type + ": class_metadata_path keeps what a model knows of a class");
  }
  settings["concept"] = first_of(datasets, arranged);
  return arranged;
}

void model_rows(Table& table) {
  table << kind_row("model_type",
                    {"stable_diffusion_15", "stable_diffusion_xl_10_base", "flux_dev_1", "flux_2", "qwen", "z_image", "chroma_1"});
  for (const char* name : {"vae.model_name", "unet.model_name", "transformer.model_name"}) {
    table << rewritten(name, "model", [](const Value& value, const Settings&) {
      if (text_of(value).starts_with("https://")) return left_out("fetch the file, and name it in model before the others");
      return asks_for_something(value) ? carried(value) : left_out("");
    });
  }
  table << same("base_model_name", "model") << rewritten("train_dtype", "dtype", dtype, "FLOAT_16");
  for (const char* name : {"unet.weight_dtype", "transformer.weight_dtype"}) {
    auto of_this = [part = std::string(name).substr(0, std::string(name).find('.'))](auto convert) {
      return [part, convert](const Value& value, const Settings& all) { return part == part_of(all) ? convert(value, all) : left_out(""); };
    };
    table << rewritten(name, "fp8_models", of_this(quantized_models)) << rewritten(name, "weight_format", of_this(quantized_format));
    table << rewritten(name, "fp8_compute", of_this([](const Value& value, const Settings& all) {
                         return text_of(value) == "FLOAT_W8A8" && is_lora(all) ? carried(true) : left_out("");
                       }));
  }
  auto encoder = [](const std::string& part) {
    return [part](const Value& value, const Settings& all) {
      auto format = format_of(text_of(value)), of_denoiser = format_of(dtype_of(all, part_of(all)));
      return left_out(format.empty() || format == of_denoiser ? "" : "all models that are stored in few bits have one weight_format");
    };
  };
  for (const std::string part : {"text_encoder", "text_encoder_2"}) table << rewritten(part + ".weight_dtype", "", encoder(part));
  table << rewritten("force_v_prediction", "prediction_type", [](const Value& value, const Settings&) {
    return asks_for_something(value) ? carried("v_prediction") : left_out("");
  });
  table << rewritten("force_epsilon_prediction", "prediction_type",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried("epsilon") : left_out(""); });
  table << rewritten("rescale_noise_scheduler_to_zero_terminal_snr", "zero_terminal_snr",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); });
  table << same("transformer.guidance_scale", "embedded_guidance");
  table << no_place({"text_encoder_layer_skip", "text_encoder_2_layer_skip"}, "clip_skip counts layers from the last, which is 1");
  table << no_place({"vae_override", "force_circular_padding", "custom_conditioning_image"}, "no option of the models here");
}

void adapter_rows(Table& table) {
  table << rewritten("peft_type", "lora_type", adapter_type, "LORA");
  table << rewritten(
      "lora_decompose_output_axis", "dora_norm",
      [](const Value& value, const Settings& all) {
        bool dora = is_lora(all) && all.on("lora_decompose") && !from_file(all);
        return dora ? carried(asks_for_something(value) ? "output" : "input") : left_out("");
      },
      false);
  table << rewritten("training_method", "lora_base_model",
                     [](const Value&, const Settings& all) { return is_lora(all) ? carried(trained_parts(all)) : left_out(""); });
  table << rewritten(
      "training_method", "trainable_models",
      [](const Value& value, const Settings& all) {
        if (is_lora(all)) return left_out("");
        if (text_of(value) == "EMBEDDING")
          return left_out(
              "embeddings are not trained here, and what is carried would train an adapter of the denoiser; the nearest is one "
              "of the text encoder, lora_base_model text_encoder");
        return text_of(value) == "FINE_TUNE" ? carried(trained_parts(all)) : left_out("models train whole or under adapters");
      },
      "FINE_TUNE");
  table << rewritten("lora_model_name", "lora_checkpoint",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  table << rewritten("lora_rank", "lora_rank", when_new, 16) << rewritten("lora_alpha", "lora_alpha", when_new, 1.0);
  table << rewritten("dropout_probability", "lora_dropout",
                     [](const Value& value, const Settings& all) { return is_lora(all) ? carried(value) : left_out(""); });
  table << rewritten("layer_filter", "lora_target_modules", layers, "");
  table << rewritten("lokr_decompose_factor", "lokr_factor", when_new);
  table << words("output_model_format", "lora_format",
                 {{"diffusers_lora", "diffusers"},
                  {"kohya_lora", "kohya"},
                  {"safetensors", "auto"},
                  {"original_lora", "auto"},
                  {"comfy_lora", "auto"},
                  {"legacy_lora", "auto"}},
                 "files have diffusers' names");
  table << needless({"lora_decompose", "lora_decompose_norm_epsilon", "lora_weight_dtype", "layer_filter_preset", "layer_filter_regex",
                     "bundle_additional_embeddings", "lokr_dim", "lokr_decompose_both", "lokr_use_tucker", "lokr_weight_decompose",
                     "lokr_dora_on_output", "lokr_full_matrix", "lokr_vec_trick", "oft_block_size", "oft_block_share", "oft_scaled"});
}

void data_rows(Table& table) {
  table << same("concept.path", "dataset_metadata_path") << same("validation_path", "validation_metadata_path");
  table << same("dataloader_threads", "dataset_num_workers");
  table << rewritten("concept.balancing", "dataset_repeat", [](const Value& value, const Settings& all) {
    auto number = number_of(value).value_or(1);
    bool repeats = all.text("concept.balancing_strategy", "REPEATS") == "REPEATS" && number >= 1 && number == std::floor(number);
    return repeats ? carried(number) : left_out("a sample is visited a whole number of times in an epoch (dataset_repeat)");
  });
  table << rewritten("concept.text.prompt_source", "", [](const Value& value, const Settings&) {
    return left_out(text_of(value) == "sample" ? "" : "captions are in a text file beside each picture, or in a metadata file");
  });
  table << same("concept.image.enable_random_flip", "random_flip");
  table << rewritten("concept.image.enable_crop_jitter", "", [](const Value&, const Settings&) { return left_out(""); });
  table << rewritten("concept.loss_weight", "", [](const Value& value, const Settings&) {
    return left_out(number_of(value) == 1.0 ? "" : "give the dataset its loss_weight in a dataset_config");
  });
  auto if_tags_change = [](const Value& value, const Settings& all) {
    return shuffles(all) || drops_tags(all) ? carried(value) : left_out("");
  };
  table << rewritten("concept.text.enable_tag_shuffling", "shuffle_caption",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); });
  table << rewritten("concept.text.tag_delimiter", "caption_separator", if_tags_change)
        << rewritten("concept.text.keep_tags_count", "keep_tokens", if_tags_change);
  table << rewritten("concept.text.tag_dropout_enable", "caption_tag_dropout_rate", [](const Value& value, const Settings& all) {
    if (!asks_for_something(value)) return left_out("");
    return drops_tags(all) ? carried(all.number("concept.text.tag_dropout_probability").value_or(0))
                           : left_out("tags are left out one by one, as by the mode RANDOM (caption_tag_dropout_rate)");
  });
  table << looked_at({"concept.text.tag_dropout_mode", "concept.text.tag_dropout_probability"});
  table << no_place({"concept.text.caps_randomize_enable"}, "letters stay as they are written");
  table << no_place({"concept.image.enable_resolution_override"}, "give the dataset its own resolution in a dataset_config");
  table << no_place(
      {"concept.image.enable_fixed_flip", "concept.image.enable_random_rotate", "concept.image.enable_fixed_rotate",
       "concept.image.enable_random_brightness", "concept.image.enable_fixed_brightness", "concept.image.enable_random_contrast",
       "concept.image.enable_fixed_contrast", "concept.image.enable_random_saturation", "concept.image.enable_fixed_saturation",
       "concept.image.enable_random_hue", "concept.image.enable_fixed_hue", "concept.image.enable_random_circular_mask_shrink",
       "concept.image.enable_random_mask_rotate_crop"},
      "pictures are cropped and mirrored, not changed otherwise");
  table << needless({"concept.name", "concept.seed", "concept.enabled", "concept.type", "concept.include_subdirectories",
                     "concept.image_variations", "concept.text_variations", "concept.concept_stats.*", "concept.balancing_strategy",
                     "concept.image.*", "concept.text.*"});
  table << no_place({"concept_file_name"}, "cannot be read from here; name the folder of pictures in dataset_metadata_path");
  table << rewritten("resolution", "resolution", resolution, "512");
  table << rewritten("resolution", "multi_resolution",
                     [](const Value&, const Settings& all) { return resolutions(all).size() > 1 ? carried("one") : left_out(""); });
  table << no_place({"frames"}, "");
  auto if_buckets = [](Value ours) {
    return [ours](const Value&, const Settings& all) { return buckets(all) ? carried(ours) : left_out(""); };
  };
  table << rewritten("aspect_ratio_bucketing", "enable_bucket", if_buckets(true), true)
        << rewritten("aspect_ratio_bucketing", "bucket_rule", if_buckets("onetrainer"), true)
        << rewritten("aspect_ratio_bucketing", "bucket_no_upscale", if_buckets(false), true);
}

void loss_rows(Table& table) {
  table << rewritten("timestep_distribution", "timestep_sampling", sampling, "UNIFORM");
  table << rewritten("noising_bias", "logit_mean", [](const Value& value, const Settings& all) {
    return is(all, "LOGIT_NORMAL") ? carried(-number_of(value).value_or(0)) : left_out("");
  });
  table << rewritten("noising_weight", "logit_std", [](const Value& value, const Settings& all) {
    return is(all, "LOGIT_NORMAL") ? carried(number_of(value).value_or(0) + 1) : left_out("");
  });
  table << rewritten(
      "noising_weight", "mode_scale",
      [](const Value& value, const Settings& all) { return is(all, "HEAVY_TAIL") ? carried(value) : left_out(""); }, 0.0);
  auto by_table = [](const Value& value, const Settings& all) {
    return is(all, "BETA") || is(all, "INVERTED_PARABOLA") || is(all, "SIGMOID") ? carried(value) : left_out("");
  };
  table << rewritten("noising_weight", "noising_weight", by_table) << rewritten("noising_bias", "noising_bias", by_table);
  table << rewritten(
      "timestep_shift", "discrete_flow_shift",
      [](const Value& value, const Settings& all) { return has_unet(all) ? left_out("") : carried(value); }, 1.0);
  table << rewritten("dynamic_timestep_shifting", "", [](const Value& value, const Settings& all) {
    return left_out(!asks_for_something(value) || is(all, "LOGIT_NORMAL") ? ""
                                                                          : "only timestep_sampling flux_shift follows a picture's size");
  });
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0))); };
  table << rewritten("min_noising_strength", "max_timestep_boundary", share);
  table << rewritten("max_noising_strength", "min_timestep_boundary", share);
  table << words("loss_weight_fn", "loss_weighting",
                 {{"constant", "uniform"}, {"min_snr_gamma", "uniform"}, {"debiased_estimation", "debiased"}}, "no such weights of losses",
                 "CONSTANT");
  table << rewritten("loss_weight_fn", "min_snr_gamma", [](const Value& value, const Settings& all) {
    return text_of(value) == "MIN_SNR_GAMMA" ? carried(all.number("loss_weight_strength").value_or(5)) : left_out("");
  });
  table << looked_at({"loss_weight_strength", "vb_loss_strength", "huber_delta", "training_method"});
  table << rewritten("mse_strength", "", [](const Value& value, const Settings&) {
    return left_out(number_of(value) == 1.0 ? "" : "the loss is the mean square, or loss_type huber or smooth_l1");
  });
  table << no_place({"mae_strength", "log_cosh_strength", "huber_strength"},
                    "the loss is the mean square, or loss_type huber or smooth_l1");
  table << rewritten("offset_noise_weight", "noise_offset",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  table << no_place({"generalized_offset_noise", "perturbation_noise_weight"}, "this noise is not there");
  auto masked = [](const Value& value, const Settings& all) { return all.on("masked_training") ? carried(value) : left_out(""); };
  table << rewritten("masked_training", "masked_loss", [](const Value& value, const Settings&) {
    return asks_for_something(value) ? carried("column", "masks are named in the column `mask` of a metadata file, not by -masklabel")
                                     : left_out("");
  });
  table << rewritten("unmasked_weight", "unmasked_weight", masked, 0.1);
  table << rewritten("normalize_masked_area_loss", "normalize_masked_area_loss", masked);
  table << rewritten("unmasked_probability", "", [](const Value&, const Settings& all) {
    return left_out(all.on("masked_training") ? "a mask counts at every visit" : "");
  });
  table << no_place({"masked_prior_preservation_weight"}, "what lies outside of a mask is not compared with the model before training");
}

void optimizer_rows(Table& table) {
  table << rewritten(
      "optimizer.optimizer", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all);
        if (name.empty())
          return left_out("no such optimizer; docs/optimizers.md lists those there are, prodigy finds its own learning rate too");
        return carried(name, text_of(value) == "LION_8BIT" ? "states are not held in 8 bits" : "");
      },
      "ADAMW");
  table << rewritten("optimizer.optimizer", "optimizer_args", [](const Value&, const Settings& all) {
    static const std::map<std::string, std::vector<std::string>> kTaken{
        {"adamw", {"beta1", "beta2", "eps"}},
        {"adamw8bit", {"beta1", "beta2", "eps"}},
        {"lion", {"beta1", "beta2"}},
        {"prodigy",
         {"beta1", "beta2", "beta3", "eps", "d0", "d_coef", "growth_rate", "use_bias_correction", "safeguard_warmup", "slice_p"}},
        {"prodigy_schedulefree", {"beta1", "beta2", "beta3", "eps", "d0", "d_coef"}},
        {"adamw_schedulefree", {"beta1", "beta2", "eps", "r", "weight_lr_power"}},
        {"adafactor", {"beta1", "clip_threshold", "decay_rate", "relative_step", "scale_parameter", "warmup_init"}},
        {"came", {"beta1", "beta2", "beta3", "clip_threshold"}},
        {"muon", {"momentum", "nesterov", "ns_steps"}}};
    std::vector<std::string> entries;
    auto taken = kTaken.find(optimizer_of(all));
    if (taken == kTaken.end()) return left_out("");
    for (const auto& name : taken->second) {
      if (all.has("optimizer." + name)) entries.push_back(name + "=" + all.text("optimizer." + name));
    }
    return entries.empty() ? left_out("") : carried(join(entries, ","));
  });
  table << weight_decay_row("optimizer.weight_decay", optimizer_of);
  table << rewritten("optimizer.fused_back_pass", "fused_backward_pass",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); });
  table << needless({"optimizer.*"});
  table << words("learning_rate_scheduler", "lr_scheduler",
                 {{"constant", "constant"},
                  {"linear", "linear"},
                  {"cosine", "cosine"},
                  {"cosine_with_restarts", "cosine"},
                  {"cosine_with_hard_restarts", "cosine_with_restarts"},
                  {"rex", "rex"}},
                 "no such schedule");
  table << rewritten("learning_rate_warmup_steps", "lr_warmup_steps", warmup, 200);
  table << rewritten("learning_rate_cycles", "lr_scheduler_num_cycles", [](const Value& value, const Settings& all) {
    return all.text("learning_rate_scheduler") == "COSINE_WITH_HARD_RESTARTS" ? carried(value) : left_out("");
  });
  table << same("learning_rate_min_factor", "lr_scheduler_min_lr_ratio");
  table << no_place({"learning_rate_scaler"}, "learning rates are taken as they are given");
  table << no_place({"custom_learning_rate_scheduler", "scheduler_params"}, "no such schedule");
}

void train_rows(Table& table) {
  auto same_but = [](const Value& value, const Settings&) { return carried(value); };
  table << rewritten(
      "learning_rate", "learning_rate",
      [](const Value& value, const Settings& all) {
        return all.has(part_of(all) + ".learning_rate") ? left_out("the denoiser's own takes its place") : carried(value);
      },
      3e-6);
  for (const std::string part : {"unet", "transformer"}) {
    table << rewritten(part + ".learning_rate", "learning_rate",
                       [part](const Value& value, const Settings& all) { return part == part_of(all) ? carried(value) : left_out(""); });
  }
  table << rewritten("text_encoder.learning_rate", "text_encoder_lr", [](const Value& value, const Settings& all) {
    return trains(all, "text_encoder") ? carried("text_encoder=" + text_of(value)) : left_out("");
  });
  table << rewritten("epochs", "num_epochs", same_but, 100) << same("batch_size", "batch_size");
  table << same("gradient_accumulation_steps", "gradient_accumulation_steps")
        << rewritten("clip_grad_norm", "max_grad_norm", same_but, 1.0);
  table << rewritten(
      "gradient_checkpointing", "use_gradient_checkpointing",
      [](const Value& value, const Settings&) { return carried(asks_for_something(value)); }, "ON");
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing_offload",
                     [](const Value& value, const Settings&) { return text_of(value) == "CPU_OFFLOADED" ? carried(true) : left_out(""); });
  table << no_place({"layer_offload_fraction"}, "say in blocks_to_swap how many blocks wait in main memory");
  table << looked_at({"enable_activation_offloading"});
  table << rewritten("ema_decay", "ema_decay",
                     [](const Value& value, const Settings& all) { return all.on("ema") ? carried(value) : left_out(""); });
  table << rewritten("ema", "ema_decay", [](const Value& value, const Settings& all) {
    return asks_for_something(value) && !all.has("ema_decay") ? carried(0.999) : left_out("");
  });
  table << rewritten("ema_update_step_interval", "", [](const Value& value, const Settings& all) {
    return left_out(all.on("ema") && number_of(value) != 1.0 ? "averages are updated at every step" : "");
  });
  table << no_place({"multi_gpu"}, "who starts the processes says how many: burnish launch -n 2 -- train")
        << no_place({"only_cache"}, "`burnish cache` makes a cache");
  table << no_place({"additional_embeddings", "embedding_learning_rate", "preserve_embedding_norm"}, "embeddings are not trained");
}

void run_rows(Table& table) {
  table << rewritten("output_model_destination", "output_path", [](const Value& value, const Settings&) {
    auto path = std::filesystem::path(text_of(value));
    return path.empty() ? left_out("") : carried(path.replace_extension("").string(), "a folder here; files in it are step-N.safetensors");
  });
  table << rewritten("output_dtype", "save_dtype", precision, "FLOAT_32");
  table << rewritten("save_every", "save_steps", [](const Value& value, const Settings& all) { return saves(value, all, "STEP", 1); });
  table << rewritten("save_every", "save_epochs", [](const Value& value, const Settings& all) { return saves(value, all, "EPOCH", 1); });
  table << rewritten("save_every", "save_minutes", [](const Value& value, const Settings& all) {
    return all.text("save_every_unit") == "HOUR" ? saves(value, all, "HOUR", 60) : saves(value, all, "MINUTE", 1);
  });
  table << rewritten(
      "tensorboard", "enable_tensorboard_log", [](const Value& value, const Settings&) { return carried(value); }, true);
  table << no_place({"samples", "sample_definition_file_name"},
                    "write prompts a line each in a file, and name it in preview_prompts (with preview_steps)");
  table << rewritten("validation", "", [](const Value& value, const Settings& all) {
    return left_out(asks_for_something(value) && !all.has("validation_path") ? "name held-out samples in validation_metadata_path" : "");
  });
  table << no_place({"continue_last_backup"}, "backups of other programs are not read; --resume goes on with a run of burnish");
  table << no_place({"cloud.enabled"}, "runs are started where they train");
  table << rewritten("sample_after", "", [](const Value& value, const Settings& all) {
    auto unit = all.text("sample_after_unit", "MINUTE");
    return left_out(unit == "STEP" ? "say preview_steps " + text_of(value) + " with preview_prompts" : "");
  });
  table << same("seed", "seed");
  // Parts that models here do not have.
  for (const std::string part : {"prior", "decoder", "decoder_text_encoder", "decoder_vqgan", "effnet_encoder", "text_encoder_3",
                                 "text_encoder_4", "unet", "transformer", "text_encoder", "text_encoder_2", "vae", "embedding"})
    table << needless({part + ".*"});
  // What is settled here, or is no business of training.
  table << needless({"__version",
                     "workspace_dir",
                     "cache_dir",
                     "debug_mode",
                     "debug_dir",
                     "secrets.*",
                     "cloud.*",
                     "quantization.*",
                     "optimizer_defaults.*",
                     "tensorboard_expose",
                     "tensorboard_always_on",
                     "tensorboard_port",
                     "validate_after",
                     "validate_after_unit",
                     "include_train_config",
                     "train_device",
                     "temp_device",
                     "enable_async_offloading",
                     "enable_autocast_cache",
                     "fallback_train_dtype",
                     "weight_dtype",
                     "svd_dtype",
                     "svd_rank",
                     "latent_caching",
                     "clear_cache_before_training",
                     "compile",
                     "attention_mechanism",
                     "device_indexes",
                     "gradient_reduce_precision",
                     "fused_gradient_reduce",
                     "async_gradient_reduce",
                     "async_gradient_reduce_buffer",
                     "sample_after_unit",
                     "sample_skip_first",
                     "sample_image_format",
                     "sample_video_format",
                     "sample_audio_format",
                     "samples_to_tensorboard",
                     "non_ema_sampling",
                     "backup_after",
                     "backup_after_unit",
                     "rolling_backup",
                     "rolling_backup_count",
                     "backup_before_save",
                     "save_every_unit",
                     "save_skip_first",
                     "save_filename_prefix"});
  table << no_place({"*"}, "not known here");
}

Table table() {
  Table table;
  model_rows(table);
  adapter_rows(table);
  data_rows(table);
  loss_rows(table);
  optimizer_rows(table);
  train_rows(table);
  run_rows(table);
  return table;
}

}  // namespace
}  // namespace of_onetrainer

Program onetrainer() {
  using namespace of_onetrainer;
  return {"onetrainer", "OneTrainer", recognises, arrange, table};
}

}  // namespace burnish::foreign
