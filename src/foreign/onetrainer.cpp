#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/onetrainer_rows.h"
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
/// Text encoders of these do not train there.
bool encoder_may_train(const Settings& all) {
  static const std::vector<std::string> kFrozen{"z_image", "flux_2", "krea_2", "anima", "ernie", "ideogram_4"};
  return !contains(kFrozen, lower(all.text("model_type")));
}
constexpr int64_t kWholeRank = 1000000;  ///< above every layer's sides, so that LoKr's second factor is whole
bool is_lora(const Settings& all) { return all.text("training_method", "FINE_TUNE") == "LORA"; }
bool from_file(const Settings& all) { return all.on("lora_model_name"); }

/// Parts train unless the settings say otherwise.
bool trains(const Settings& all, const std::string& part) {
  if (part == "text_encoder" && !encoder_may_train(all)) return false;
  if (part == "text_encoder_2" && !has_second_encoder(all)) return false;
  return !all.has(part + ".train") || all.on(part + ".train");
}

/// Its optimizers that know no end of a run: no schedule counts for them.
bool is_schedule_free(const Settings& all) { return optimizer_of(all).ends_with("schedulefree"); }

double batches_per_update(const Settings& all) { return std::max(1.0, all.number("gradient_accumulation_steps").value_or(1)); }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (trains(all, part_of(all))) parts.push_back(denoiser(all));
  if (trains(all, "text_encoder")) parts.emplace_back("text_encoder");
  if (trains(all, "text_encoder_2")) parts.emplace_back("text_encoder_2");
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
  return carried(join(parts, ","));
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

std::string peft_type(const Settings& all) { return lower(all.text("peft_type", "LORA")); }

/// LoKr has a rank of its own, and none where its second factor is whole.
Outcome rank(const Value& value, const Settings& all) { return peft_type(all) == "lokr" ? left_out("") : when_new(value, all); }

Outcome rank_of_lokr(const Value& value, const Settings& all) {
  if (peft_type(all) != "lokr") return left_out("");
  return when_new(all.on("lokr_full_matrix") ? Value(kWholeRank) : value, all);
}

