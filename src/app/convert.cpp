#include "convert/convert.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "app/convert_options.h"
#include "app/verbs.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/say.h"
#include "base/text.h"
#include "base/threads.h"
#include "config/command_line.h"
#include "config/everyday_words.h"
#include "convert/lora_format.h"
#include "convert/model.h"
#include "io/files.h"
#include "models/registry.h"
#include "train/options/fields.h"

namespace burnish::app {

void fields(config::Fields& f, convert::Options& o) {
  auto dtypes = dtype_choices();
  dtypes.emplace_back("keep");
  f.group("Files");
  f.positional("path", o.paths,
               "LoRAs, with strengths as in --lora and added up, or a model's files or folder; last what is written: a model is one file "
               "where its name ends in .safetensors, else "
               "a diffusers folder");
  f("dtype", o.dtype, "of the numbers written: fp32, bf16, fp16, or keep").known(dtypes).called(config::kPrecision);
  f("overwrite", o.overwrite, "replace what is there");
  f.group("LoRA");
  f("lora_format", o.lora_format, "diffusers, peft, kohya, onetrainer, lycoris, comfyui or diffsynth").known(convert::lora_formats());
  f.path("model", o.model,
         "what the LoRA is for: a published model's name, as plan takes it, or the model's files; without it the names in the LoRA tell, "
         "what it says of itself, or the run beside it",
         {}, config::seen_from_if_there)
      .called(config::kModel);
  f("lora_base_model", o.lora_base_model, "of these components alone, with commas between");
  f("lora_type", o.lora_type, "lora makes a LoRA of DoRA, LoHa and LoKr; keep leaves them").one_of({"keep", "lora"});
  f("lora_rank", o.lora_rank,
    "rank that is written: larger ones are cut by SVD, smaller ones padded; with lora_energy, and of other kinds made LoRA, the largest; "
    "0: any")
      .at_least(0)
      .at_most(kMostRank)
      .called(config::kRank);
  f("lora_energy", o.lora_energy, "share of each layer's squared norm to keep, from 0 to 1; 0: all that the rank holds")
      .at_least(0)
      .at_most(1);
  f("embedding_format", o.embedding_format,
    "of an embedding, or of the one that is bundled in a LoRA, which is then written alone: a1111, onetrainer or diffusers")
      .known({"a1111", "onetrainer", "diffusers"});
  f.group("Model");
  f.path("lora", o.lora, "LoRA to merge into the model, as file, file:strength or file:strength:layers; may be given several times")
      .called(config::kLora);
  f.path("base", o.base, "the model that this one was trained from: what is written is the LoRA between them");
  f("weight_format", o.weight_format, "of linear weights: a format, none for numbers, or keep").known(convert::weight_formats());
  f.path("config_from", o.config_from, "diffusers folder whose configs, tokenizers and scheduler go into the folder that is written");
}

namespace {

/// The files of the model that a run trained, of an adapter in its folder; none where there is no run or they are not there.
std::vector<std::string> model_of_run(const std::string& adapter) {
  auto config = std::filesystem::path(adapter).parent_path() / "config.toml";
  if (!io::is_there(config)) return {};
  train::TrainOptions trained;
  config::Fields listed;
  train::fields(listed, trained);
  try {
    config::read_toml(config.string(), listed);
  } catch (const Error&) {  // of something else
    return {};
  }
  const auto& names = trained.model.model;
  return std::ranges::all_of(names, [](const auto& name) { return io::is_there(name); }) ? names : std::vector<std::string>();
}

}  // namespace

void convert(const Arguments& arguments) {
  convert::Options options;
  config::Fields listed;
  fields(listed, options);
  auto parsed =
      config::read_command_line("convert", "bring LoRAs and models into other formats; merge, extract, change ranks", arguments, listed);
  if (parsed.help) return print("{}", parsed.help_text);
  start_threads();
  if (!options.paths.empty()) options.model_of_run = model_of_run(options.paths.front());
  print("{}\n", convert::convert(options));
}

}  // namespace burnish::app
