#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "foreign/ai_toolkit_clips.h"
#include "foreign/ai_toolkit_terms.h"
#include "foreign/ai_toolkit_words.h"
#include "foreign/program.h"
#include "foreign/prompts.h"

// Names and defaults: config/examples/ and toolkit/config_modules.py of ai-toolkit.
namespace burnish::foreign {

namespace of_ai_toolkit {
namespace {

const std::map<std::string, std::string> kOptimizers{
    {"adam", "adamw"},          {"adamw", "adamw"},         {"adam8bit", "adamw8bit"},   {"adamw8bit", "adamw8bit"},
    {"lion", "lion"},           {"lion8bit", "lion"},       {"adafactor", "adafactor"},  {"prodigy", "prodigy"},
    {"prodigy8bit", "prodigy"}, {"automagic", "automagic"}, {"automagic2", "automagic"}, {"automagic3", "automagic"}};

std::string optimizer_of(const Settings& all) {
  auto it = kOptimizers.find(lower(all.text("train.optimizer", "adamw")));
  return it == kOptimizers.end() ? "" : it->second;
}

bool has_unet(const Settings& all);
bool flows(const Settings& all) { return all.text("train.noise_scheduler", "ddpm") == "flowmatch" || !has_unet(all); }

/// Its models with a UNet; of all others the alpha of an adapter is its rank, whatever it is given.
bool has_unet(const Settings& all) {
  auto arch = all.text("model.arch");
  if (arch.empty())
    return all.text("train.noise_scheduler", "ddpm") != "flowmatch" && !all.on("model.is_flux") && !all.on("model.is_v3") &&
           !all.on("model.is_lumina2");
  for (const char* name : {"sd", "sd1", "sd15", "sd2", "sdxl", "ssd", "vega"}) {
    if (arch == name) return true;
  }
  return false;
}

double batches_per_update(const Settings& all) { return std::max(1.0, all.number("train.gradient_accumulation_steps").value_or(1)); }

/// It counts batches; updates are what is left of whole groups.
int64_t updates(double num_batches, const Settings& all) { return static_cast<int64_t>(std::floor(num_batches / batches_per_update(all))); }

Outcome counted_in_batches(const Value& value, const Settings& all) {
  auto number = number_of(value);
  if (!number || batches_per_update(all) == 1) return carried(value);
  return carried(updates(*number, all), "counts batches there, and updates here");
}

bool is_lokr(const Settings& all) { return lower(all.text("network.type")) == "lokr"; }
bool is_whole_lokr(const Settings& all) { return is_lokr(all) && (!all.has("network.lokr_full_rank") || all.on("network.lokr_full_rank")); }
constexpr int64_t kWholeRank = 1000000;  ///< above every layer's sides, so that LoKr's second factor is whole

Outcome rank(const Value& value, const Settings& all) {
  if (!all.has("network.type")) return left_out("");
  if (all.has("network.pretrained_lora_path")) return left_out("");
  return is_whole_lokr(all) ? carried(kWholeRank) : carried(value);
}

/// alpha of what is no UNet is the rank, which is what a run takes by itself.
Outcome alpha(const Value& value, const Settings& all) {
  if (!all.has("network.type") || all.has("network.pretrained_lora_path") || is_whole_lokr(all)) return left_out("");
  if (has_unet(all)) return carried(value);
  auto of_rank = all.number("network.rank").value_or(all.number("network.linear").value_or(4));
  bool told = all.has("network.linear_alpha") || all.number("network.alpha").value_or(1) != 1;
  return carried(0.0, told && number_of(value) != of_rank ? "ai-toolkit takes the rank for models without a UNet, whatever this says" : "");
}

/// Its schedules are torch's, over its batches.
Outcome schedule(const Value& value, const Settings& all) {
  auto word = lower(text_of(value));
  auto of = [&](const char* name, double otherwise) {
    return all.number(std::string("train.lr_scheduler_params.") + name).value_or(otherwise);
  };
  if (word == "constant" || word == "constant_with_warmup") return carried("constant");
  if (word == "cosine" || word == "cosine_with_restarts")
    return carried("cosine", word == "cosine" ? "" : "one cycle as long as the run, which is all that it makes of restarts");
  if (word == "linear") {
    auto start = of("start_factor", 1. / 3), end = of("end_factor", 1.0);
    if (start == 1 && end >= 0 && end < 1) return carried("linear");
    if (start == 1 && end == 1) return carried("constant");
    return left_out(fmt::format(
        "goes from {:.3g} of the rate at the first step to {:.3g} at the last there, and no schedule here rises over a run: the "
        "rate stays constant; lr_warmup_steps rises over the steps it says",
        start, end));
  }
  return left_out("no such schedule: the rate stays constant");
}

/// What a curve ends at, as a share of the rate.
Outcome least_rate(const Value& value, const Settings& all) {
  auto rate = all.number("train.lr").value_or(1e-6);
  auto word = lower(all.text("train.lr_scheduler"));
  auto number = number_of(value);
  bool is_curve = word == "cosine" || word == "cosine_with_restarts";
  return is_curve && number && rate > 0 ? carried(*number / rate) : left_out(is_curve ? "is no number" : "");
}

/// Prodigy's rate is a factor on what it finds, and 1 for what looks like a rate of others.
Outcome rate(const Value& value, const Settings& all) {
  auto number = number_of(value);
  if (optimizer_of(all) != "prodigy" || !number || *number >= 0.1) return carried(value);
  return carried(1.0, "ai-toolkit takes 1 for prodigy where it is given less than 0.1");
}
bool trains_whole(const Settings& all) { return !all.has("network.type") && !has_ai_toolkit_word(all); }

std::string denoiser(const Settings& all) { return flows(all) ? "dit" : "unet"; }

std::string trained_parts(const Settings& all) {
  std::vector<std::string> parts;
  if (!all.has("train.train_unet") || all.on("train.train_unet")) parts.push_back(denoiser(all));
  if (all.on("train.train_text_encoder")) parts.emplace_back("text_encoder");
  if (all.on("train.train_text_encoder") && (all.on("model.is_xl") || all.text("model.arch") == "sdxl"))
    parts.emplace_back("text_encoder_2");
  if (all.on("model.model_kwargs.train_text_conditioner")) parts.emplace_back("text_conditioner");
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

/// Our format of a qtype; "" where there is none.
std::string format_of_qtype(const Settings& all) {
  const auto kind = lower(all.text("model.qtype", "qfloat8"));
  return kind == "qfloat8" || kind == "float8" ? "fp8" : kind == "convrot8" ? "int8_convrot" : kind == "qint8" ? "int8" : "";
}

Outcome quantized(const Value& value, const Settings& all) {
  if (!asks_for_something(value)) return left_out("");
  return !format_of_qtype(all).empty() ? carried(denoiser(all))
                                       : left_out("weights are stored in fp8, int8 or nf4 (fp8_models with weight_format), not in " +
                                                  lower(all.text("model.qtype", "qfloat8")));
}

Outcome quantized_format(const Value& value, const Settings& all) {
  const auto format = format_of_qtype(all);
  return asks_for_something(value) && !format.empty() && format != "fp8" ? carried(format) : left_out("");
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

Value keys_of_dataset(const Value& one) {
  auto ours = Value::object();
  auto weight = number_of(one.value("loss_multiplier", Value(1.0))).value_or(1);
  if (weight != 1) ours["loss_weight"] = weight;
  return ours;
}

/// One sample: what it says of itself, in flags of its prompt too, goes before what is said of all.
PromptLine line_of(const Value& item, const Value& sample, const std::string& trigger) {
  auto prompt = item.is_object() ? text_of(item.value("prompt", Value(""))) : text_of(item);
  for (size_t at = 0; (at = prompt.find("[trigger]", at)) != prompt.npos; at += trigger.size()) prompt.replace(at, 9, trigger);
  auto line = read_prompt_line(prompt);
  auto fill = [&](Value& value, const char* name, const Value& otherwise) {
    if (!value.is_null()) return;
    auto of_all = sample.value(name, otherwise);
    value = item.is_object() ? item.value(name, of_all) : of_all;
  };
  fill(line.width, "width", 512);
  fill(line.height, "height", 512);
  fill(line.steps, "sample_steps", 20);
  fill(line.guidance, "guidance_scale", 7);
  fill(line.negative, "neg", "");
  fill(line.seed, "seed", 0);
  fill(line.frames, "num_frames", Value());
  if (number_of(line.frames) == 1) line.frames = Value();  // a picture
  return line;
}

/// Prompts of samples as lines of a file, and when they are drawn.
void put_samples(Value& process, Arranged& arranged) {
  const auto& sample = process["sample"];
  const bool has_samples = sample.contains("samples") && sample["samples"].is_array();
  const auto list = sample.value(has_samples ? "samples" : "prompts", Value::array());
  arranged.prompts_from = has_samples ? "sample.samples" : "sample.prompts";
  auto trigger = text_of(process.value("trigger_word", Value("")));
  std::vector<PromptLine> lines;
  for (const auto& item : list.is_array() ? list : Value::array()) {
    auto line = line_of(item, sample, trigger);
    if (auto seed = number_of(line.seed); seed && sample.value("walk_seed", false)) line.seed = *seed + static_cast<double>(lines.size());
    if (auto seed = number_of(line.seed)) line.seed = *seed < 0 ? Value() : Value(static_cast<int64_t>(*seed));
    lines.push_back(line);
  }
  put_lines(lines, arranged);
  auto every = number_of(sample.value("sample_every", Value(100))).value_or(0);
  if (arranged.prompts.empty() || every < 1) return;
  auto batches = number_of(process.value(Value::json_pointer("/train/gradient_accumulation_steps"), Value(1))).value_or(1);
  process["preview_steps"] = std::max<int64_t>(1, std::llround(every / std::max(1.0, batches)));
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
  std::vector<Dataset> datasets;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_object()) continue;
    datasets.push_back({"datasets[" + std::to_string(i) + "].folder_path", list[i], keys_of_dataset(list[i])});
    if (list[i].value("is_reg", false)) datasets.back().ours["is_reg"] = true;
    if (list[i].value("is_reg", false) && list[i].value("prior_reg", false)) process["class_target"] = "model";
  }
  process.erase("datasets");
  put_ai_toolkit_pairs(process, datasets, arranged);
  auto first = first_of(datasets, arranged, {"class_set", "folder_path", "class_set_caption", "default_caption"});
  process["dataset"] = first;
  arranged.dataset_key = "dataset";
  put_ai_toolkit_targets(process, arranged);
  put_ai_toolkit_word(process, arranged);
  if (process.contains("sample") && process["sample"].is_object()) put_samples(process, arranged);
  return arranged;
}

void model_rows(Table& table) {
  table << of_ai_toolkit_experts().rows;
  table << same("model.vae_path", "model") << same("model.unet_path", "model") << same("model.name_or_path", "model");
  table << rewritten("train.dtype", "dtype", dtype, "fp32") << rewritten("model.quantize", "fp8_models", quantized, false)
        << rewritten("model.quantize", "weight_format", quantized_format, false);
  table << looked_at({{"model.qtype", "qfloat8"}})
        << needless({{"model.qtype_te", "qfloat8"}}, "quantize_te asks for it, and that is told");
  table << rewritten("model.quantize_te", "", [](const Value& value, const Settings& all) {
    bool told = asks_for_something(value) && all.on("train.train_text_encoder");
    return left_out(told ? "text encoders that train are not stored in few bits" : "");
  });
  table << rewritten("model.is_v_pred", "prediction_type", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried("v_prediction") : left_out("");
           }).otherwise(false);
  table << same("model.lora_path", "preset_lora_path");
  table << rewritten("model.assistant_lora_path", "preset_lora_path", [](const Value& value, const Settings&) {
    const auto place = text_of(value);
    std::error_code failed;
    const bool is_of_hub = std::ranges::count(place, '/') == 2 && place[0] != '/' && !std::filesystem::exists(place, failed);
    return carried(value, is_of_hub ? fmt::format("a file of a hub is fetched first (hf download {} {}) and named where it lies; previews "
                                                  "are drawn without it unless preview_with_presets",
                                                  place.substr(0, place.rfind('/')), place.substr(place.rfind('/') + 1))
                                    : "previews are drawn without it unless preview_with_presets");
  });
  table << no_place(
      {{"model.low_vram", false}, "model.layer_offloading", {"model.auto_memory", false}, {"model.split_model_over_gpus", false}},
      "nothing is moved to main memory while a step runs; models are loaded one after the other");
  table << needless({{"model.layer_offloading_transformer_percent", 1.0},
                     {"model.layer_offloading_text_encoder_percent", 1.0},
                     {"model.split_model_other_module_param_count_scale", 0.3}},
                    "layer_offloading asks for it, and that is told");
  for (const char* part : {"model.model_kwargs.text_encoder_path", "model.model_kwargs.vae_path"}) table << same(part, "model");
  for (const char* length : {"model.model_kwargs.max_text_length", "model.model_kwargs.max_sequence_length"})
    table << same(length, "max_sequence_length");
  table << looked_at({{"model.model_kwargs.train_text_conditioner", false}});
  table << rewritten("model.model_kwargs.edit", "extra_inputs", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried("edit_image") : left_out("");
           }).otherwise(false);
  table << same("model.model_kwargs.control_image_max_pixels", "reference_pixels");
  table << no_place({{"model.model_kwargs.match_target_res", false}},
                    "reference pictures are scaled down to reference_pixels, and none of them up");
  table << no_place({{"model.model_kwargs.vlm_max_pixels", 384 * 384}}, "the text encoder is shown 147456 pixels of a picture");
  table << no_place({{"model.model_kwargs.kv_cache", false}}, "reference pictures see text and target, too");
  table << no_place({"model.model_kwargs.checkpoint_filename"}, "name the file itself in model");
  table << kind_row("model.arch",
                    {"sd", "sd1", "sd15", "sdxl", "flux", "flux_kontext", "flux2", "flux2_klein*", "qwen_image", "qwen_image_edit*",
                     "zimage", "ernie_image", "chroma", "krea2", "anima", "ideogram4", "wan21*", "wan22*"});
  table << no_place({{"model.is_v2", false},
                     {"model.is_v3", false},
                     {"model.is_pixart", false},
                     {"model.is_pixart_sigma", false},
                     {"model.is_auraflow", false},
                     {"model.is_lumina2", false},
                     {"model.is_ssd", false},
                     {"model.is_vega", false}},
                    kAnotherKind);
  table << looked_at({{"model.is_xl", false}, {"model.is_flux", false}});
  table << no_place({{"model.use_flux_cfg", false},
                     "model.refiner_name_or_path",
                     "model.inference_lora_path",
                     "model.unconditional_lora_path",
                     "model.latent_space_version",
                     {"model.use_text_encoder_1", true},
                     {"model.use_text_encoder_2", true},
                     {"model.experimental_xl", false},
                     "model.unet_sample_size",
                     {"model.attn_masking", false},
                     "model.ignore_if_contains",
                     "model.only_if_contains",
                     "model.te_name_or_path",
                     "model.accuracy_recovery_adapter",
                     {"model.in_context", false},
                     "model.model_kwargs",
                     "model.model_kwargs.*",
                     "model.model_paths",
                     "model.model_paths.*",
                     "model.extras_name_or_path"},
                    "no option of the models here");
  table << no_place({"model.quantize_kwargs.*"}, "high_precision_layers says which layers stay as they are");
  table << needless({"model.name",
                     {"model.dtype", "float16"},
                     "model.vae_dtype",
                     "model.te_dtype",
                     "model.vae_device",
                     "model.te_device",
                     {"model.text_encoder_bits", 16},
                     {"model.compile", false},
                     {"model.block_compile", false},
                     {"model.compile_mode", "default"},
                     {"model.compile_fullgraph", false},
                     {"model.compile_dynamic", true},
                     "model.cache_size_limit",
                     "model.quantize_kwargs",
                     {"model.refiner_start_at", 0.5}},
                    "says how the same model is held and computed; train.dtype is carried");
}

void network_rows(Table& table) {
  const std::map<std::string, std::string> kinds{{"lora", "lora"}, {"locon", "lora"}, {"lierla", "lora"}, {"c3lier", "lora"},
                                                 {"dora", "dora"}, {"lokr", "lokr"},  {"loha", "loha"}};
  table << words("network.type", "lora_type", kinds, "adapters here are lora, dora, loha and lokr");
  table << rewritten("network.type", "lora_base_model", [](const Value&, const Settings& all) { return carried(trained_parts(all)); });
  table << rewritten(
      "train.train_unet", "trainable_models",
      [](const Value&, const Settings& all) { return trains_whole(all) ? carried(trained_parts(all)) : left_out(""); }, true);
  auto of_file = [](const Convert& convert) {
    return [convert](const Value& value, const Settings& all) {
      return all.has("network.pretrained_lora_path") ? left_out("the file of pretrained_lora_path decides it") : convert(value, all);
    };
  };
  auto unless_rank = [](const Value& value, const Settings& all) { return all.has("network.rank") ? left_out("") : rank(value, all); };
  auto unless_linear = [](const Value& value, const Settings& all) {
    return all.has("network.linear_alpha") ? left_out("") : alpha(value, all);
  };
  table << rewritten("network.rank", "lora_rank", of_file(rank)) << rewritten("network.linear", "lora_rank", unless_rank, 4);
  table << rewritten("network.linear_alpha", "lora_alpha", of_file(alpha)) << rewritten("network.alpha", "lora_alpha", unless_linear, 1.0);
  table << same("network.dropout", "lora_dropout");
  table << rewritten(
      "network.lokr_factor", "lokr_factor",
      [](const Value& value, const Settings& all) { return is_lokr(all) ? carried(value) : left_out(""); }, -1);
  table << same("network.pretrained_lora_path", "lora_checkpoint");
  table << no_place({"network.conv", "network.conv_alpha"}, "name the layers, convolutions among them, in lora_target_modules");
  table << no_place({"network.network_kwargs", "network.network_kwargs.only_if_contains", "network.network_kwargs.ignore_if_contains",
                     "network.network_kwargs.*"},
                    "lora_target_modules says which layers carry adapters");
  table << looked_at({{"network.lokr_full_rank", true}});
  table << no_place({{"network.transformer_only", true}}, "layers beside the blocks carry adapters where lora_target_modules names them");
  table << needless({{"network.old_lokr_format", false}, {"network.split_multistage_loras", true}},
                    "names of layers in the file, which lora_format says");
  table << no_place({{"network.layer_offloading", false}}, "nothing is moved to main memory while a step runs");
  table << no_place({{"network.all_layers", false}, "network.lorm", "network.lorm.*"}, "no adapter of this kind");
}

/// Where masks are; null where there are none.
const char* masks_of(const Settings& all) {
  if (!all.text("dataset.mask_path", "").empty()) return "column";
  return all.on("dataset.alpha_mask") ? "alpha" : nullptr;
}

/// What a run has no option for, and what needs none.
void further_data_rows(Table& table) {
  table << of_ai_toolkit_clips().rows;
  table << rewritten("dataset.batch_size", "batch_size", [](const Value& value, const Settings& all) {
    return all.has("train.batch_size") ? left_out("batches of all datasets have train.batch_size samples") : carried(value);
  });
  table << needless({{"dataset.cache_latents_to_disk", false},
                     {"dataset.cache_latents", false},
                     {"dataset.cache_tensors_to_disk", false},
                     {"dataset.cache_text_embeddings", false},
                     {"dataset.cache_clip_vision_to_disk", false},
                     {"dataset.load_image_when_caching_latents", false},
                     "dataset.cache_latents_num_workers",
                     {"dataset.prefetch_factor", 2},
                     {"dataset.fast_image_size", false},
                     {"dataset.debug", false}},
                    "what frozen models make of the data is computed once, in memory or in cache_path");
  table << needless({{"dataset.is_reg", false}, {"dataset.type", "image"}}, "it chooses among datasets, which is done");
  table << no_place({{"dataset.buckets", true}}, "pictures keep their shape, unless height and width say one size");
  table << looked_at({{"dataset.prior_reg", false}});
  table << no_place({{"dataset.diff_output_preservation", false}, "dataset.diff_output_preservation_class"},
                    "diff_output_preservation is for all datasets that have a trigger word");
  table << no_place({{"dataset.network_weight", 1.0},
                     "dataset.unconditional_path",
                     {"dataset.guidance_type", "targeted"},
                     "dataset.extra_values",
                     "dataset.replacements",
                     "dataset.poi",
                     {"dataset.use_short_captions", false},
                     "dataset.caption_type",
                     "dataset.controls"},
                    "no option of the data here");
  table << no_place({{"dataset.random_scale", false},
                     {"dataset.scale", 1.0},
                     {"dataset.flip_y", false},
                     "dataset.augments",
                     "dataset.augmentations",
                     {"dataset.shuffle_augmentations", false},
                     {"dataset.standardize_images", false},
                     {"dataset.square_crop", false}},
                    "pictures are cropped and mirrored, not changed otherwise");
  table << needless(
      {{"dataset.replay_transforms", true}, "dataset.clip_image_augmentations", {"dataset.clip_image_shuffle_augmentations", false}},
      "augmentations ask for it, and these are told");
  table << no_place({"dataset.control_path_1",
                     "dataset.control_path_2",
                     "dataset.control_path_3",
                     {"dataset.control_from_same_folder", false},
                     "dataset.clip_image_path",
                     {"dataset.clip_image_from_same_folder", false}},
                    kNameReferences);
  table << needless(
      {{"dataset.num_controls_from_same_folder", 1}, "dataset.control_transparent_color", {"dataset.full_size_control_images", true}},
      "control pictures ask for it, and these are told");
  table << no_place({{"dataset.invert_mask", false}}, "turn the masks round: what is white of them counts");
  table << rewritten("dataset.mask_min_value", "unmasked_weight", [](const Value& value, const Settings& all) {
             const bool has_masks = asks_for_something(value) && masks_of(all);
             return has_masks ? carried(value) : left_out("");
           }).otherwise(0.0);
  table << needless({{"dataset.do_audio", false}, {"dataset.audio_preserve_pitch", false}, {"dataset.audio_normalize", false}},
                    "models here make no sound");
}

void data_rows(Table& table) {
  table << same("dataset.folder_path", "dataset_metadata_path") << same("dataset.dataset_path", "dataset_metadata_path");
  table << same("class_set", "class_metadata_path") << same("dataset.num_repeats", "dataset_repeat").otherwise(1);
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
  table << rewritten("dataset.bucket_tolerance", "bucket_reso_steps", if_several_sizes, 64);
  table << same("dataset.caption_dropout_rate", "caption_dropout").otherwise(0.0);
  table << rewritten("dataset.flip_x", "random_flip", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried(true, "half of the visits are mirrored; an epoch is no longer for it")
                                              : left_out("");
           }).otherwise(false);
  table << same("dataset.random_crop", "random_crop").otherwise(false) << same("dataset.num_workers", "dataset_num_workers").otherwise(2);
  table << caption_ending_row("dataset.caption_ext").otherwise(".txt");
  table << same("dataset.shuffle_tokens", "shuffle_caption").otherwise(false)
        << same("dataset.token_dropout_rate", "caption_tag_dropout_rate").otherwise(0.0);
  table << rewritten("dataset.keep_tokens", "keep_tokens", [](const Value& value, const Settings&) {
             return carried(value, asks_for_something(value) ? "they keep their places too" : "");
           }).otherwise(0);
  for (const char* name : {"dataset.trigger_word", "trigger_word"}) {
    table << rewritten(name, "trigger_word", [](const Value& value, const Settings&) {
      return asks_for_something(value) ? carried(value, "a caption that caption_dropout leaves out stays empty") : left_out("");
    });
  }
  table << rewritten("dataset.default_caption", "class_tokens", given_caption)
        << rewritten("class_set_caption", "class_prompt", given_caption);
  table << looked_at({{"dataset.loss_multiplier", 1.0}});
  table << needless({{"dataset.random_triggers_max", 1}}, "random_triggers asks for it, and that is told");
  table << no_place({"dataset.random_triggers"}, "enable_wildcard draws one of {a|b|c} at each visit");
  table << rewritten("dataset.mask_path", "mask_folder",
                     [](const Value& value, const Settings&) { return asks_for_something(value) ? carried(value) : left_out(""); });
  for (const char* name : {"dataset.mask_path", "dataset.alpha_mask"}) {
    table << rewritten(name, "masked_loss", [](const Value&, const Settings& all) {
      const auto* masks = masks_of(all);
      return masks ? carried(masks) : left_out("");
    });
  }
  table << no_place({"dataset.control_path"}, kNameReferences);
  table << no_place({"dataset.inpaint_path"}, "a sample is a picture and a caption");
  further_data_rows(table);
}