Convert of_lokr(const std::string& why) {
  return [why](const Value& value, const Settings& all) {
    return left_out(is_lora(all) && peft_type(all) == "lokr" && asks_for_something(value) ? why : "");
  };
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

/// Batches, not updates; up to 1 a share of the run.
Outcome warmup(const Value& value, const Settings& all) {
  auto number = number_of(value).value_or(0);
  if (number <= 0 || is_schedule_free(all)) return left_out("");
  if (number <= 1) return left_out("");
  auto steps = std::floor(number / batches_per_update(all));
  return carried(steps, note_on_warmup(steps));
}

/// Of a run's updates, whatever they come to.
Outcome warmup_share(const Value& value, const Settings& all) {
  auto number = is_schedule_free(all) ? 0 : number_of(value).value_or(0);
  return number > 0 && number <= 1 ? carried(number, note_on_warmup(1)) : left_out("");
}

/// Whole waves of a cosine end at the full rate, hard restarts are halves: one half is a plain cosine.
Outcome schedule(const Value& value, const Settings& all) {
  static const std::map<std::string, std::string> kSchedules{{"constant", "constant"},
                                                             {"linear", "linear"},
                                                             {"cosine", "cosine"},
                                                             {"cosine_with_hard_restarts", "cosine_with_restarts"},
                                                             {"rex", "rex"}};
  auto word = lower(text_of(value));
  auto cycles = all.number("learning_rate_cycles").value_or(1);
  if (is_schedule_free(all)) return carried("constant");
  if (word == "cosine_with_restarts") {
    if (cycles == 0.5) return carried("cosine");
    return left_out(
        fmt::format("falls and rises in {:g} whole waves and ends at the full rate, which no schedule here does: the rate stays "
                    "constant; cosine_with_restarts falls in each cycle and starts again at the top",
                    cycles));
  }
  if (word == "cosine_with_hard_restarts" && cycles != std::floor(cycles))
    return left_out("has a part of a cycle, and cycles are whole here: the rate stays constant");
  auto it = kSchedules.find(word);
  return it == kSchedules.end() ? left_out("no such schedule: the rate stays constant") : carried(it->second);
}

bool has_curve(const Settings& all) {
  auto word = lower(all.text("learning_rate_scheduler", "CONSTANT"));
  auto ours = schedule(Value(word), all);
  return ours.value && *ours.value != "constant";
}

/// The learning rate as its scaler has it: times the root of a batch's samples, or batches.
Outcome rate(const Value& value, const Settings& all) {
  auto scaler = all.text("learning_rate_scaler", "NONE");
  double batch = all.number("batch_size").value_or(1), factor = 1;
  if (scaler == "BATCH" || scaler == "GLOBAL_BATCH") factor = batch;
  if (scaler == "GRADIENT_ACCUMULATION") factor = batches_per_update(all);
  if (scaler == "BOTH" || scaler == "GLOBAL_BOTH") factor = batch * batches_per_update(all);
  auto number = number_of(value);
  if (!number || factor == 1) return carried(value);
  return carried(*number * std::sqrt(factor), "times the root of " + fmt::format("{:g}", factor) + ", by learning_rate_scaler");
}

/// Sides of squares, one of which a picture takes at a visit: "512,768"; or one exact size: "768x512". A concept may have its own.
std::vector<std::string> resolutions(const Settings& all) {
  const char* name = all.on("concept.image.enable_resolution_override") ? "concept.image.resolution_override" : "resolution";
  auto parts = split_list(all.text(name, "512"));
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

/// Whether a folder has folders in it, as far as that can be told.
bool may_have_folders(const std::string& path) {
  std::error_code failed;
  std::filesystem::directory_iterator entries(path, failed);
  if (failed) return true;
  return std::any_of(begin(entries), end(entries), [](const auto& entry) { return entry.is_directory(); });
}

Outcome saves(const Value& value, const Settings& all, const std::string& unit, double factor) {
  return all.text("save_every_unit", "NEVER") == unit ? carried(number_of(value).value_or(0) * factor) : left_out("");
}

void model_rows(Table& table) {
  table << kind_row("model_type", {"stable_diffusion_15", "stable_diffusion_xl_10_base", "flux_dev_1", "flux_2", "qwen", "z_image",
                                   "chroma_1", "krea_2", "anima", "ernie", "ideogram_4"});
  auto file = [](const Value& value, const Settings&) {
    if (text_of(value).starts_with("https://")) return left_out("fetch the file, and name it in model before the others");
    return asks_for_something(value) ? carried(value) : left_out("");
  };
  for (const char* name : {"vae.model_name", "unet.model_name", "transformer.model_name"}) table << rewritten(name, "model", file);
  table << same("base_model_name", "model").otherwise("stable-diffusion-v1-5/stable-diffusion-v1-5")
        << rewritten("train_dtype", "dtype", dtype, "FLOAT_16");
  for (const char* name : {"unet.weight_dtype", "transformer.weight_dtype"}) {
    auto of_this = [part = std::string(name).substr(0, std::string(name).find('.'))](auto convert) {
      return [part, convert](const Value& value, const Settings& all) { return part == part_of(all) ? convert(value, all) : left_out(""); };
    };
    table << rewritten(name, "fp8_models", of_this(quantized_models)) << rewritten(name, "weight_format", of_this(quantized_format));
    for (const char* products : {"FLOAT_W8A8", "INT_W8A8"})
      table << rewritten(name, *products == 'F' ? "fp8_compute" : "int8_compute",
                         of_this([products](const Value& value, const Settings& all) {
                           return text_of(value) == products && is_lora(all) ? carried(true) : left_out("");
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
  table << rewritten(
      "transformer.guidance_scale", "embedded_guidance",
      [](const Value& value, const Settings& all) { return has_unet(all) ? left_out("") : carried(value); }, 1.0);
  auto skipped = [](const Value& value, const Settings& all) {
    auto count = number_of(value).value_or(0), second = all.number("text_encoder_2_layer_skip").value_or(0);
    bool xl = lower(all.text("model_type")).find("diffusion_xl") != std::string::npos;
    if (count == 0 && (!xl || second == 0)) return left_out("");
    if (!has_unet(all)) return left_out("clip_skip is for SD 1.5 and SDXL");
    if (xl && count != second) return left_out("clip_skip is one for both text encoders");
    return carried(count + (xl ? 2 : 1));
  };
  table << rewritten("text_encoder_layer_skip", "clip_skip", skipped, 0);
  table << rewritten("text_encoder_2_layer_skip", "", [](const Value& value, const Settings& all) {
    bool xl = lower(all.text("model_type")).find("diffusion_xl") != std::string::npos;
    auto count = number_of(value).value_or(0);
    bool told = count != 0 && (!xl || count != all.number("text_encoder_layer_skip").value_or(0));
    return left_out(told ? "clip_skip is one for both text encoders, and for CLIP alone" : "");
  });
  auto read_by = [](std::vector<std::string> types) {
    return [types = std::move(types)](const Value& value, const Settings& all) {
      return contains(types, lower(all.text("model_type"))) ? carried(value) : left_out("");
    };
  };
  table << rewritten("text_encoder_sequence_length", "max_sequence_length", read_by({"flux_2"}), 512);
  table << rewritten("text_encoder_2_sequence_length", "max_sequence_length", read_by({"flux_dev_1"}), 77);
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
        if (is_onetrainer_embedding(all)) return left_out("");
        return text_of(value) == "FINE_TUNE" ? carried(trained_parts(all)) : left_out("models train whole or under adapters");
      },
      "FINE_TUNE");
  table << rewritten("lora_model_name", "lora_checkpoint",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  table << rewritten("lora_rank", "lora_rank", rank, 16) << rewritten("lokr_dim", "lora_rank", rank_of_lokr, 16);
  table << rewritten("lora_alpha", "lora_alpha", when_new, 1.0);
  table << rewritten(
      "dropout_probability", "lora_dropout",
      [](const Value& value, const Settings& all) { return is_lora(all) ? carried(value) : left_out(""); }, 0.0);
  table << rewritten("layer_filter", "lora_target_modules", layers, "");
  table << rewritten(
      "lokr_decompose_factor", "lokr_factor",
      [](const Value& value, const Settings& all) { return peft_type(all) == "lokr" ? when_new(value, all) : left_out(""); }, -1);
  table << rewritten("lokr_decompose_both", "", of_lokr("the first factor of LoKr is whole here")).otherwise(false);
  table << rewritten("lokr_use_tucker", "", of_lokr("kernels of convolutions are not in Tucker form here")).otherwise(false);
  table << rewritten("lokr_weight_decompose", "", of_lokr("DoRA is on LoRA alone")).otherwise(false);
  table << words("output_model_format", "lora_format",
                 {{"diffusers_lora", "diffusers"},
                  {"kohya_lora", "kohya"},
                  {"safetensors", "auto"},
                  {"original_lora", "auto"},
                  {"comfy_lora", "auto"},
                  {"legacy_lora", "auto"},
                  {"legacy_safetensors", "auto"}},
                 "files have diffusers' names", "SAFETENSORS");
  table << rewritten("lora_weight_dtype", "", [](const Value& value, const Settings& all) {
             return left_out(
                 !is_lora(all) || bits(value) == "fp32" ? "" : "adapters are kept in fp32 (trained_weights says how bf16 is rounded)");
           }).otherwise("FLOAT_32");
  for (const char* name : {"oft_block_size", "oft_block_share", "oft_scaled"})
    table << rewritten(name, "", [](const Value&, const Settings& all) {
      return left_out(is_lora(all) && peft_type(all) == "oft_2" ? "a number of an adapter that is not carried" : "");
    });
  table << looked_at({"lora_decompose", "lokr_full_matrix", "layer_filter_regex", {"layer_filter_preset", "full"}});
  table << needless({{"lora_decompose_norm_epsilon", true}}, "it keeps norms of zero from being divided by, and weights have none");
  table << needless({{"lokr_dora_on_output", true}}, "lokr_weight_decompose alone reads it")
        << needless({{"lokr_vec_trick", true}}, "another order of the same products");
}

void data_rows(Table& table) {
  table << same("concept.path", "dataset_metadata_path") << same("validation_path", "validation_metadata_path");
  table << same("dataloader_threads", "dataset_num_workers").otherwise(2);
  table << rewritten("concept.balancing", "dataset_repeat", [](const Value& value, const Settings& all) {
             auto number = number_of(value).value_or(1);
             if (all.text("concept.balancing_strategy", "REPEATS") != "REPEATS")
               return left_out(
                   "says how many samples an epoch has; say how often it has each of them (num_repeats, which may be a fraction)");
             return number == std::floor(number) && number >= 1 ? carried(number) : left_out("");
           }).otherwise(1.0);
  table << rewritten("concept.text.prompt_source", "class_tokens", prompt_of_concept, "sample");
  table << rewritten(
      "concept.image.enable_crop_jitter", "random_crop",
      [](const Value& value, const Settings& all) {
        return asks_for_something(value) && all.has("concept.path") ? left_out(
                                                                          "pictures are cut at their centre, unless "
                                                                          "random_crop cuts them anywhere")
                                                                    : left_out("");
      },
      true);
  table << looked_at({{"concept.loss_weight", 1.0}});
  auto if_tags_change = [](const Value& value, const Settings& all) {
    return shuffles(all) || drops_tags(all) ? carried(value) : left_out("");
  };
  table << rewritten("concept.text.enable_tag_shuffling", "shuffle_caption",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); });
  table << rewritten("concept.text.tag_delimiter", "caption_separator", if_tags_change, ",")
        << rewritten("concept.text.keep_tags_count", "keep_tokens", if_tags_change, 1);
  table << rewritten("concept.text.tag_dropout_enable", "caption_tag_dropout_rate", [](const Value& value, const Settings& all) {
    if (!asks_for_something(value)) return left_out("");
    return drops_tags(all) ? carried(all.number("concept.text.tag_dropout_probability").value_or(0))
                           : left_out("tags are left out one by one, as by the mode RANDOM (caption_tag_dropout_rate)");
  });
  table << looked_at({{"concept.text.tag_dropout_mode", "FULL"}, {"concept.text.tag_dropout_probability", 0.0}});
  table << no_place({"concept.text.caps_randomize_enable"}, "letters stay as they are written");
  table << looked_at({{"concept.image.enable_resolution_override", false}, {"concept.image.resolution_override", "512"}});
  table << rewritten("concept.include_subdirectories", "", [](const Value& value, const Settings& all) {
             bool told = !asks_for_something(value) && all.has("concept.path") && may_have_folders(all.text("concept.path"));
             return left_out(told ? "pictures in folders below count here; move them away if there are any" : "");
           }).otherwise(false);
  table << onetrainer_concepts();
  table << rewritten("concept_file_name", "", [](const Value&, const Settings& all) {
             return left_out(all.has("concept.path") ? ""
                                                     : "is not there to be read; name the folder of pictures in dataset_metadata_path");
           }).otherwise("training_concepts/concepts.json");
  table << rewritten("resolution", "resolution", resolution, "512");
  table << rewritten("resolution", "multi_resolution",
                     [](const Value&, const Settings& all) { return resolutions(all).size() > 1 ? carried("one") : left_out(""); });
  table << needless({{"frames", "25"}}, "a sample is a picture");
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
             return is(all, "LOGIT_NORMAL") ? carried(0 - number_of(value).value_or(0)) : left_out("");
           }).otherwise(0.0);
  table << rewritten("noising_weight", "logit_std", [](const Value& value, const Settings& all) {
             return is(all, "LOGIT_NORMAL") ? carried(number_of(value).value_or(0) + 1) : left_out("");
           }).otherwise(0.0);
  table << rewritten(
      "noising_weight", "mode_scale",
      [](const Value& value, const Settings& all) { return is(all, "HEAVY_TAIL") ? carried(value) : left_out(""); }, 0.0);
  auto by_table = [](const Value& value, const Settings& all) {
    return is(all, "BETA") || is(all, "INVERTED_PARABOLA") || is(all, "SIGMOID") ? carried(value) : left_out("");
  };
  table << rewritten("noising_weight", "noising_weight", by_table, 0.0) << rewritten("noising_bias", "noising_bias", by_table, 0.0);
  table << rewritten(
      "timestep_shift", "discrete_flow_shift",
      [](const Value& value, const Settings& all) { return has_unet(all) ? left_out("") : carried(value); }, 1.0);
  table << rewritten("dynamic_timestep_shifting", "", [](const Value& value, const Settings& all) {
    return left_out(!asks_for_something(value) || is(all, "LOGIT_NORMAL") ? ""
                                                                          : "only timestep_sampling flux_shift follows a picture's size");
  });
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0))); };
  table << rewritten("min_noising_strength", "max_timestep_boundary", share, 0.0);
  table << rewritten("max_noising_strength", "min_timestep_boundary", share, 1.0);
  table << words("loss_weight_fn", "loss_weighting",
                 {{"constant", "uniform"}, {"min_snr_gamma", "uniform"}, {"debiased_estimation", "debiased"}}, "no such weights of losses",
                 "CONSTANT");
  table << rewritten("loss_weight_fn", "min_snr_gamma", [](const Value& value, const Settings& all) {
    return text_of(value) == "MIN_SNR_GAMMA" ? carried(all.number("loss_weight_strength").value_or(5)) : left_out("");
  });
  table << looked_at({{"loss_weight_strength", 5.0}, {"training_method", "FINE_TUNE"}});
  table << needless({{"vb_loss_strength", 1.0}}, "models that predict variances have it, and none here does")
        << needless({{"huber_delta", 1.0}}, "huber_strength asks for it, and that is told");
  table << rewritten("mse_strength", "", [](const Value& value, const Settings&) {
             return left_out(number_of(value) == 1.0 ? "" : "the loss is the mean square, or loss_type huber or smooth_l1");
           }).otherwise(1.0);
  table << no_place({{"loss_scaler", "NONE"}}, "losses are means; adaptive optimizers do not see a factor on all of them");
  table << no_place({"mae_strength", "log_cosh_strength", "huber_strength"},
                    "the loss is the mean square, or loss_type huber or smooth_l1");
  table << rewritten("offset_noise_weight", "noise_offset",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  table << no_place({"generalized_offset_noise", "perturbation_noise_weight"}, "this noise is not there");
  auto masked = [](const Value& value, const Settings& all) { return all.on("masked_training") ? carried(value) : left_out(""); };
  table << rewritten("masked_training", "masked_loss", [](const Value& value, const Settings&) {
    return asks_for_something(value)
               ? carried("column", "of a folder masks are read by -masklabel, else they are named in the column `mask` of a metadata file")
               : left_out("");
  });
  table << rewritten("unmasked_weight", "unmasked_weight", masked, 0.1);
  table << rewritten("normalize_masked_area_loss", "normalize_masked_area_loss", masked, false);
  table << rewritten("unmasked_probability", "", [](const Value&, const Settings& all) {
             return left_out(all.on("masked_training") ? "a mask counts at every visit" : "");
           }).otherwise(0.1);
  table << rewritten("masked_prior_preservation_weight", "masked_prior_preservation_weight", masked);
}

