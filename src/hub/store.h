#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "hub/hub.h"
#include "hub/partial_file.h"

namespace burnish::hub {

/// A way in which the files of one model lie on this machine.
class Store {
 public:
  virtual ~Store() = default;
  /// The folder where the model's files can be opened by their paths; empty while nothing is known of the model.
  virtual std::filesystem::path folder() const = 0;
  /// Returns what the hub listed when it was last asked; nothing where that is not kept.
  virtual std::optional<Listing> listing() const { return std::nullopt; }
  /// Makes room for the files of a listing: what `folder` and `listing` say from then on.
  virtual void keep(const Listing& listing) = 0;
  /// Tells whether a file of the listing can be opened, of the size that it has there.
  virtual bool has(const RemoteFile& file) = 0;
  /// The path where a file is put together.
  virtual std::filesystem::path partial(const RemoteFile& file) const = 0;
  /// Moves it to where it is opened.
  virtual void place(const RemoteFile& file, PartialFile& partial) = 0;
};

/// A folder that holds the files by their paths, as `DIFFSYNTH_MODEL_BASE_PATH/<id>` does.
std::unique_ptr<Store> plain_folder(std::filesystem::path folder);

/// A model in the cache of huggingface_hub, or a dataset ("datasets/<author>/<name>"): `models--<author>--<model>/` with `refs/`, `blobs/`,
/// `snapshots/` and `trees/` (its file_download.py and _tree_cache.py), which both programs read and write.
std::unique_ptr<Store> huggingface_cache(const std::filesystem::path& cache, const std::string& id, const std::string& revision);

/// A model in the cache of modelscope: `models/<author>--<model>/snapshots/<revision>`, or where older releases of it have the model
/// already (modelscope_hub's _download.py).
std::unique_ptr<Store> modelscope_cache(const std::filesystem::path& cache, const std::string& id, const std::string& revision);

}  // namespace burnish::hub