Outcome same_value(const Value& value, const Settings&) { return carried(value); }

void optimizer_rows(Table& table) {
  table << rewritten(
      "train.optimizer", "optimizer",
      [](const Value& value, const Settings& all) {
        auto name = optimizer_of(all), given = lower(text_of(value));
        if (name.empty()) return left_out(kNoOptimizer);
        if (name == "automagic" && given != "automagic3") return carried(name, kThirdAutomagic);
        return carried(name, given == "lion8bit" || given == "prodigy8bit" ? "states are not held in 8 bits" : "");
      },
      "adamw");
  table << rewritten(
      "train.optimizer_params.weight_decay", "weight_decay",
      [](const Value& value, const Settings& all) {
        auto theirs = lower(all.text("train.optimizer", "adamw"));
        if (all.has("train.optimizer_params.weight_decay")) return of_optimizer(optimizer_of, same_value)(value, all);
        bool decays = theirs.starts_with("adamw") || optimizer_of(all).empty();
        return carried(decays ? 0.01 : 0.0);
      },
      0.0);
  table << optimizer_number_rows("train.optimizer_params.", optimizer_of);
  table << rewritten(
      "train.optimizer", "optimizer_args",
      [](const Value&, const Settings& all) {
        return optimizer_numbers(optimizer_of(all), "train.optimizer_params.", all, {{"eps", "1e-6"}});
      },
      "adamw");
  table << looked_at({"train.optimizer_params", "train.lr_scheduler_params"});
  table << no_place({"train.optimizer_params.*"}, "no number of the optimizers here");
}

