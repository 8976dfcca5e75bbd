#include "hub/repository.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "io/files.h"

namespace burnish::hub {

namespace fs = std::filesystem;

namespace {

constexpr size_t kNumConnections = 4;
constexpr double kMiB = 1024.0 * 1024;

/// A state of a model on a hub, and where its files go.
struct Remote {
  const std::string &id, &commit;
  const Hub& hub;
  Store& store;
};

/// Fetches one file after the other until none is left; several run side by side.
class Fetching {
 public:
  Fetching(const Remote& remote, const std::vector<RemoteFile>& files, double timeout)
      : remote_(remote), files_(files), transport_({.stall_seconds = timeout}, [this] { return stops(); }) {}

  void run() {
    int64_t total = 0;
    for (const auto& file : files_) total += std::max<int64_t>(file.size, 0);
    {
      std::vector<std::jthread> workers;
      try {
        for (size_t i = 0; i < std::min(kNumConnections, files_.size()); ++i) workers.emplace_back([this] { work(); });
      } catch (const std::system_error&) {  // the number of processes is limited: one connection is enough
        if (workers.empty()) throw;
      }
      show(total);
    }
    if (error_) std::rethrow_exception(error_);
    check_interrupt();
  }

 private:
  bool stops() const { return failed_ || interrupted(); }

  void show(int64_t total) {
    auto count = [](int64_t bytes) { return static_cast<int64_t>(static_cast<double>(bytes) / kMiB); };
    Progress progress("fetch (MiB)", count(total), 0);
    while (num_done_ < files_.size() && !stops()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      progress.update(count(num_bytes_), fmt::format("{} of {} files", num_done_.load(), files_.size()));
    }
  }

  void work() {
    for (auto i = next_++; i < files_.size() && !stops(); i = next_++) {
      try {
        fetch(files_[i]);
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        failed_ = true;
      }
      ++num_done_;
    }
  }

  void fetch(const RemoteFile& file) {
    const auto& [id, commit, hub, store] = remote_;
    PartialFile partial(store.partial(file));
    if (store.has(file)) return partial.remove();  // another process was first
    num_bytes_ += partial.size();
    // The beginning of a file may be of no use; then it is fetched once more from its beginning.
    for (bool fresh = partial.size() == 0;; fresh = true) {
      auto answer =
          transport_.download(hub.request(id, commit, file.path), partial, file.size, [this](int64_t more) { num_bytes_ += more; });
      if (stops()) return;
      if (!answer.is_good()) hub.refuse(answer, id, file.path);
      if (is_right(file, partial)) return store.place(file, partial);
      num_bytes_ -= partial.size();
      partial.restart();
      if (!fresh) continue;
      partial.remove();
      data_error("hub",
                 "'{}' of '{}' came with another content than {} lists (its hash differs) and was removed: try again, or another "
                 "address in {}",
                 file.path, id, hub.name(), hub.endpoint_variable());
    }
  }

  static bool is_right(const RemoteFile& file, PartialFile& partial) {
    if (!file.sha256.empty()) return partial.sha256() == file.sha256;
    return file.git_hash.empty() || io::git_blob_hash(partial.path()) == file.git_hash;
  }

  Remote remote_;
  const std::vector<RemoteFile>& files_;
  Transport transport_;
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> num_bytes_ = 0;
  std::atomic<bool> failed_ = false;
  std::atomic<size_t> num_done_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;  ///< the first
};

void check_room(const fs::path& folder, int64_t num_bytes) {
  auto there = folder;
  while (!io::is_there(there) && there.has_relative_path()) there = there.parent_path();
  std::error_code failed;
  auto space = fs::space(there.empty() ? "." : there, failed);
  if (failed || num_bytes <= static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX))) return;
  data_error("hub",
             "fetching takes {}, and {} has {} left; make room, or name another folder in HF_HUB_CACHE, MODELSCOPE_CACHE or "
             "DIFFSYNTH_MODEL_BASE_PATH",
             human_bytes(static_cast<double>(num_bytes)), folder.string(), human_bytes(static_cast<double>(space.available)));
}

/// The folders of the models of which something is in the cache of the hub, by their ids.
std::map<std::string, fs::path> folders_in_cache(const Settings& settings) {
  const bool is_huggingface = settings.source.value_or(Source::huggingface) == Source::huggingface;
  const auto folder = is_huggingface ? settings.huggingface_cache : settings.modelscope_cache / "models";
  const std::string before = is_huggingface ? "models--" : "";
  std::map<std::string, fs::path> folders;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    auto name = it->path().filename().string();
    auto split = name.find("--", before.size());
    if (!name.starts_with(before) || split == name.npos) continue;
    auto id = name.substr(before.size(), split - before.size()) + "/" + name.substr(split + 2);
    if (is_model_id(id)) folders[id] = it->path();
  }
  return folders;
}

}  // namespace

