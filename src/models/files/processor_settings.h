#pragma once
#include <initializer_list>
#include <optional>
#include <string>

#include "models/files/files.h"

// What lies beside the weights of a model that sees pictures; picture_texts.h reads the rule of vision towers in it.
namespace burnish::models {

/// Returns an entry's folder where it has one of these files, as a hub's checkout has them beside the weights; else "".
std::string folder_with(const ModelEntry& entry, std::initializer_list<const char*> names);
/// Holds what the settings of a processor say of pictures, and where they lie.
struct ProcessorSettings {
  std::filesystem::path file;
  nlohmann::json of_pictures;
};
/// Reads them from the processor's folder: the chosen one, or that beside the model; nothing where there is none. A data Error where the
/// chosen one has none.
std::optional<ProcessorSettings> find_processor(const ModelFiles& files, const std::string& chosen);

}  // namespace burnish::models
