#include "convert/model_of_lora.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "adapters/adapter_config.h"
#include "adapters/adapter_file.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "io/files.h"
#include "io/json.h"
#include "loras/lora_file.h"
#include "models/files/loading.h"
#include "models/registry.h"

namespace burnish::convert {

namespace fs = std::filesystem;

namespace {

bool has_all(const io::Shapes& shapes, const io::Shapes& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& item) {
    auto it = shapes.find(item.first);
    return it != shapes.end() && it->second == item.second;
  });
}

/// The denoiser's layers in those of its parts that an adapter adapts; all where it adapts none. Experts have the same layers.
io::Shapes layers_of_adapted(models::Model& model, const loras::AdaptersByComponent& lora) {
  const auto& denoiser = model.names().experts.front().component;
  auto adapted = lora.find(denoiser);
  io::Shapes layers;
  for (const auto& part : model.components().parts(denoiser)) {
    auto of_part = models::shapes_of(*model.components().skeleton(part));
    auto is_in = [&](const adapters::AdapterWeights& w) { return of_part.contains(w.path + ".weight") || of_part.contains(w.path); };
    if (adapted == lora.end() || std::ranges::any_of(adapted->second, is_in)) layers.merge(of_part);
  }
  return layers;
}

std::unique_ptr<models::Model> open_with_references(const std::vector<std::string>& names) {
  models::ModelOptions options{.references = true};  // a LoRA may adapt what sees them
  options.own = models::default_options();
  return models::open_model(models::open_model_files({names, "", ""}), options);
}

std::unique_ptr<models::Model> open_told(const std::string& lora, const std::string& name) {
  info("{}: a LoRA for {}", lora, name);
  return models::open_published_model(name);
}

/// A published model that has the layers of an adapter.
struct Fit {
  std::string name, variant;
  bool is_part = false;  ///< those of another that fits have all of its own
};

std::vector<Fit> published_models_for(const std::string& lora) {
  std::vector<Fit> fitting;
  std::vector<io::Shapes> layers;  // of those that are no part of others
  for (const auto& name : models::published_models()) {
    auto model = models::open_published_model(name);
    loras::AdaptersByComponent read;
    try {
      read = loras::read(*model, lora, loras::Absent::as_published);
    } catch (const Error&) {
      continue;
    }
    auto own = layers_of_adapted(*model, read);
    fitting.push_back({name, model->names().variant});
    fitting.back().is_part = std::any_of(layers.begin(), layers.end(), [&](const auto& of) { return has_all(of, own); });
    if (!fitting.back().is_part)
      layers.push_back(models::shapes_of(*model->components().skeleton(model->names().experts.front().component)));
  }
  return fitting;
}

/// Returns what an adapter says that it was trained on: burnish in the file's header, peft beside it; "" where neither does.
std::string said_base(const std::string& lora) {
  auto place = adapters::find_adapter(lora);
  auto metadata = io::TensorSource::open({place.tensors}).metadata();
  if (auto it = metadata.find("base_model"); it != metadata.end()) return it->second;
  if (place.config.empty()) return "";
  auto config = io::read_json(place.config);
  auto it = config.is_object() ? config.find("base_model_name_or_path") : config.end();
  return it != config.end() && it->is_string() ? it->get<std::string>() : "";
}

/// Returns a text's letters, in small, and digits alone.
std::string letters_of(const std::string& text) {
  std::string letters;
  for (unsigned char c : text) {
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

/// Tells whether a word is the published name of a model or its variant's, be it behind the name of who published it ("owner/FLUX.1-dev").
bool is_called(const std::string& word, const Fit& fit) {
  auto letters = letters_of(word.substr(word.rfind('/') + 1));
  return !letters.empty() && (letters == letters_of(fit.name) || letters == letters_of(fit.variant));
}

}  // namespace

bool is_lora(const std::string& path) {
  std::error_code ignored;
  bool is_folder = fs::is_directory(path, ignored);
  if (is_folder && !io::is_there(fs::path(path) / "adapter_model.safetensors") && !io::is_there(fs::path(path) / "adapter_model.bin") &&
      !io::is_there(fs::path(path) / "pytorch_lora_weights.safetensors"))
    return false;
  if (!is_folder && !io::is_tensor_file(path)) return false;
  return !adapters::kinds_in(io::TensorSource::open({adapters::find_adapter(path).tensors})).empty();
}

std::unique_ptr<models::Model> model_of(const std::string& lora, const std::vector<std::string>& names,
                                        const std::vector<std::string>& of_run) {
  if (!names.empty()) return open_with_references(names);
  auto fitting = published_models_for(lora);
  std::vector<std::string> apart;  // schnell's layers are dev's: what is written is the same
  for (const auto& fit : fitting) {
    if (!fit.is_part) apart.push_back(fit.name);
  }
  if (apart.size() == 1) return open_told(lora, apart[0]);
  const auto said = said_base(lora);
  std::vector<std::string> named;
  for (const auto& fit : fitting) {
    if (is_called(said, fit)) named.push_back(fit.name);
  }
  if (named.size() == 1) return open_told(lora, named[0]);
  if (io::is_there(said)) return open_with_references({said});
  if (!of_run.empty()) {
    info("{}: a LoRA for {}, which the run beside it trained", lora, join(of_run));
    return open_with_references(of_run);
  }
  data_error("convert", "the names and shapes in {} do not tell which model it is for ({}){}; give --model with {}the model's files", lora,
             apart.empty() ? "none of the published ones known here has such layers" : join(apart) + " have such layers",
             said.empty() ? "" : fmt::format(", and its metadata names {}, which is none of these and no file here", said),
             apart.empty() ? "" : "one of these names, or with ");
}

}  // namespace burnish::convert
