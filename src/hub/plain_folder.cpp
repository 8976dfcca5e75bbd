#include "hub/store.h"
#include "io/files.h"

namespace burnish::hub {

namespace fs = std::filesystem;

namespace {

class PlainFolder : public Store {
 public:
  explicit PlainFolder(fs::path folder) : folder_(std::move(folder)) {}

  fs::path folder() const override { return folder_; }
  void keep(const Listing&) override {}

  bool has(const RemoteFile& file) override {
    std::error_code failed;
    auto size = fs::file_size(folder_ / file.path, failed);
    return !failed && (file.size < 0 || size == static_cast<uint64_t>(file.size));
  }

  /// Named by the content, so that a rest of another version is not gone on with. Patterns for weights do not match it.
  fs::path partial(const RemoteFile& file) const override {
    auto content = (file.sha256.empty() ? file.git_hash : file.sha256).substr(0, 16);
    return folder_ / (file.path + (content.empty() ? "" : "." + content) + ".incomplete");
  }

  void place(const RemoteFile& file, PartialFile& partial) override {
    partial.commit(folder_ / file.path);
    std::error_code ignored;
    for (const auto& old : io::glob(folder_, file.path + ".*.incomplete")) fs::remove(old, ignored);  // of other versions
  }

 private:
  fs::path folder_;
};

bool holds_something(const fs::path& folder) {
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  return !failed && entries != fs::directory_iterator();
}

}  // namespace

std::unique_ptr<Store> plain_folder(fs::path folder) { return std::make_unique<PlainFolder>(std::move(folder)); }

std::unique_ptr<Store> modelscope_cache(const fs::path& cache, const std::string& id, const std::string& revision) {
  auto slash = id.find('/');
  auto author = id.substr(0, slash), name = id.substr(slash + 1), safe = name;
  for (auto dot = safe.find('.'); dot != safe.npos; dot = safe.find('.', dot + 3)) safe.replace(dot, 1, "___");
  for (const auto& old : {cache / "models" / author / safe, cache / "hub/models" / author / safe}) {
    if (holds_something(old)) return plain_folder(old);
  }
  return plain_folder(cache / "models" / (author + "--" + name) / "snapshots" / revision);
}

}  // namespace burnish::hub