void schedule_rows(Table& table) {
  table << rewritten("train.lr_scheduler", "lr_scheduler", schedule, "constant");
  // torch's own, each with its numbers.
  table << rewritten("train.lr_scheduler", "lr_warmup_steps", [](const Value& value, const Settings& all) {
    if (lower(text_of(value)) != "constant_with_warmup") return left_out("");
    auto steps = updates(all.number("train.lr_scheduler_params.num_warmup_steps").value_or(1000), all);
    return carried(steps, note_on_warmup(static_cast<double>(steps)));
  });
  table << rewritten("train.lr_scheduler_params.num_warmup_steps", "", [](const Value&, const Settings& all) {
    return left_out(lower(all.text("train.lr_scheduler")) == "constant_with_warmup" ? "" : "its schedule has no warm-up");
  });
  table << rewritten("train.lr_scheduler_params.eta_min", "lr_scheduler_min_lr_ratio", of_optimizer(optimizer_of, least_rate));
  table << rewritten("train.lr_scheduler_params.end_factor", "lr_scheduler_min_lr_ratio", [](const Value& value, const Settings& all) {
    bool falls = lower(all.text("train.lr_scheduler")) == "linear" && all.number("train.lr_scheduler_params.start_factor") == 1.0;
    return falls && number_of(value).value_or(1) < 1 ? carried(value) : left_out("");
  });
  table << looked_at({"train.lr_scheduler_params.start_factor"});
  table << rewritten("train.lr_scheduler_params.factor", "", [](const Value& value, const Settings& all) {
    bool told = lower(all.text("train.lr_scheduler", "constant")) == "constant" && number_of(value) != 1.0;
    return left_out(told ? "a factor on the rate until the last step: write it into learning_rate" : "");
  });
  table << no_place({"train.lr_scheduler_params.*"}, "no number of the schedules here");
}

