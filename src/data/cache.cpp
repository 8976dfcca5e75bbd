#include "data/cache.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "io/files.h"
#include "io/hash.h"
#include "io/json.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr int kSchema = 1;
const char* const kManifest = "manifest.json";
const char* const kFormat = "burnish cache";

std::string tensor_name(const std::string& key, const std::string& value) { return key + "." + value; }

/// Covers name, dtype and shape as well as the bytes.
uint64_t checksum(const std::string& name, const at::Tensor& tensor) {
  std::string shape;
  for (auto size : tensor.sizes()) shape += fmt::format(",{}", size);
  auto seed = io::xxh64(fmt::format("{}|{}|{}", name, io::safetensors_dtype(tensor.scalar_type()), shape));
  return io::xxh64({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}, seed);
}

/// Holds a lock file for the time of a few file operations.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : descriptor_(open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, io::kFileMode)) {
    if (descriptor_ >= 0) flock(descriptor_, LOCK_EX);
  }
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Removes what killed processes left: folders and half-written files whose lock nobody holds any more.
void remove_left_overs(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& left : io::glob(folder, "writing-*")) {
    if (!io::is_locked(left / "lock")) fs::remove_all(left, ignored);
  }
  io::remove_partial_files(folder);
}

/// Returns what a section's name says of what made it.
std::string hash_of(const nlohmann::json& description) { return io::sha256(description.dump()).substr(0, 16); }

}  // namespace

int64_t num_bytes(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

bool is_cache(const fs::path& folder) { return !folder.empty() && io::is_there(folder / kManifest); }

Cache::Cache(fs::path folder) : folder_(std::move(folder)), hashes_(folder_.empty() ? fs::path() : folder_ / "hashes.json") {
  if (folder_.empty()) return;
  if (is_cache(folder_)) {
    const auto manifest = io::read_json(folder_ / kManifest);
    if (manifest != nlohmann::json{{"format", kFormat}, {"schema", kSchema}})
      data_error("data", "{} is no cache of this version (format '{}', schema {}); name another folder", folder_.string(), kFormat,
                 kSchema);
  } else {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) data_error("data", "cannot create the cache folder {}: {}", folder_.string(), error.message());
  }
  FolderLock lock(folder_);
  if (!is_cache(folder_))
    io::write_text_atomic(folder_ / kManifest, nlohmann::ordered_json{{"format", kFormat}, {"schema", kSchema}}.dump(2) + "\n");
  remove_left_overs(folder_);
}

Cache::~Cache() {
  hashes_.save();
  std::error_code ignored;
  if (!writing_.empty()) fs::remove_all(writing_, ignored);
  if (writing_lock_ >= 0) close(writing_lock_);
}

void Cache::start_writing() {
  if (!writing_.empty()) return;
  FolderLock lock(folder_);
  remove_left_overs(folder_);
  auto name = (folder_ / "writing-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) data_error("data", "cannot write to the cache {}", folder_.string());
  writing_ = name;
  writing_lock_ = open((writing_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, io::kFileMode);
  if (writing_lock_ >= 0) flock(writing_lock_, LOCK_EX);
}

void Cache::publish(const io::NamedTensors& tensors, const io::Metadata& metadata, const fs::path& path) {
  start_writing();
  auto partial = writing_ / path.filename();
  try {
    io::save_safetensors(partial, tensors, metadata);
    std::error_code error;
    fs::rename(partial, path, error);
    if (error) data_error("data", "cannot write {}: {}", path.string(), error.message());
  } catch (const Error& error) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    throw Error(error.code(), "data",
                fmt::format("the cache cannot grow: {}. All complete shards are kept: make room and give the same command again",
                            without_source(error)));
  }
}

CacheSection& Cache::section(const std::string& unit, nlohmann::json description) {
  description["schema"] = kSchema;
  description["unit"] = unit;
  auto name = fmt::format("{}-{}", unit, hash_of(description));
  auto& section = sections_[name];
  if (!section) section.reset(new CacheSection(*this, name, description));
  return *section;
}

CacheSection& Cache::section(const std::string& name) {
  auto it = sections_.find(name);
  if (it != sections_.end()) return *it->second;
  if (!fs::is_directory(folder_ / name)) data_error("data", "the cache {} has no section '{}'", folder_.string(), name);
  const auto path = folder_ / name / "unit.json";
  const auto description = io::read_json(path);
  if (!name.ends_with(hash_of(description)))
    data_error("data", "{} is damaged: it is not what the folder's name was made of; make the cache again in a new folder", path.string());
  auto& section = sections_[name];
  section.reset(new CacheSection(*this, name, description));
  return *section;
}

int64_t Cache::num_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, section] : sections_) {
    for (const auto& [key, entry] : section->entries_) bytes += data::num_bytes(entry.tensors);
  }
  return bytes;
}

