#include "train/options/diffsynth_names.h"

#include <fmt/core.h>

#include <algorithm>

#include "adapters/adapter_config.h"
#include "adapters/adapter_file.h"
#include "base/input_error.h"
#include "base/text.h"
#include "io/checkpoint_files.h"
#include "io/files.h"
#include "train/options/quant_options.h"

namespace burnish::train {

namespace {

/// A class of optimizers, by the package that it is imported from and its own name.
struct OptimizerClass {
  const char* package;
  const char* name;
  const char* ours;
  const char* args = "";  ///< what the class takes by itself and ours does not
  bool adds_decay_to_gradient = false;
};

// Each is made with a rate and a decay there (diffsynth/diffusion/runner.py), and its own numbers otherwise.
constexpr OptimizerClass kClasses[] = {{"torch", "AdamW", "adamw"},
                                       {"torch", "Adam", "adamw", "", true},
                                       {"torch", "Muon", "muon", "adjust_lr_fn=original"},
                                       {"bitsandbytes", "AdamW", "adamw"},
                                       {"bitsandbytes", "AdamW32bit", "adamw"},
                                       {"bitsandbytes", "PagedAdamW", "adamw"},
                                       {"bitsandbytes", "PagedAdamW32bit", "adamw"},
                                       {"bitsandbytes", "AdamW8bit", "adamw8bit"},
                                       {"bitsandbytes", "PagedAdamW8bit", "adamw8bit"},
                                       // Its Adam decays weights as AdamW does.
                                       {"bitsandbytes", "Adam", "adamw"},
                                       {"bitsandbytes", "Adam32bit", "adamw"},
                                       {"bitsandbytes", "PagedAdam", "adamw"},
                                       {"bitsandbytes", "PagedAdam32bit", "adamw"},
                                       {"bitsandbytes", "Adam8bit", "adamw8bit"},
                                       {"bitsandbytes", "PagedAdam8bit", "adamw8bit"},
                                       {"bitsandbytes", "AdEMAMix", "ademamix"},
                                       {"bitsandbytes", "AdEMAMix32bit", "ademamix"},
                                       {"bitsandbytes", "PagedAdEMAMix", "ademamix"},
                                       {"bitsandbytes", "PagedAdEMAMix32bit", "ademamix"},
                                       {"bitsandbytes", "AdEMAMix8bit", "ademamix8bit"},
                                       {"bitsandbytes", "PagedAdEMAMix8bit", "ademamix8bit"},
                                       {"bitsandbytes", "Lion", "lion"},
                                       {"bitsandbytes", "Lion32bit", "lion"},
                                       {"bitsandbytes", "PagedLion", "lion"},
                                       {"bitsandbytes", "PagedLion32bit", "lion"},
                                       {"bitsandbytes", "Lion8bit", "lion"},
                                       {"bitsandbytes", "PagedLion8bit", "lion"},
                                       {"torchao", "AdamW8bit", "adamw8bit"},
                                       {"lion_pytorch", "Lion", "lion"},
                                       {"prodigyopt", "Prodigy", "prodigy"},
                                       {"prodigyplus", "ProdigyPlusScheduleFree", "prodigy_schedulefree"},
                                       {"schedulefree", "AdamWScheduleFree", "adamw_schedulefree"},
                                       {"came_pytorch", "CAME", "came"},
                                       {"transformers", "Adafactor", "adafactor", "scale_parameter=true"}};

/// The known ones of a package each, for a message.
std::string known_classes() {
  std::vector<std::string> packages;
  for (const auto& one : kClasses) {
    std::string package = one.package;
    package += package == "torch" || package == "bitsandbytes" || package == "torchao" ? ".optim." : ".";
    if (!packages.empty() && packages.back().starts_with(package)) packages.back() += std::string("|") + one.name;
    else packages.push_back(package + one.name);
  }
  return join(packages, ", ");
}

const OptimizerClass& class_named(const std::string& path) {
  auto package = path.substr(0, path.find('.')), name = path.substr(path.rfind('.') + 1);
  for (const auto& one : kClasses) {
    if (package == one.package && name == one.name) return one;
  }
  config_error("train", "customized_optimizer {} is no class that has a counterpart here; known are {}; --optimizer names the others", path,
               known_classes());
}

std::string put_optimizer(const std::string& path, TrainOptions& o) {
  const auto& known = class_named(path);
  const std::string otherwise = TrainOptions().step.optimizer.name;
  if (o.step.optimizer.name != otherwise && o.step.optimizer.name != known.ours)
    config_error("train", "optimizer {} and customized_optimizer {} ask for two optimizers; take one of them out", o.step.optimizer.name,
                 path);
  if (known.adds_decay_to_gradient && o.step.optimizer.weight_decay != 0)
    config_error(
        "train",
        "customized_optimizer {} adds weight_decay {} to the gradient, where it is divided by the gradient's size; give weight_decay "
        "0, or name {}W, which lowers the weights themselves",
        path, o.step.optimizer.weight_decay, path);
  o.step.optimizer.name = known.ours;
  std::string more = known.args;
  auto key = more.substr(0, more.find('='));
  if (!more.empty() && o.step.optimizer.args.find(key) == std::string::npos)
    o.step.optimizer.args += (o.step.optimizer.args.empty() ? "" : ",") + more;
  return fmt::format("customized_optimizer {} becomes optimizer {}{}", path, o.step.optimizer.name,
                     o.step.optimizer.args.empty() ? "" : " with " + o.step.optimizer.args);
}

/// "lora of rank 4 on 8 layers", or nothing for a file, or a folder, without adapters.
std::string adapters_in(const std::string& path) {
  auto file = std::filesystem::path(path);
  if (io::is_folder(file)) {
    auto holds = [&](const char* name) { return io::is_there(file / name); };
    bool is_adapter = holds("adapter_model.safetensors") || holds("adapter_model.bin") || holds("pytorch_lora_weights.safetensors");
    if (!is_adapter) return "";
    file = adapters::find_adapter(file).tensors;
  }
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : adapters::kinds_in(io::TensorSource::open({file})))
    kinds.push_back(fmt::format("{} on {} layers", kind, count));
  return join(kinds, ", ");
}

std::string put_weights(const std::string& path, TrainOptions& o) {
  if (!io::is_there(path)) data_error("train", "the weights to start from, resume_from_checkpoint {}, are not there", path);
  auto adapters = adapters_in(path);
  if (adapters.empty()) {
    auto& models = o.model.model;
    if (models.empty() || models.front() != path) models.insert(models.begin(), path);
    return fmt::format("resume_from_checkpoint {} becomes model, before the others: of two files that hold a part the first is taken",
                       path);
  }
  if (!o.trained.lora_checkpoint.empty() && o.trained.lora_checkpoint != path)
    config_error("train", "resume_from_checkpoint {} holds an adapter ({}), and lora_checkpoint names another; take one of them out", path,
                 adapters);
  o.trained.lora_checkpoint = path;
  return fmt::format("resume_from_checkpoint {} becomes lora_checkpoint: it holds {}", path, adapters);
}

}  // namespace

void fields(config::Fields& f, DiffSynthNames& names) {
  f.group("DiffSynth-Studio's", config::Level::all);
  f.path("resume_from_checkpoint", names.resume_from_checkpoint,
         "file of weights that training starts from: lora_checkpoint where it holds an adapter, else a model before all others; resume "
         "goes on "
         "with a run");
  f("customized_optimizer", names.customized_optimizer,
    "class of an optimizer in Python, torch.optim.AdamW or bitsandbytes.optim.AdamW8bit say: becomes optimizer and optimizer_args");
  f("quant_options", names.quant_options,
    "models whose frozen weights are stored in codes, as MODEL:bitsandbytes_nf4 with semicolons between, or JSON: becomes fp8_models and "
    "weight_format");
}

std::vector<std::string> put(const DiffSynthNames& names, TrainOptions& o) {
  std::vector<std::string> lines;
  if (!names.customized_optimizer.empty()) lines.push_back(put_optimizer(names.customized_optimizer, o));
  if (!names.quant_options.empty()) lines.push_back(put_quant_options(names.quant_options, o.model));
  if (!names.resume_from_checkpoint.empty()) lines.push_back(put_weights(names.resume_from_checkpoint, o));
  return lines;
}

}  // namespace burnish::train