Outcome same_value(const Value& value, const Settings&) { return carried(value); }

void optimizer_rows(Table& table) {
  table << rewritten(
      "optimizer.optimizer", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all), given = lower(text_of(value));
        if (name.empty()) return left_out(kNoOptimizer);
        return carried(name, given == "lion_8bit" || given == "came_8bit" ? "states are not held in 8 bits" : "");
      },
      "ADAMW");
  table << rewritten(
      "optimizer.optimizer", "optimizer_args",
      [](const Value&, const Settings& all) {
        auto name = optimizer_of(all);
        std::map<std::string, std::string> others;
        if (name == "came") others = {{"beta3", "0.9999"}};
        if (name == "prodigy") others = {{"slice_p", "11"}};
        return optimizer_numbers(name, "optimizer.", all, others);
      },
      "ADAMW");
  table << rewritten(
      "optimizer.weight_decay", "weight_decay",
      [](const Value& value, const Settings& all) {
        auto theirs = lower(all.text("optimizer.optimizer", "ADAMW"));
        if (all.has("optimizer.weight_decay")) return of_optimizer(optimizer_of, same_value)(value, all);
        bool decays = theirs == "adamw" || theirs == "adamw_8bit" || theirs == "schedule_free_adamw" || optimizer_of(all).empty();
        return carried(decays ? 0.01 : 0.0);
      },
      0.0);
  table << optimizer_number_rows("optimizer.", optimizer_of);
  table << rewritten(
      "optimizer.fused_back_pass", "fused_backward_pass",
      [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); }, false);
  table << rewritten(
      "optimizer.stochastic_rounding", "trained_weights",
      [](const Value& value, const Settings& all) {
        auto weights = all.text(part_of(all) + ".weight_dtype", "FLOAT_32");
        if (is_lora(all) || all.text("training_method") == "EMBEDDING") return left_out("");
        if (bits(Value(weights)) == "fp32") return carried("remainder");  // weights in fp32, multiplied in train_dtype
        return carried(asks_for_something(value) ? "stochastic" : "nearest");
      },
      true);
  table << onetrainer_numbers(optimizer_of);
  table << rewritten("learning_rate_scheduler", "lr_scheduler", schedule, "CONSTANT");
  table << rewritten("learning_rate_warmup_steps", "lr_warmup_steps", warmup, 200.0)
        << rewritten("learning_rate_warmup_steps", "lr_warmup_ratio", warmup_share, 200.0);
  table << rewritten(
      "learning_rate_cycles", "lr_scheduler_num_cycles",
      [](const Value& value, const Settings& all) {
        auto cycles = number_of(value).value_or(1);
        bool hard = lower(all.text("learning_rate_scheduler")) == "cosine_with_hard_restarts" && has_curve(all);
        return hard && cycles == std::floor(cycles) ? carried(value) : left_out("");
      },
      1.0);
  table << rewritten(
      "learning_rate_min_factor", "lr_scheduler_min_lr_ratio",
      [](const Value& value, const Settings& all) { return has_curve(all) ? carried(value) : left_out(""); }, 0.0);
  table << looked_at({{"learning_rate_scaler", "NONE"}});
  table << no_place({"custom_learning_rate_scheduler", "scheduler_params"}, "no such schedule");
}