void train_rows(Table& table) {
  table << rewritten("train.lr", "learning_rate", of_optimizer(optimizer_of, rate), 1e-6);
  auto unread = [](const Value& value, const Settings& all) {
    bool told = number_of(value) != all.number("train.lr").value_or(1e-6);
    return left_out(told ? "ai-toolkit trains all parts of a model at lr, whatever this says" : "");
  };
  for (const char* name : {"train.unet_lr", "train.text_encoder_lr"}) table << rewritten(name, "", unread);
  table << no_place({"train.refiner_lr", "train.adapter_lr"}, "nothing of the kind is trained here");
  table << rewritten("train.steps", "max_steps", counted_in_batches, 1000) << rewritten("train.batch_size", "batch_size", same_value, 1);
  table << rewritten("train.gradient_accumulation_steps", "gradient_accumulation_steps", [](const Value& value, const Settings&) {
             return number_of(value).value_or(1) < 1
                        ? left_out("an update for each epoch: say in gradient_accumulation_steps how many batches that are")
                        : carried(value);
           }).otherwise(1);
  table << rewritten("train.gradient_accumulation", "gradient_accumulation_steps", [](const Value& value, const Settings&) {
             return number_of(value).value_or(1) > 1 ? carried(value) : left_out("");
           }).otherwise(1);
  table << rewritten("train.gradient_checkpointing", "use_gradient_checkpointing", same_value, true);
  table << rewritten("train.max_grad_norm", "max_grad_norm", same_value, 1.0);
  optimizer_rows(table);
  schedule_rows(table);
  table << rewritten(
      "train.ema_config.ema_decay", "ema_decay",
      [](const Value& value, const Settings& all) { return all.on("train.ema_config.use_ema") ? carried(value) : left_out(""); }, 0.999);
  table << looked_at({{"train.ema_config.use_ema", false}});
  table << no_place({{"train.ema_config.use_feedback", false}, {"train.ema_config.param_multiplier", 1.0}},
                    "an average is kept beside the weights alone");
  table << looked_at({{"train.train_text_encoder", false}});
}

