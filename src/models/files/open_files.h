#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/files/files.h"
#include "models/files/hub_files.h"

namespace burnish::models {

/// The three ways in which models are named on the command line.
struct ModelNames {
  std::vector<std::string> model;          ///< --model: diffusers folders, component folders, single files or ids on a hub
  std::string model_paths;                 ///< --model_paths: JSON list of paths, or of lists of shards
  std::string model_id_with_origin_paths;  ///< --model_id_with_origin_paths: comma list of model_id:glob
  HubUse hub = HubUse::all;
};

/// Gives the components of a published model by its name, sizes alone; nothing for another name.
using PublishedSizes = std::function<std::optional<std::vector<ModelEntry>>(const std::string& name)>;

/// Opens every file named (headers only), and fetches models that are named by their ids on a hub. A name of --model without a file may be
/// one of the `published` models. Throws a data Error for a missing file, which says where it was looked for.
ModelFiles open_files(const ModelNames& names, const PublishedSizes& published);

}  // namespace burnish::models
