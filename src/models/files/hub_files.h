#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::models {

/// Says which files are fetched where they are not on this machine, of models that are named by their ids on a hub.
enum class HubUse {
  all,               ///< files that a run opens
  without_denoiser,  ///< files that a run opens which only encodes: the denoiser stays on the hub where text encoders tell the family
  denoiser_alone,    ///< files that a run opens which finds everything else in a cache
  nothing,
};

/// Tells whether a name of --model is the id of a model on a hub ("author/model") and no path on this machine.
bool is_hub_model(const std::string& name);

/// Returns the folder of such a model in the cache of its hub, after missing files were fetched. Nothing is asked when it is whole. Throws
/// a data Error when the hub refuses it, or may not be asked.
std::filesystem::path hub_folder(const std::string& id, HubUse use);

/// Tells whether a component of a model_index.json is left out. Tokenizers and schedulers are small, and never are.
bool leaves_out(HubUse use, const std::string& component);

/// Returns the folder below DIFFSYNTH_MODEL_BASE_PATH with the files of a model.
std::filesystem::path model_base_folder(const std::string& id);

/// Lists the files in that folder that match a pattern (io::glob; one that ends in "/" is a folder, "./" the model's own), sorted. Missing
/// files are fetched, and with them the small files that are opened beside them: config.json, tokenizers, scheduler. Nothing is asked when
/// matches are here and no numbered shard is missing. None where the hub may not be asked. Throws a data Error when it refuses.
std::vector<std::filesystem::path> model_base_files(const std::string& id, const std::string& pattern, HubUse use);

}  // namespace burnish::models
