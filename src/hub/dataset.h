#pragma once
#include <optional>

#include "hub/settings.h"

namespace burnish::hub {

/// A dataset on Hugging Face, or a part of it, as the hub's own programs spell it: hf://datasets/AUTHOR/NAME[@REVISION][/PATH].
struct DatasetAddress {
  std::string id = {};  ///< as the hub's addresses have it: "datasets/AUTHOR/NAME"
  std::string revision = "main";
  std::string path = {};  ///< a file or folder of it; "" for all
};
/// Reads an address; nothing of a text that begins otherwise. A config Error for one that names no dataset.
std::optional<DatasetAddress> dataset_address(const std::string& text);

/// Makes the dataset's files be in the cache of the hub, as a model's are, and returns where they lie: a file, or a folder. Of all files
/// that is the folder `data` where the root has nothing but words about them, as `push_to_hub` writes it. A data Error when they cannot be
/// fetched; what came is kept and gone on with next time.
std::filesystem::path fetch_dataset(const DatasetAddress& address, const Settings& settings);

}  // namespace burnish::hub