/// The rates of the text encoders that train; each without one of its own takes that of the run, not the denoiser's.
Outcome encoder_rates(const Value&, const Settings& all) {
  std::vector<std::string> rates;
  bool differ = all.has(part_of(all) + ".learning_rate");
  for (const std::string part : {"text_encoder", "text_encoder_2"}) {
    if (!trains(all, part)) continue;
    const auto* own = all.find(part + ".learning_rate");
    differ = differ || own;
    const auto* of_run = all.find("learning_rate");
    rates.push_back(part + "=" + text_of(*rate(own ? *own : of_run ? *of_run : Value(3e-6), all).value));
  }
  return differ && !rates.empty() ? carried(join(rates, ",")) : left_out("");
}

/// A part that stops training before the run ends; `theirs` ends in .stop_training_after.
Outcome stops(const std::string& part, double count, const Settings& all) {
  auto otherwise = part.starts_with("text_encoder") ? "EPOCH" : "NEVER";
  auto unit = all.text(part + ".stop_training_after_unit", otherwise);
  if (!trains(all, part) || unit == "NEVER") return left_out("");
  if (unit == "EPOCH" && count >= all.number("epochs").value_or(100)) return left_out("");
  return left_out(
      fmt::format("a part trains to the end here; train {:g} {}s with it, and go on without it from that file", count, lower(unit)));
}