CacheSection::CacheSection(Cache& cache, std::string name, const nlohmann::json& description)
    : cache_(cache), name_(std::move(name)), description_(description.dump(2) + "\n") {
  if (!cache.on_disk()) return;
  folder_ = cache.folder() / name_;
  for (const auto& path : io::glob(folder_, "*.safetensors")) open_shard(path);
}

/// A shard that cannot be understood is as if it were not there.
void CacheSection::open_shard(const fs::path& path) {
  try {
    read_shard(path);
  } catch (const std::exception& error) {
    warn("the cache shard {} is damaged and will be computed again: {}", path.string(), error.what());
    unreadable_.push_back(path);
  }
}

void CacheSection::read_shard(const fs::path& path) {
  auto file = io::SafetensorsFile::open(path);
  const auto& metadata = file->metadata();
  if (metadata.at("section") != name_) data_error("data", "it belongs to the section '{}'", metadata.at("section"));
  Shard shard{path, nlohmann::json::parse(metadata.at("keys")).get<std::vector<std::string>>(), {}, {}};
  auto sums = nlohmann::json::parse(metadata.at("checksums"));
  for (const auto& [name, sum] : sums.items()) shard.checksums[name] = std::stoull(sum.get<std::string>(), nullptr, 16);
  if (shard_name(shard.keys) != path.filename()) data_error("data", "its list of keys does not fit its name");
  std::map<std::string, Entry> entries;
  for (const auto& [name, info] : file->tensors()) {
    auto dot = name.find('.');
    if (dot == name.npos || !shard.checksums.contains(name)) data_error("data", "the tensor '{}' has no checksum", name);
    auto& entry = entries[name.substr(0, dot)];
    entry.tensors[name.substr(dot + 1)] = file->tensor(name);
    entry.shard = std::ssize(shards_);
  }
  for (const auto& key : shard.keys) {
    if (!entries.contains(key)) data_error("data", "the entry '{}' is not in it", key);
  }
  shards_.push_back(std::move(shard));
  entries_.merge(entries);
}

std::string CacheSection::shard_name(const std::vector<std::string>& keys) const {
  return io::sha256(name_ + "\n" + join(keys, "\n")).substr(0, 32) + ".safetensors";
}

void CacheSection::verify(const std::vector<std::string>& keys) {
  std::vector<std::pair<const std::string*, Entry*>> open;
  for (const auto& key : keys) {
    auto it = entries_.find(key);
    if (it != entries_.end() && !it->second.verified) open.emplace_back(&it->first, &it->second);
  }
  at::parallel_for(0, std::ssize(open), 1, [&](int64_t from, int64_t to) {
    for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
      auto& [key, entry] = open[i];
      const auto& sums = shards_[static_cast<size_t>(entry->shard)].checksums;
      entry->verified = std::all_of(entry->tensors.begin(), entry->tensors.end(), [&](const auto& item) {
        auto name = tensor_name(*key, item.first);
        return sums.at(name) == checksum(name, item.second);
      });
    }
  });
  for (auto& [key_of, entry] : open) {
    if (entry->verified) continue;
    auto key = *key_of;
    auto shard = static_cast<size_t>(entry->shard);
    warn("the cache entry {} in {} is damaged (its checksum differs) and will be computed again", key, shards_[shard].path.string());
    shards_[shard].damaged.insert(key);
    damaged_in_[key] = shard;
    entries_.erase(key);
  }
}

