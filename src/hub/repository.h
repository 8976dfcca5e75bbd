#pragma once
#include <memory>

#include "hub/store.h"

namespace burnish::hub {

/// A model on a hub, and what of it is on this machine.
class Repository {
 public:
  /// Makes a repository, and asks nothing yet.
  Repository(std::string id, std::unique_ptr<Hub> hub, std::unique_ptr<Store> store, Settings settings);

  const std::string& id() const { return id_; }
  /// The folder where the repository's files can be opened; empty while nothing is known of it.
  std::filesystem::path folder() const { return store_->folder(); }
  /// Tells whether all its files are known, so that nothing has to be asked for their names.
  bool is_listed() const { return listing_.has_value(); }
  /// Paths of the files that are here, sorted.
  std::vector<std::string> paths_here() const;
  /// Paths of all its files, sorted. Asks the hub, unless that was answered before. A data Error when the hub refuses.
  std::vector<std::string> paths();
  /// Counts the bytes of these files, as the hub lists them, and of those among them that are not here. Asks as `paths` does.
  struct Amount {
    int64_t num_bytes = 0, num_missing = 0;
  };
  Amount amount(const std::vector<std::string>& paths);
  /// Makes files be here: fetches those that are missing, several at once, and checks their sizes and hashes. A data Error when that fails;
  /// what came is kept and gone on with next time.
  void fetch(const std::vector<std::string>& paths);

 private:
  const Listing& listing();
  const RemoteFile& file(const std::string& path);
  void fetch_missing(const std::vector<RemoteFile>& missing);

  std::string id_;
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<Store> store_;
  Settings settings_;
  std::optional<Listing> listing_;
};

/// A model whose files lie by their paths in the folder `base/<id>`; from ModelScope unless the settings name a hub.
Repository in_model_base(const std::string& id, const Settings& settings);

/// Lists the ids of the models of which something is in the cache of that hub, sorted.
std::vector<std::string> ids_in_cache(const Settings& settings);

/// Deletes what is of a model in the cache of that hub. A data Error where nothing is, or it cannot be deleted.
void remove_from_cache(const std::string& id, const Settings& settings);

/// A model in the cache of its hub; from Hugging Face unless the settings name another.
Repository in_cache(const std::string& id, const Settings& settings);

}  // namespace burnish::hub
