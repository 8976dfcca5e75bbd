#include "hub/address_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"
#include "base/text.h"
#include "io/files.h"

namespace burnish::hub {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kUsed = "used";

/// Holds a dataset for as long as the process lives, so that none that needs room deletes it; a descriptor that is closed nowhere.
void hold(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> held;
  const std::lock_guard lock(mutex);
  std::error_code ignored;
  if (held.insert(folder).second) {
    const auto descriptor = open((folder / kUsed).c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, io::kFileMode);
    if (descriptor >= 0) static_cast<void>(flock(descriptor, LOCK_SH | LOCK_NB));
  }
  fs::last_write_time(folder / kUsed, fs::file_time_type::clock::now(), ignored);
}

int64_t bytes_below(const fs::path& folder) {
  int64_t sum = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->is_regular_file(failed)) sum += static_cast<int64_t>(it->file_size(failed));
  }
  return sum;
}

/// Deletes a dataset that no process holds.
bool remove_unless_held(const fs::path& folder) {
  const auto descriptor = open((folder / kUsed).c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_held = descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::error_code failed;
  if (!is_held) fs::remove_all(folder, failed);
  if (descriptor >= 0) close(descriptor);
  return !is_held && !failed;
}

}  // namespace

AddressStore::AddressStore(fs::path folder, bool lists_from_here) : folder_(std::move(folder)), lists_from_here_(lists_from_here) {
  std::error_code ignored;
  fs::create_directories(folder_ / "files", ignored);
  hold(folder_);
}

std::optional<Listing> AddressStore::listing() const {
  if (!lists_from_here_ || !io::is_there(folder_ / "listing.json")) return std::nullopt;
  const auto kept = json::parse(io::read_text(folder_ / "listing.json"), nullptr, /*allow_exceptions=*/false);
  if (!kept.is_array()) return std::nullopt;
  Listing listing;
  for (const auto& one : kept) {
    const auto path = one.is_object() ? one.value("path", json()) : json();
    if (!path.is_string() || !is_safe_path(path) || !one.value("size", json()).is_number_integer()) return std::nullopt;
    listing.files.push_back({.path = path, .size = one["size"], .tag = one.value("tag", "")});
  }
  return listing;
}

void AddressStore::keep(const Listing& listing) {
  auto kept = json::array();
  for (const auto& file : listing.files) kept.push_back({{"path", file.path}, {"size", file.size}, {"tag", file.tag}});
  io::write_text_atomic(folder_ / "listing.json", kept.dump(1));
}

fs::path AddressStore::tag_path(const RemoteFile& file) const { return folder_ / "tags" / io::sha256(file.path).substr(0, 32); }

bool AddressStore::has(const RemoteFile& file) {
  std::error_code failed;
  const auto size = fs::file_size(folder() / file.path, failed);
  if (failed || (file.size >= 0 && size != static_cast<uint64_t>(file.size))) return false;
  return file.tag.empty() || (io::is_there(tag_path(file)) && io::read_text(tag_path(file)) == file.tag);
}

/// The name tells versions apart, so that the rest of another one is not gone on with.
fs::path AddressStore::partial(const RemoteFile& file) const {
  return folder_ / "partial" / (io::sha256(file.path + "\n" + file.tag).substr(0, 32) + ".incomplete");
}

void AddressStore::place(const RemoteFile& file, PartialFile& partial) {
  std::error_code ignored;
  fs::create_directories((folder() / file.path).parent_path(), ignored);
  fs::remove(tag_path(file), ignored);  // a process that ends between the two leaves a file that is fetched again
  partial.commit(folder() / file.path);
  if (!file.tag.empty()) io::write_text_atomic(tag_path(file), file.tag);
}

void AddressStore::keep_only(const Listing& listing, const std::vector<std::string>& further) const {
  std::set<std::string> kept(further.begin(), further.end());
  for (const auto& file : listing.files) kept.insert(file.path);
  std::vector<fs::path> gone;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder(), failed), end; !failed && it != end; it.increment(failed)) {
    const auto path = it->path().lexically_relative(folder()).generic_string();
    if (it->is_regular_file(failed) && !kept.contains(path)) gone.push_back(it->path());
  }
  for (const auto& path : gone) fs::remove(path, failed);
}

int64_t make_room(const fs::path& folder, int64_t num_bytes, const fs::path& own) {
  struct Dataset {
    fs::path folder;
    fs::file_time_type used;
    int64_t num_bytes = 0;
  };
  std::vector<Dataset> datasets;
  int64_t sum = 0;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (!it->is_directory(failed)) continue;
    std::error_code unknown;
    datasets.push_back({it->path(), fs::last_write_time(it->path() / kUsed, unknown), bytes_below(it->path())});
    sum += datasets.back().num_bytes;
  }
  std::ranges::sort(datasets, {}, &Dataset::used);
  for (const auto& dataset : datasets) {
    if (sum <= num_bytes) break;
    if (dataset.folder == own || !remove_unless_held(dataset.folder)) continue;
    sum -= dataset.num_bytes;
    info("{} was deleted, {}, to make room for other datasets (BURNISH_DATASETS_SIZE)", dataset.folder.string(),
         human_bytes(static_cast<double>(dataset.num_bytes)));
  }
  return sum;
}

}  // namespace burnish::hub
