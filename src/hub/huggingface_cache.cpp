#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/text.h"
#include "hub/store.h"
#include "io/files.h"

namespace burnish::hub {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kTreeVersion = 1;  // format_version of _tree_cache.py

std::string read_if_there(const fs::path& path) {
  std::error_code failed;
  return fs::is_regular_file(path, failed) ? io::read_text(path) : "";
}

/// The name of its content, which is also the name of the file that holds it.
std::string blob_name(const RemoteFile& file) {
  if (!file.sha256.empty()) return file.sha256;
  return file.git_hash.empty() ? io::sha256(file.path) : file.git_hash;
}

json to_json(const RemoteFile& file) {
  json entry{{"size", file.size}, {"blob_id", file.git_hash}};
  if (file.sha256.empty()) return entry;
  entry["lfs_sha256"] = file.sha256;
  entry["lfs_size"] = file.size;
  return entry;
}

class HuggingFaceCache : public Store {
 public:
  HuggingFaceCache(fs::path folder, std::string revision) : folder_(std::move(folder)), revision_(std::move(revision)) {
    commit_ = hexadecimal(std::string(trim(read_if_there(folder_ / "refs" / revision_))), 40);
  }

  fs::path folder() const override { return commit_.empty() ? fs::path() : folder_ / "snapshots" / commit_; }

  std::optional<Listing> listing() const override {
    auto tree = json::parse(read_if_there(tree_path()), nullptr, /*allow_exceptions=*/false);
    if (commit_.empty() || !tree.is_object() || tree.value("format_version", json()) != kTreeVersion || !tree.contains("files"))
      return std::nullopt;
    Listing listing{commit_, {}};
    for (const auto& [path, entry] : tree["files"].items()) {
      if (!entry.is_object()) return std::nullopt;
      auto sha256 = entry.value("lfs_sha256", json("")), size = entry.value("size", json()), blob = entry.value("blob_id", json());
      if (!is_safe_path(path) || !size.is_number() || !blob.is_string() || !sha256.is_string()) return std::nullopt;
      listing.files.push_back({path, size.get<int64_t>(), hexadecimal(sha256, 64), hexadecimal(blob, 40)});
    }
    return listing;
  }

  void keep(const Listing& listing) override {
    commit_ = listing.commit;
    json tree{{"format_version", kTreeVersion}, {"files", json::object()}};
    for (const auto& file : listing.files) tree["files"][file.path] = to_json(file);
    std::error_code ignored;
    fs::create_directories(folder(), ignored);
    io::write_text_atomic(tree_path(), tree.dump(1));
    if (trim(read_if_there(folder_ / "refs" / revision_)) != commit_) io::write_text_atomic(folder_ / "refs" / revision_, commit_);
  }

  /// Returns what another commit or huggingface_hub fetched of the same content is linked to.
  bool has(const RemoteFile& file) override {
    std::error_code failed;
    auto path = folder() / file.path;
    if (!io::is_there(path) && io::is_there(blob(file))) link(file);
    auto size = fs::file_size(path, failed);
    return !failed && (file.size < 0 || size == static_cast<uint64_t>(file.size));
  }

  fs::path partial(const RemoteFile& file) const override { return folder_ / "blobs" / (blob_name(file) + ".burnish.incomplete"); }

  void place(const RemoteFile& file, PartialFile& partial) override {
    partial.commit(blob(file));
    link(file);
  }

 private:
  fs::path tree_path() const { return folder_ / "trees" / (commit_ + ".json"); }
  fs::path blob(const RemoteFile& file) const { return folder_ / "blobs" / blob_name(file); }

  void link(const RemoteFile& file) const {
    auto path = folder() / file.path;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    fs::remove(path, failed);
    fs::create_symlink(blob(file).lexically_relative(path.parent_path()), path, failed);
    if (failed) fs::rename(blob(file), path, failed);  // a file system without links
    if (failed) data_error("hub", "cannot write {}: {}; name another folder in HF_HUB_CACHE", path.string(), failed.message());
  }

  fs::path folder_;
  std::string revision_, commit_;
};

}  // namespace

std::unique_ptr<Store> huggingface_cache(const fs::path& cache, const std::string& id, const std::string& revision) {
  auto name = is_dataset_id(id) ? id : "models/" + id;
  for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/')) name.replace(slash, 1, "--");
  return std::make_unique<HuggingFaceCache>(cache / name, revision);
}

}  // namespace burnish::hub