void rate_rows(Table& table) {
  table << rewritten("learning_rate", "learning_rate",
                     of_optimizer(optimizer_of,
                                  [](const Value& value, const Settings& all) {
                                    return all.has(part_of(all) + ".learning_rate") ? left_out("") : rate(value, all);
                                  }),
                     3e-6);
  for (const std::string part : {"unet", "transformer"}) {
    table << rewritten(part + ".learning_rate", "learning_rate", [part](const Value& value, const Settings& all) {
      return part == part_of(all) ? of_optimizer(optimizer_of, rate)(value, all) : left_out("");
    });
  }
  auto rates = [](const Value& value, const Settings& all) { return optimizer_of(all).empty() ? left_out("") : encoder_rates(value, all); };
  table << rewritten("learning_rate", "text_encoder_lr", rates, 3e-6);
  for (const std::string part : {"text_encoder", "text_encoder_2"}) {
    table << rewritten(part + ".learning_rate", "text_encoder_lr", [part, rates](const Value& value, const Settings& all) {
      return trains(all, part) ? of_optimizer(optimizer_of, rates)(value, all) : left_out("");
    });
  }
}

/// Of the denoiser alone, and of the whole in older files.
void memory_rows(Table& table) {
  auto on = [](const Value& value, const Settings&) { return carried(asks_for_something(value)); };
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing", on);
  table << rewritten("gradient_checkpointing", "use_gradient_checkpointing_offload",
                     [](const Value& value, const Settings&) { return text_of(value) == "CPU_OFFLOADED" ? carried(true) : left_out(""); });
  const std::string why = "say in blocks_to_swap how many blocks wait in main memory";
  table << no_place({{"layer_offload_fraction", 0.0}}, why);
  table << looked_at({{"enable_activation_offloading", true}});
  for (const std::string part : {"unet", "transformer"}) {
    auto of_this = [part](Convert convert) {
      return [part, convert](const Value& value, const Settings& all) {
        return part == part_of(all) && !all.has("gradient_checkpointing") ? convert(value, all) : left_out("");
      };
    };
    table << rewritten(part + ".gradient_checkpointing", "use_gradient_checkpointing", of_this(on), true);
    table << rewritten(
        part + ".activation_offloading", "use_gradient_checkpointing_offload",
        of_this([](const Value& value, const Settings&) { return asks_for_something(value) ? carried(true) : left_out(""); }), false);
    table << rewritten(part + ".offload_fraction", "",
                       of_this([why](const Value& value, const Settings&) { return left_out(asks_for_something(value) ? why : ""); }), 0.0);
  }
}