void loss_rows(Table& table) {
  table << rewritten("train.timestep_type", "timestep_sampling", sampling, "sigmoid");
  table << rewritten(
      "train.noise_scheduler", "loss_weighting", [](const Value&, const Settings&) { return carried("uniform"); }, "ddpm");
  table << same("train.min_snr_gamma", "min_snr_gamma") << same("train.snr_gamma", "min_snr_gamma");
  table << same("train.noise_offset", "noise_offset").otherwise(0.0) << same("train.reg_weight", "prior_loss_weight").otherwise(1.0);
  table << rewritten("train.prompt_dropout_prob", "caption_dropout", [](const Value& value, const Settings&) {
             return asks_for_something(value) ? carried(value) : left_out("");
           }).otherwise(0.0);
  auto share = [](const Value& value, const Settings&) { return carried(rest_of(number_of(value).value_or(0) / 1000)); };
  table << rewritten("train.min_denoising_steps", "max_timestep_boundary", share, 0);
  table << rewritten("train.max_denoising_steps", "min_timestep_boundary", [](const Value& value, const Settings& all) {
             auto last = number_of(value).value_or(999);
             return last >= 999 || is_ai_toolkit_slider_of_targets(all) ? left_out("") : carried(rest_of(last / 1000));
           }).otherwise(999);
  table << no_place({{"train.loss_type", "mse"}}, "losses here are l2, huber and smooth_l1 (loss_type)");
  table << no_place({{"train.content_or_style", "balanced"}}, "timesteps are drawn by timestep_sampling");
  table << no_place({{"train.linear_timesteps", false}, {"train.linear_timesteps2", false}}, "no such weights of losses");
  table << no_place({{"train.bypass_guidance_embedding", false}}, "the guidance that a model is told is embedded_guidance, 1 by default");
  table << ai_toolkit_preservation_rows() << ai_toolkit_guidance_rows();
  table << no_place({{"train.do_prior_divergence", false}}, "a loss that grows without a bound is none here");
  table << no_place({{"train.noise_multiplier", 1.0},
                     {"train.target_noise_multiplier", 1.0},
                     {"train.random_noise_multiplier", 0.0},
                     {"train.do_signal_correction_noise", false},
                     {"train.do_batch_noise_correction", false},
                     {"train.do_signal_amplification", false},
                     {"train.random_noise_shift", 0.0},
                     {"train.img_multiplier", 1.0},
                     {"train.noisy_latent_multiplier", 1.0},
                     {"train.latent_multiplier", 1.0},
                     {"train.match_noise_norm", false},
                     {"train.dynamic_noise_offset", false},
                     {"train.optimal_noise_pairing_samples", 1},
                     {"train.force_consistent_noise", false},
                     {"train.blended_blur_noise", false},
                     {"train.standardize_images", false},
                     {"train.standardize_latents", false},
                     {"train.adaptive_scaling_factor", false},
                     {"train.num_train_timesteps", 1000}},
                    "noise and latents are as the model was trained with");
  table << no_place({{"train.learnable_snr_gos", false},
                     {"train.inverted_mask_prior", false},
                     {"train.correct_pred_norm", false},
                     {"train.t0_loss_target", false},
                     {"train.t0_velocity_equiv_weight", false},
                     {"train.do_fft_loss", false},
                     {"train.do_fft_velocity_equiv_weight", false},
                     {"train.pred_scaler", 1.0},
                     "train.target_norm_std",
                     {"train.loss_target", "noise"},
                     {"train.do_cfg", false},
                     {"train.do_random_cfg", false},
                     {"train.do_blank_stabilization", false},
                     "train.max_loss",
                     "train.negative_prompt",
                     "train.latent_feature_extractor_path",
                     "train.diffusion_feature_extractor_path",
                     {"train.train_turbo", false},
                     {"train.weight_jitter", 0.0},
                     {"train.prompt_saturation_chance", 0.0},
                     {"train.match_adapter_assist", false},
                     "train.adapter_assist_name_or_path"},
                    "no such loss");
}

