#include "app/named_models.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/input_error.h"
#include "convert/model_of_lora.h"
#include "io/files.h"
#include "models/registry.h"

namespace burnish::app {

namespace {

/// Tells whether a file is a LoRA; what cannot be read as one is said when it is opened as a model.
bool is_adapter(const std::string& path) {
  try {
    return path.ends_with(".safetensors") && io::is_there(path) && !io::is_folder(path) && convert::is_lora(path);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_models(const char* verb, const std::vector<std::string>& models, const std::string& for_lora) {
  for (const auto& name : models) {
    if (is_adapter(name)) data_error(verb, "{} is a LoRA, not a model; {}", name, fmt::format(fmt::runtime(for_lora), name));
    const auto* published = io::is_there(name) ? nullptr : models::find_published(name);
    if (published == nullptr || published->name != name) continue;
    const auto id = std::string(published->id);
    data_error(verb, "'{}' is the name of a model, {}, for `burnish plan`, and no place where its weights lie; name its files{}", name,
               published->title, id.empty() ? "" : fmt::format(", or its id on a hub: --model {}", id));
  }
}

}  // namespace burnish::app