void train_rows(Table& table) {
  rate_rows(table);
  memory_rows(table);
  table << rewritten("epochs", "num_epochs", same_value, 100);
  table << rewritten(
      "batch_size", "batch_size",
      [](const Value& value, const Settings&) {
        return carried(value, number_of(value).value_or(1) > 1
                                  ? "samples of a size that do not fill a batch are left out of an epoch there, and "
                                    "are a smaller batch here"
                                  : "");
      },
      1);
  table << rewritten("gradient_accumulation_steps", "gradient_accumulation_steps", same_value, 1)
        << rewritten("clip_grad_norm", "max_grad_norm", same_value, 1.0);
  table << rewritten(
      "ema_decay", "ema_decay",
      [](const Value& value, const Settings& all) {
        if (!all.on("ema")) return left_out("");
        auto interval = all.number("ema_update_step_interval").value_or(5);
        auto number = number_of(value);
        if (!number || interval <= 1) return carried(value);
        return carried(std::pow(*number, 1 / interval),
                       fmt::format("the average moves at every step, not at every {:g}: what it keeps of itself in {:g} steps is the same",
                                   interval, interval));
      },
      0.999);
  table << looked_at({{"ema", "OFF"}, {"ema_update_step_interval", 5}});
  table << no_place({{"multi_gpu", false}}, "who starts the processes says how many: burnish launch -n 2 -- train")
        << no_place({{"only_cache", false}}, "`burnish cache` makes a cache");
  for (const std::string part : {"unet", "transformer", "text_encoder", "text_encoder_2"}) {
    bool is_encoder = part.starts_with("text_encoder");
    table << rewritten(
        part + ".stop_training_after", "",
        [part](const Value& value, const Settings& all) {
          bool is_there = part.starts_with("text_encoder") || part == part_of(all);
          return is_there ? stops(part, number_of(value).value_or(0), all) : left_out("");
        },
        is_encoder ? 30 : 0);
    table << looked_at({{part + ".stop_training_after_unit", is_encoder ? "EPOCH" : "NEVER"}});
  }
}

