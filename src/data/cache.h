#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/file_hashes.h"
#include "io/safetensors.h"

namespace burnish::data {

class Cache;

/// The tensors of one entry, by name.
using Tensors = std::map<std::string, at::Tensor>;
/// Counts the bytes of all tensors.
int64_t num_bytes(const Tensors& tensors);

/// Entries that were made in one way (by one unit with one set of weights). A section is a folder of safetensors shards that are never
/// changed once written. Which entries go into a shard, and its name, follow from the entries and their order alone, so that a run
/// that was killed and started again, or two runs side by side, write the same files.
class CacheSection {
 public:
  const std::string& name() const { return name_; }
  /// The description, as JSON, of how the cache's entries were made.
  const std::string& description() const { return description_; }
  /// Compares checksums of those `keys` that are there. A damaged entry is named in a warning and is absent from then on.
  void verify(const std::vector<std::string>& keys);
  bool contains(const std::string& key) const { return entries_.contains(key); }
  /// The entry's tensors on the CPU, views of the mapped shard; a data Error when it is absent.
  const Tensors& at(const std::string& key) const;
  /// Adds an entry; it is on disk once its shard is full, or after `flush`. Adding what is there does nothing.
  void add(const std::string& key, Tensors tensors);
  void flush();
  std::vector<std::string> keys() const;

 private:
  friend class Cache;
  struct Shard {
    std::filesystem::path path;
    std::vector<std::string> keys;              ///< keys of the entries, in the order they were added
    std::map<std::string, uint64_t> checksums;  ///< checksums by tensor name in the file
    std::set<std::string> damaged;              ///< keys to be put back before the shard is written anew
  };
  struct Entry {
    Tensors tensors;
    int64_t shard = -1;  ///< -1 while it waits to be written
    bool verified = false;
  };
  CacheSection(Cache& cache, std::string name, const nlohmann::json& description);
  void open_shard(const std::filesystem::path& path);
  void read_shard(const std::filesystem::path& path);
  void write_shard(const std::vector<std::string>& keys, const std::filesystem::path& path);
  void repair(size_t shard);
  std::string shard_name(const std::vector<std::string>& keys) const;

  Cache& cache_;
  std::string name_, description_;
  std::filesystem::path folder_;  ///< "" in memory
  std::vector<Shard> shards_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, size_t> damaged_in_;  ///< key -> shard
  std::vector<std::string> pending_;
  int64_t pending_bytes_ = 0;
  std::vector<std::filesystem::path> unreadable_;
};

/// A folder of computed tensors: `manifest.json`, one folder a section, and lists of samples. Several processes may write at once.
/// Format and guarantees are described in docs/split-training.md.
class Cache {
 public:
  /// Opens or creates the cache in `folder`; "" keeps everything in memory. A data Error when the folder holds something else.
  explicit Cache(std::filesystem::path folder);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  bool on_disk() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }
  FileHashes& hashes() { return hashes_; }
  /// The entries of `unit` made in the way that `description` says: another description is another section.
  CacheSection& section(const std::string& unit, nlohmann::json description);
  /// A section by its folder name; a data Error when it is not there.
  CacheSection& section(const std::string& name);
  /// Counts the bytes of all entries' tensors that were opened or added.
  int64_t num_bytes() const;

  /// Tensors of a shard are at most this many bytes, or one entry.
  static constexpr int64_t kShardBytes = int64_t{64} << 20;
  static constexpr int64_t kShardEntries = 1024;

 private:
  friend class CacheSection;
  void start_writing();
  void publish(const io::NamedTensors& tensors, const io::Metadata& metadata, const std::filesystem::path& path);

  std::filesystem::path folder_, writing_;  ///< writing_: this process's folder for files that are not complete
  int writing_lock_ = -1;
  FileHashes hashes_;
  std::map<std::string, std::unique_ptr<CacheSection>> sections_;
};

/// Tells whether `folder` holds a cache.
bool is_cache(const std::filesystem::path& folder);

}  // namespace burnish::data
