#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::models {

/// What of models that are named by their ids on a hub is fetched where it is not on this machine.
enum class HubUse {
  all,               ///< what a run opens
  without_denoiser,  ///< what a run opens that only encodes: the denoiser stays on the hub where text encoders tell the family
  nothing,
};

/// Whether a name of --model is the id of a model on a hub ("author/model") and no path on this machine.
bool is_hub_model(const std::string& name);

/// The folder of such a model in the cache of its hub, what is missing fetched. Nothing is asked when it is whole. A data Error when the
/// hub refuses it, or may not be asked.
std::filesystem::path hub_folder(const std::string& id, HubUse use);

/// Whether a component of a model_index.json is what `without_denoiser` leaves out.
bool is_denoiser_folder(const std::string& component);

/// The folder below DIFFSYNTH_MODEL_BASE_PATH with the files of a model.
std::filesystem::path model_base_folder(const std::string& id);

/// The files in it that match a pattern (io::glob; one that ends in "/" is a folder, "./" the model's own), sorted, what is missing
/// fetched, and with it the small files that are opened beside them: config.json, tokenizers, scheduler. Nothing is asked when matches are
/// here and none is missing of its numbered shards. None where the hub may not be asked. A data Error when it refuses.
std::vector<std::filesystem::path> model_base_files(const std::string& id, const std::string& pattern, HubUse use);

}  // namespace burnish::models