/// What every part of a model has, but for what other rows carry.
void part_rows(Table& table) {
  const std::string absent_part = "a part that the models trained here do not have, or that does not train";
  for (const std::string part :
       {"prior", "decoder", "decoder_text_encoder", "decoder_vqgan", "effnet_encoder", "text_encoder_3", "text_encoder_4",
        "unconditional_transformer", "vae", "unet", "transformer", "text_encoder", "text_encoder_2"}) {
    bool is_denoiser = part == "unet" || part == "transformer", is_encoder = part == "text_encoder" || part == "text_encoder_2";
    bool is_other = !is_denoiser && !is_encoder;
    auto name = [&](const char* key) { return part + "." + key; };
    if (is_other) table << onetrainer_other_part(part);
    else table << looked_at({{name("train"), true}});
    if (is_encoder) {
      table << needless({name("model_name")}, "text encoders are read with base_model_name");
      table << needless({{name("gradient_checkpointing"), true}}, "use_gradient_checkpointing is for all that trains")
            << needless({{name("offload_fraction"), 0.0}, {name("activation_offloading"), false}},
                        "text encoders that are frozen are gone while training");
    }
    table << (is_other ? needless({{name("include"), true}}, absent_part)
                       : no_place({{name("include"), true}}, "a model is loaded with all its parts"));
    if (is_encoder) {
      table << rewritten(
          name("dropout_probability"), "caption_dropout",
          [part](const Value& value, const Settings& all) {
            if (!asks_for_something(value)) return left_out("");
            if (has_second_encoder(all))
              return left_out("each text encoder goes without its caption by itself; caption_dropout is for all of them");
            return part == "text_encoder" ? carried(value) : left_out("");
          },
          0.0);
    } else {
      table << needless({{name("dropout_probability"), 0.0}, {name("train_embedding"), true}}, "text encoders alone read it");
    }
    if (part == "transformer")
      table << rewritten(
          name("attention_mask"), "",
          [](const Value& value, const Settings& all) {
            bool told = asks_for_something(value) && lower(all.text("model_type")) == "flux_dev_1";
            return left_out(told ? "T5's padding is seen, as the model was trained" : "");
          },
          false);
    else table << needless({{name("attention_mask"), false}}, "the transformer alone reads it");
    if (part != "transformer") table << needless({{name("guidance_scale"), 1.0}}, "the transformer alone reads it");
  }
}

