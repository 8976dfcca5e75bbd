#pragma once
#include <map>

#include "adapters/adapter_file.h"
#include "models/family.h"

namespace burnish::loras {

/// The adapters of a file by component, in our paths. A layer's component is told by its prefix (Model::layer_names), by the family's names
/// of other programs, and is the denoiser otherwise. A data Error when the file adapts a component that is not among the model's files,
/// or does not fit one.
using AdaptersByComponent = std::map<std::string, std::vector<adapters::AdapterWeights>>;
AdaptersByComponent read(models::Model& model, const std::string& file);

/// The names of a component's layers in an adapter file that burnish writes.
adapters::LayerPrefixes layer_prefixes(const models::Model& model, const std::string& component);

}  // namespace burnish::loras