void run_rows(Table& table) {
  table << same("output_path", "output_path").otherwise("output/run");
  table << rewritten("save.save_every", "save_steps", counted_in_batches, 1000)
        << rewritten("save.max_step_saves_to_keep", "keep_last", same_value, 5);
  table << rewritten("save.dtype", "save_dtype", precision, "float16");
  table << rewritten("save.save_format", "", [](const Value& value, const Settings&) {
             auto format = text_of(value);
             return left_out(format == "safetensors" || format == "diffusers" ? "" : "files are safetensors");
           }).otherwise("safetensors");
  table << no_place({{"save.push_to_hub", false}}, "nothing is sent elsewhere");
  table << looked_at({"sample.prompts",
                      "sample.samples",
                      {"sample.sample_every", 100},
                      {"sample.sample_steps", 20},
                      {"sample.width", 512},
                      {"sample.height", 512},
                      "sample.neg",
                      {"sample.walk_seed", false},
                      {"sample.guidance_scale", 7}});
  table << same("preview_steps", "preview_steps");
  table << same("training_seed", "seed");
  table << rewritten("sample.seed", "seed", [](const Value& value, const Settings& all) {
             return all.has("training_seed") ? left_out("")
                                             : carried(value, asks_for_something(value) ? "previews and training draw by one seed" : "");
           }).otherwise(0);
  table << no_place({{"sample.network_multiplier", 1},
                     {"sample.guidance_rescale", 0.0},
                     {"sample.adapter_conditioning_scale", 1.0},
                     {"sample.do_cfg_norm", false},
                     {"sample.sample_start_step", 0}},
                    "previews have no such option");
  table << no_place({"validation_config.*", "train.validation_config", "train.validation_config.*"},
                    "name held-out samples in validation_metadata_path");
  table << ai_toolkit_slider_rows() << ai_toolkit_word_rows();
  table << no_place({"slider.*", "adapter.*", "decorator.*"}, "no training of this kind");
}