Outcome destination(const Value& value, const Settings&) {
  auto path = std::filesystem::path(text_of(value));
  return path.empty() ? left_out("") : carried(path.replace_extension("").string(), "a folder here; files in it are step-N.safetensors");
}

void run_rows(Table& table) {
  table << rewritten("output_model_destination", "output_path", destination, "models/model.safetensors");
  table << rewritten("output_dtype", "save_dtype", precision, "FLOAT_32");
  table << rewritten("save_every", "save_steps",
                     [](const Value& value, const Settings& all) { return saves(value, all, "STEP", 1 / batches_per_update(all)); });
  table << rewritten("save_every", "save_epochs", [](const Value& value, const Settings& all) { return saves(value, all, "EPOCH", 1); });
  table << rewritten("save_every", "save_minutes", [](const Value& value, const Settings& all) {
    auto unit = all.text("save_every_unit");
    return unit == "HOUR"     ? saves(value, all, "HOUR", 60)
           : unit == "SECOND" ? saves(value, all, "SECOND", 1. / 60)
                              : saves(value, all, "MINUTE", 1);
  });
  table << looked_at({{"save_every_unit", "NEVER"}}) << no_place({{"save_skip_first", 0}}, "saves begin with the first that is due");
  table << rewritten("tensorboard", "enable_tensorboard_log", same_value, true);
  table << looked_at(
      {"samples", {"sample_definition_file_name", "training_samples/samples.json"}, {"sample_after", 10}, {"sample_after_unit", "MINUTE"}});
  table << same("preview_steps", "preview_steps");
  table << rewritten(
      "validation", "",
      [](const Value& value, const Settings& all) {
        return left_out(asks_for_something(value) && !all.has("validation_path") ? "name held-out samples in validation_metadata_path"
                                                                                 : "");
      },
      false);
  table << no_place({{"continue_last_backup", false}}, "backups of other programs are not read; --resume goes on with a run of burnish");
  table << no_place({{"cloud.enabled", false}}, "runs are started where they train");
  table << same("seed", "seed");
  table << no_place({{"non_ema_sampling", true}}, "previews show the average where there is one");
}

Table table() {
  Table table;
  model_rows(table);
  adapter_rows(table);
  table << onetrainer_embedding();
  data_rows(table);
  loss_rows(table);
  optimizer_rows(table);
  train_rows(table);
  part_rows(table);
  run_rows(table);
  table << onetrainer_needless();
  return table;
}

}  // namespace
}  // namespace of_onetrainer

Program onetrainer() {
  using namespace of_onetrainer;
  return {"onetrainer", "OneTrainer", onetrainer_recognises, onetrainer_arrange, table};
}

}  // namespace burnish::foreign
