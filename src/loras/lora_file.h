#pragma once
#include <map>

#include "adapters/adapter_file.h"
#include "models/registry.h"

namespace burnish::loras {

/// The key of a file's metadata that names the expert it adapts.
inline const std::string kExpertKey = "expert";

/// The adapters of a file by component, in our paths. A layer's component is told by its prefix (models::LayerNames), by the family's names
/// of other programs, and is the denoiser otherwise. A data Error when the file does not fit a component, or adapts one that is not among
/// the model's files, unless `absent` says otherwise. What a file says of layers that the model never runs,
/// or of layers that it lacks and that would stay as they are, is skipped with a line. Experts of a model have layers of the same names: a
/// file is of the one that its metadata or its own name says ("x_high_noise.safetensors"), where neither does of the one that is `alone`,
/// as one whose files alone are there always is; else a data Error, but for what is as published, which then goes to the first.
enum class Absent {
  refused,
  unchecked,     ///< its layers are those that the file names
  as_published,  ///< it has the layers of the published model
};
using AdaptersByComponent = std::map<std::string, std::vector<adapters::AdapterWeights>>;
AdaptersByComponent read(models::Model& model, const std::string& file, Absent absent = Absent::refused,
                         const models::Expert* alone = nullptr);

/// The file of a pair that is for another expert.
struct Sibling {
  std::string path;
  models::Expert expert;
  size_t beside;  ///< the number of the file beside which it lies
};
/// Lists what lies beside `files`, and is not among them, and is called as one of them is, but for another expert
/// ("x_high_noise.safetensors", "x_low_noise.safetensors"), for experts that are among the model's files.
std::vector<Sibling> siblings(models::Model& model, const std::vector<std::string>& files);

/// What stands before a component's layers in files of diffusers, which reads those of every expert as if it were the first.
std::string diffusers_prefix(const models::Model& model, const std::string& component);

/// The names of a component's layers in an adapter file that burnish writes.
adapters::LayerPrefixes layer_prefixes(const models::Model& model, const std::string& component);

}  // namespace burnish::loras