Repository::Repository(std::string id, std::unique_ptr<Hub> hub, std::unique_ptr<Store> store, Settings settings)
    : id_(std::move(id)), hub_(std::move(hub)), store_(std::move(store)), settings_(std::move(settings)), listing_(store_->listing()) {}

std::vector<std::string> Repository::paths_here() const {
  std::vector<std::string> paths;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder(), failed), end; !failed && it != end; it.increment(failed)) {
    if (it->is_regular_file(failed)) paths.push_back(it->path().lexically_relative(folder()).generic_string());
  }
  std::ranges::sort(paths);
  return paths;
}

const Listing& Repository::listing() {
  if (listing_) return *listing_;
  if (!settings_.offline.empty()) {
    data_error(
        "hub",
        "'{}' is not whole on this machine ({}), nor is it a path that exists here, and {} keeps burnish from asking {}: correct the "
        "path, unset the variable, or put the model there",
        id_, folder().empty() ? settings_.huggingface_cache.string() : folder().string(), settings_.offline, hub_->name());
  }
  auto listing = hub_->list(Transport({.stall_seconds = settings_.timeout}, interrupted), id_);
  store_->keep(listing);
  return listing_.emplace(std::move(listing));
}

std::vector<std::string> Repository::paths() {
  std::vector<std::string> paths;
  for (const auto& file : listing().files) paths.push_back(file.path);
  std::ranges::sort(paths);
  return paths;
}

const RemoteFile& Repository::file(const std::string& path) {
  auto file = std::ranges::find(listing().files, path, &RemoteFile::path);
  if (file == listing().files.end()) hub_->refuse({.status = 404}, id_, path);
  return *file;
}

Repository::Amount Repository::amount(const std::vector<std::string>& paths) {
  Amount amount;
  for (const auto& path : paths) {
    const auto& one = file(path);
    const auto size = std::max<int64_t>(one.size, 0);
    amount.num_bytes += size;
    if (!store_->has(one)) amount.num_missing += size;
  }
  return amount;
}

void Repository::fetch(const std::vector<std::string>& paths) {
  std::vector<RemoteFile> missing;
  for (const auto& path : paths) {
    const auto& one = file(path);
    if (!store_->has(one)) missing.push_back(one);
  }
  if (!missing.empty()) fetch_missing(missing);
}

void Repository::fetch_missing(const std::vector<RemoteFile>& missing) {
  if (!settings_.offline.empty()) {
    data_error("hub", "'{}' of '{}' is not on this machine ({}), and {} keeps burnish from asking {}: unset it, or put the file there",
               missing[0].path, id_, folder().string(), settings_.offline, hub_->name());
  }
  int64_t num_bytes = 0;
  for (const auto& file : missing) num_bytes += std::max<int64_t>(file.size, 0);
  info("fetching {} file{} ({}) of {} from {} into {}", missing.size(), missing.size() == 1 ? "" : "s",
       human_bytes(static_cast<double>(num_bytes)), id_, hub_->endpoint(), folder().string());
  check_room(folder(), num_bytes);
  // All begin at once, if empty, so that what is left after an interruption tells that files are missing.
  for (const auto& file : missing) {
    if (auto partial = store_->partial(file); !io::is_there(partial)) PartialFile begun(partial);
  }
  Fetching({id_, listing_->commit, *hub_, *store_}, missing, settings_.timeout).run();
}

Repository in_model_base(const std::string& id, const Settings& settings) {
  auto hub = make_hub(settings.source.value_or(Source::modelscope), settings);
  return {id, std::move(hub), plain_folder(settings.model_base / id), settings};
}

std::vector<std::string> ids_in_cache(const Settings& settings) {
  std::vector<std::string> ids;
  for (const auto& [id, folder] : folders_in_cache(settings)) ids.push_back(id);
  return ids;
}

void remove_from_cache(const std::string& id, const Settings& settings) {
  const auto folders = folders_in_cache(settings);
  const auto found = folders.find(id);
  if (found == folders.end()) data_error("hub", "nothing of {} is in the cache of the hub; `burnish models` lists what is", id);
  std::error_code error;
  fs::remove_all(found->second, error);
  if (error) data_error("hub", "{} cannot be deleted: {}", found->second.string(), error.message());
}

Repository in_cache(const std::string& id, const Settings& settings) {
  auto source = settings.source.value_or(Source::huggingface);
  auto hub = make_hub(source, settings);
  auto store = source == Source::huggingface ? huggingface_cache(settings.huggingface_cache, id, hub->revision())
                                             : modelscope_cache(settings.modelscope_cache, id, hub->revision());
  return {id, std::move(hub), std::move(store), settings};
}

}  // namespace burnish::hub