/// What changes nothing of what is learned.
void needless_rows(Table& table) {
  table << needless({"save.hf_repo_id", {"save.hf_private", false}}, "nothing is sent elsewhere");
  table << looked_at({{"sample.num_frames", 1}});
  table << needless({{"sample.sampler", "ddpm"},
                     {"sample.fps", 16},
                     "sample.ext",
                     {"sample.format", "jpg"},
                     {"sample.refiner_start_at", 0.5},
                     "sample.extra_values"},
                    "previews are pictures of the model's own sampler");
  table << needless({{"logging.log_every", 100},
                     {"logging.verbose", false},
                     {"logging.use_wandb", false},
                     {"logging.use_ui_logger", false},
                     {"logging.project_name", "ai-toolkit"},
                     "logging.run_name",
                     "sqlite_db_path",
                     "performance_log_every",
                     "device"},
                    "says how a run is shown, and on what it runs");
  table << needless({{"train.skip_first_sample", false},
                     {"train.force_first_sample", false},
                     {"train.disable_sampling", false},
                     {"train.show_turbo_outputs", false},
                     {"train.free_u", false}},
                    "previews are drawn before the first step and after the last");
  table << needless({{"train.unload_text_encoder", false},
                     {"train.cache_text_embeddings", false},
                     {"train.xformers", false},
                     {"train.sdp", false},
                     {"train.attention_backend", "native"},
                     {"train.max_loss_debug", false}},
                    "says how the same is computed");
  table << needless({{"train.train_refiner", true},
                     {"train.max_negative_prompts", 1},
                     {"train.switch_boundary_every", 1},
                     {"train.audio_loss_multiplier", 1.0},
                     {"train.adapter_assist_type", "t2i"},
                     {"train.match_adapter_chance", 0.0},
                     {"train.next_sample_timesteps", 8}},
                    "models or losses that are not here alone read it");
  table << needless({{"train.batch_noise_correction_scale", 0.1},
                     {"train.signal_amplification_strength", 0.5},
                     {"train.signal_correction_noise_scale", 1.0},
                     {"train.inverted_mask_prior_multiplier", 0.5},
                     {"train.cfg_scale", 1.0},
                     "train.max_cfg_scale",
                     "train.cfg_rescale",
                     {"train.correct_pred_norm_multiplier", 1.0},
                     {"train.target_norm_std_value", 1.0},
                     "train.latent_feature_loss_weight",
                     "train.diffusion_feature_extractor_weight",
                     {"train.paramiter_swapping_factor", 0.1},
                     {"train.merge_network_on_save_strength", 1.0}},
                    "another key asks for what it is a number of, and that is told");
  table << no_place({"train.start_step",
                     {"train.merge_network_on_save", false},
                     {"train.short_and_long_captions", false},
                     {"train.short_and_long_captions_encoder_split", false},
                     {"train.single_item_batching", false},
                     {"train.do_paramiter_swapping", false}},
                    "no option of training here");
}

Table table() {
  Table table;
  model_rows(table);
  network_rows(table);
  data_rows(table);
  train_rows(table);
  loss_rows(table);
  run_rows(table);
  needless_rows(table);
  return table;
}

}  // namespace
}  // namespace of_ai_toolkit

Program ai_toolkit() {
  using namespace of_ai_toolkit;
  return {"ai-toolkit", "ai-toolkit", recognises, arrange, table};
}

}  // namespace burnish::foreign
