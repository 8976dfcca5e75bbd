#include "train/subject/model_choice.h"

#include <ATen/Context.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/input_error.h"
#include "base/limits.h"
#include "base/text.h"
#include "config/everyday_words.h"
#include "config/problems.h"
#include "quant/store.h"
#include "train/subject/option_rows.h"

namespace burnish::train {

/// A config::Relocate of fp8_models: of its entries those that name files.
static std::string models_seen_from(const std::string& text, const std::filesystem::path& folder) {
  auto entries = split_list(text);
  for (auto& entry : entries) entry = config::seen_from_if_there(entry, folder);
  return join(entries, ",");
}

/// A config::Relocate of model_paths; what is no JSON is left for the error that says so.
static std::string model_paths_seen_from(const std::string& text, const std::filesystem::path& folder) {
  std::function<void(nlohmann::json&)> relocate = [&](nlohmann::json& value) {
    if (value.is_string()) value = config::seen_from(value.get<std::string>(), folder);
    else if (value.is_array()) std::for_each(value.begin(), value.end(), relocate);
  };
  auto paths = nlohmann::json::parse(text, nullptr, false);
  if (paths.is_discarded()) return text;
  const auto given = paths;
  relocate(paths);
  return paths == given ? text : paths.dump();
}

void fields(config::Fields& f, ModelChoice& o) {
  f.group("Model");
  f.path("model", o.model,
         "diffusers folder, component folder, single .safetensors file, or a model's id on a hub (author/model), which is fetched; may be "
         "given several times",
         {}, config::seen_from_if_there)
      .called(config::kModel);
  f.path("model_paths", o.model_paths, "JSON list of files, or of lists of shards", {}, model_paths_seen_from);
  f("model_id_with_origin_paths", o.model_id_with_origin_paths,
    "comma list of model_id:pattern under DIFFSYNTH_MODEL_BASE_PATH (./models); what is not there is fetched");
  f.path("tokenizer_path", o.tokenizer_path, "tokenizer folder (CLIP, Qwen), or author/model:tokenizer/, when it is not beside the model",
         {"tokenizer_1_path"}, config::seen_from_if_there);
  f.path("tokenizer_2_path", o.tokenizer_2_path, "folder of the second tokenizer (T5), when it is not beside the model",
         {"tokenizer_t5xxl_path"});
  f("dtype", o.dtype, "fp32, bf16 or, for some models, fp16: what the model is held and computed in")
      .label("Precision")
      .known(dtype_choices())
      .called(config::kPrecision);
  f("device", o.device, "auto, cpu or cuda").one_of({"auto", "cpu", "cuda"});
  f.path("fp8_models", o.fp8_models,
         "comma list of models, named as above (or folder:component), whose frozen weights are stored in weight_format", {},
         models_seen_from)
      .label("Parts held in 8 bits");
  auto formats = quant::format_names();
  formats.emplace_back(kAutoFormat);
  f("weight_format", o.weight_format,
    "how they are stored; auto: in INT8 where its products are faster here or the run does not fit otherwise, else not at all")
      .label("Format of these parts")
      .known(formats);
  f("high_precision_layers", o.high_precision_layers,
    "comma list of regular expressions for linear layers that stay in dtype; \"\" for none, or default");
  f("fp8_compute", o.fp8_compute, "multiply FP8 weights with FP8 activations, and MXFP8 of a file with MXFP8 ones");
  f("int8_compute", o.int8_compute, "multiply INT8 weights with INT8 activations, and with INT8 gradients");
  f("fp4_compute", o.fp4_compute, "multiply NVFP4 weights of a file with NVFP4 activations");
  for (const char* name : {"vae_tiling", "enable_vae_tiling", "tiled"})
    f.refused(name, "say how large the autoencoder's tiles are: --vae_tile_size 512");
  f("seed", o.seed, "the same seed repeats the run").label("Random seed").at_least(0);
  f("num_threads", o.num_threads, "0 takes all cores, or as many as the quota of a container gives")
      .label("CPU threads")
      .at_least(0)
      .at_most(kMostThreads)
      .called(config::kThreads);
  f.group("Families");
  for (const auto& option : models::family_options()) option_row(f, option, o.own.at(option.name), option.help).decides_what_is_learned();
}

void check(const ModelChoice& c) {
  auto copy = c;
  config::Fields listed;
  fields(listed, copy);
  config::Problems problems(listed);
  problems.check_values();
  problems.refuse("train");
  parse_dtype(c.dtype);
  check_options(models::family_options(), c.own);
  if (c.device == "cuda" && !at::hasCUDA() && !c.is_plan)
    config_error("train", "device cuda was asked for, and this build or machine has none; choose cpu");
  if (c.fp8_models.empty() && c.weight_format != "fp8")
    config_error("train", "weight_format {} says how the models in fp8_models are stored, and none is named there", c.weight_format);
  if (c.weight_format == kAutoFormat && c.fp8_compute && c.int8_compute)
    config_error("train", "fp8_compute and int8_compute multiply different formats, and weight_format auto is one; take one of them out");
  if (c.weight_format != kAutoFormat && (c.weight_format == "fp8" || !c.fp8_models.empty()))
    quant::Store({.format = quant::parse_format(c.weight_format),
                  .high_precision = {},
                  .fp8_compute = c.fp8_compute,
                  .int8_compute = c.int8_compute && !c.fp8_models.empty()});
}

models::ModelOptions model_options(const ModelChoice& c) {
  models::ModelOptions options;
  options.dtype = parse_dtype(c.dtype);
  bool on_gpu = c.device != "cpu" && (at::hasCUDA() || (c.is_plan && c.device == "cuda"));
  options.device = on_gpu ? c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(c.local_rank)) : c10::Device(c10::kCPU);
  options.tokenizer_path = c.tokenizer_path;
  options.tokenizer_2_path = c.tokenizer_2_path;
  options.own = c.own;
  options.seed = static_cast<uint64_t>(c.seed);
  return options;
}

}  // namespace burnish::train