const Tensors& CacheSection::at(const std::string& key) const {
  auto it = entries_.find(key);
  if (it == entries_.end()) data_error("data", "the cache section {} has no entry '{}'", name_, key);
  return it->second.tensors;
}

std::vector<std::string> CacheSection::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries_) keys.push_back(key);
  return keys;
}

void CacheSection::add(const std::string& key, Tensors tensors) {
  if (contains(key)) return;
  for (auto& [name, tensor] : tensors) tensor = tensor.detach().cpu().contiguous();
  auto bytes = data::num_bytes(tensors);
  bool repairs = damaged_in_.contains(key);
  if (!folder_.empty() && !repairs && !pending_.empty() &&
      (pending_bytes_ + bytes > Cache::kShardBytes || std::ssize(pending_) >= Cache::kShardEntries))
    flush();
  entries_[key] = {std::move(tensors), -1, true};
  if (folder_.empty()) return;
  if (repairs) {
    auto& shard = shards_[damaged_in_.at(key)];
    shard.damaged.erase(key);
    if (shard.damaged.empty()) repair(damaged_in_.at(key));
    return;
  }
  pending_.push_back(key);
  pending_bytes_ += bytes;
}

/// Writes a damaged shard anew, with the entries that were put back, and without those that nobody wanted.
void CacheSection::repair(size_t index) {
  auto path = shards_[index].path;
  auto keys = shards_[index].keys;
  verify(keys);
  std::erase_if(keys, [&](const auto& key) { return !contains(key); });
  auto complete = keys.size() == shards_[index].keys.size();
  for (const auto& key : shards_[index].keys) damaged_in_.erase(key);
  shards_[index].damaged.clear();
  if (!keys.empty()) write_shard(keys, folder_ / shard_name(keys));
  std::error_code ignored;
  if (!complete) fs::remove(path, ignored);
}

void CacheSection::flush() {
  if (folder_.empty()) return;
  for (size_t i = 0; i < shards_.size(); ++i) {
    auto put_back = [&](const auto& key) { return contains(key) && entries_.at(key).shard < 0; };
    if (!shards_[i].damaged.empty() && std::any_of(shards_[i].keys.begin(), shards_[i].keys.end(), put_back)) repair(i);
  }
  if (pending_.empty()) return;
  write_shard(pending_, folder_ / shard_name(pending_));
  pending_.clear();
  pending_bytes_ = 0;
}

void CacheSection::write_shard(const std::vector<std::string>& keys, const fs::path& path) {
  io::NamedTensors tensors;
  nlohmann::ordered_json sums;
  for (const auto& key : keys) {
    for (const auto& [name, tensor] : entries_.at(key).tensors) {
      tensors.emplace_back(tensor_name(key, name), tensor);
      sums[tensors.back().first] = fmt::format("{:016x}", checksum(tensors.back().first, tensor));
    }
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) data_error("data", "cannot create {}: {}", folder_.string(), error.message());
  if (!io::is_there(folder_ / "unit.json")) io::write_text_atomic(folder_ / "unit.json", description_);
  cache_.publish(tensors, {{"section", name_}, {"keys", nlohmann::json(keys).dump()}, {"checksums", sums.dump()}}, path);
  for (const auto& old : std::exchange(unreadable_, {})) {
    if (old != path) fs::remove(old, error);
  }
  for (const auto& key : keys) entries_.erase(key);
  read_shard(path);
  verify(keys);
  for (const auto& key : keys) {
    if (!contains(key)) data_error("data", "{} does not read back as it was written (entry {}); check the disk", path.string(), key);
  }
}

}  // namespace burnish::data
