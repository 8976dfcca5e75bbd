#include "hub/addressed.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "base/home.h"
#include "base/http_address.h"
#include "base/input_error.h"
#include "base/number.h"
#include "base/sizes.h"
#include "base/text.h"
#include "hub/address_store.h"
#include "hub/aws.h"
#include "hub/repository.h"
#include "hub/s3_listing.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::hub {

namespace fs = std::filesystem;

namespace {

const std::string kS3 = "s3://";
constexpr int64_t kMostCounted = 100'000;

bool is_archive(const std::string& path) { return path.ends_with(".tar") || path.ends_with(".parquet"); }

/// An address without what stands behind ? or #.
std::string without_query(const std::string& address) { return address.substr(0, address.find_first_of("?#")); }

[[noreturn]] void refuse_address(const std::string& text) {
  config_error("hub",
               "'{}' is no address of a dataset; write s3://BUCKET/PREFIX, the address of a list (…/list.txt) or of an archive (.tar, "
               ".parquet), or of archives of counted names: …/{{000..099}}.tar",
               text);
}

/// Bucket and key of an address of S3.
std::pair<std::string, std::string> bucket_and_key(const std::string& address) {
  const auto rest = address.substr(kS3.size());
  const auto slash = std::min(rest.find('/'), rest.size());
  auto key = slash < rest.size() ? rest.substr(slash + 1) : "";
  while (key.ends_with('/')) key.pop_back();
  return {rest.substr(0, slash), key};
}

/// Names the file of an address: by its host and path, and what stands behind a question mark told by its hash, before the ending.
std::string path_of(const std::string& address) {
  const auto plain = without_query(address);
  auto path = plain.substr(plain.find("://") + 3);
  std::replace(path.begin(), path.end(), ':', '_');
  if (plain.size() < address.size()) {
    const auto name = path.rfind('/') + 1, dot = path.rfind('.');
    path.insert(dot != path.npos && dot > name ? dot : path.size(), "-" + io::sha256(address).substr(0, 8));
  }
  return path;
}

/// A line of a list: an address, and a caption behind it.
struct ListedAddress {
  std::string address, caption;
};

/// Reads a list; what names no host lies beside it.
std::vector<ListedAddress> read_list(const std::string& text, const std::string& at) {
  const auto base = without_query(at).substr(0, without_query(at).rfind('/') + 1);
  std::vector<ListedAddress> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto whole = std::string(trim(line));
    if (whole.empty() || whole.front() == '#') continue;
    const auto end = std::min(whole.find_first_of(" \t"), whole.size());
    for (const auto& name : counted_names(whole.substr(0, end))) {
      const auto address = is_http(name) || name.starts_with(kS3) ? name : base + name;
      if (!is_safe_path(path_of(address)))
        data_error("hub", "the list {} names '{}', and an address of a file was expected", without_query(at), name);
      all.push_back({address, std::string(trim(whole.substr(end)))});
    }
  }
  if (all.empty()) data_error("hub", "the list {} names no files; a line of it is an address, and behind it a caption", without_query(at));
  return all;
}

/// The place that an address names, as a hub.
class Place final : public Hub {
 public:
  explicit Place(const AddressedDataset& dataset) : dataset_(dataset), aws_(aws_settings_from_environment()) {}

  Source source() const override { return Source::huggingface; }
  std::string name() const override { return is_http(dataset_.text) ? "the server" : "S3"; }
  std::string endpoint() const override {
    if (!is_http(dataset_.text)) return aws_.endpoint.empty() ? "AWS" : aws_.endpoint;
    return dataset_.text.substr(0, dataset_.text.find('/', dataset_.text.find("://") + 3));
  }
  const char* endpoint_variable() const override { return "AWS_ENDPOINT_URL"; }
  const char* token_variable() const override { return "AWS_ACCESS_KEY_ID"; }
  bool has_token() const override { return !aws_.key.empty(); }
  std::string revision() const override { return ""; }

  Listing list(const Transport& transport, const std::string& id) const override {
    Listing listing;
    if (dataset_.is_prefix) add_objects(transport, id, listing);
    else if (dataset_.is_list) add_listed(transport, id, listing);
    else
      for (const auto& address : dataset_.files) add(address, listing);
    return listing;
  }
  Request request(const std::string& /*id*/, const std::string& /*commit*/, const std::string& path) const override {
    return {.url = reachable(addresses_.at(path))};
  }
  [[noreturn]] void refuse(const Answer& answer, const std::string& id, const std::string& path) const override {
    check_interrupt();
    const auto what = path.empty() ? id : fmt::format("'{}' of {}", path, id);
    const auto said = s3_problem(answer.body);
    const auto reason = !answer.problem.empty() ? answer.problem : !said.empty() ? said : fmt::format("it answers {}", answer.status);
    const bool is_denied = answer.status == 401 || answer.status == 403;
    data_error("hub", "{} cannot be fetched ({}): {}; what was fetched is kept, and the same command goes on from there", what, reason,
               is_http(id) ? "check the address and the network"
               : is_denied ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may list and read it, and AWS_REGION"
                           : "check the bucket, AWS_REGION and AWS_ENDPOINT_URL");
  }

  /// The captions of the list, by the paths of their files.
  const std::map<std::string, std::string>& captions() const { return captions_; }

 private:
  std::string reachable(const std::string& address) const {
    if (is_http(address)) return address;
    const auto [bucket, key] = bucket_and_key(address);
    return signed_address(aws_, s3_url(aws_, bucket, key));
  }
  void add(const std::string& address, Listing& listing) const {
    const auto path = path_of(address);
    if (addresses_.emplace(path, address).second) listing.files.push_back({.path = path});
  }
  void add_listed(const Transport& transport, const std::string& id, Listing& listing) const {
    const auto answer = transport.get({.url = dataset_.text});
    if (!answer.is_good()) refuse(answer, id, "");
    for (const auto& [address, caption] : read_list(answer.body, dataset_.text)) {
      add(address, listing);
      if (!caption.empty()) captions_[path_of(address)] = caption;
    }
  }
  /// Objects may begin as the prefix does and lie elsewhere: photos2/a.png beside photos/a.png.
  void add_objects(const Transport& transport, const std::string& id, Listing& listing) const {
    const auto [bucket, prefix] = bucket_and_key(dataset_.text);
    auto url = s3_url(aws_, bucket, "");
    url.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix}};
    for (std::string next = "-"; !next.empty();) {
      const auto answer = transport.get({.url = signed_address(aws_, url)});
      if (!answer.is_good()) refuse(answer, id, "");
      const auto page = read_s3_page(answer.body);
      for (const auto& object : page.objects) {
        const bool is_folder = object.key.ends_with('/') || !is_safe_path(object.key);
        const bool is_below = prefix.empty() || object.key == prefix || object.key.starts_with(prefix + "/");
        if (is_folder || !is_below) continue;
        const auto path =
            object.key == prefix ? prefix.substr(prefix.rfind('/') + 1) : object.key.substr(prefix.empty() ? 0 : prefix.size() + 1);
        if (addresses_.emplace(path, kS3 + bucket + "/" + object.key).second)
          listing.files.push_back({.path = path, .size = object.size, .tag = object.tag});
      }
      url.query["continuation-token"] = next = page.next;
    }
    if (listing.files.empty()) data_error("hub", "{} holds no objects; check the bucket and what stands behind it", id);
  }

  const AddressedDataset& dataset_;
  AwsSettings aws_;
  mutable std::map<std::string, std::string> addresses_, captions_;  ///< of the files of the listing, by their paths
};

/// Writes captions beside the files that they are of; returns the paths of these.
std::vector<std::string> write_captions(const std::map<std::string, std::string>& captions, const fs::path& folder) {
  std::vector<std::string> paths;
  for (const auto& [path, caption] : captions) {
    paths.push_back(fs::path(path).replace_extension(".txt").generic_string());
    const auto file = folder / paths.back();
    if (!io::is_there(file) || io::read_text(file) != caption) io::write_text_atomic(file, caption);
  }
  return paths;
}

void check_room_for(const DatasetRoom& room, int64_t num_bytes, const fs::path& own, const std::string& text) {
  if (room.most_bytes < 0) return;
  if (num_bytes > room.most_bytes)
    data_error("hub", "{} takes {}, and BURNISH_DATASETS_SIZE leaves {} to all datasets; set it larger, or name a part of the dataset",
               without_query(text), human_bytes(static_cast<double>(num_bytes)), human_bytes(static_cast<double>(room.most_bytes)));
  make_room(room.folder, room.most_bytes, own);
}

}  // namespace

std::vector<std::string> counted_names(const std::string& text) {
  const auto begin = text.find('{'), dots = text.find("..", begin), end = text.find('}');
  if (begin == text.npos && end == text.npos) return {text};
  const bool is_once = begin == text.rfind('{') && end == text.rfind('}');
  if (!is_once || begin == text.npos || dots == text.npos || end == text.npos || dots > end) refuse_address(text);
  const auto from = text.substr(begin + 1, dots - begin - 1), to = text.substr(dots + 2, end - dots - 2);
  const auto first = parse_number<int64_t>(from), last = parse_number<int64_t>(to);
  if (!first || !last || *first < 0 || *last < *first || *last - *first >= kMostCounted)
    config_error("hub", "'{}' counts from '{}' to '{}'; two whole numbers, the smaller one first, were expected", text, from, to);
  std::vector<std::string> names;
  for (auto i = *first; i <= *last; ++i)
    names.push_back(text.substr(0, begin) + fmt::format("{:0{}}", i, from.size()) + text.substr(end + 1));
  return names;
}

std::optional<AddressedDataset> addressed_dataset(const std::string& text) {
  const bool is_s3 = text.starts_with(kS3);
  if (!is_s3 && !is_http(text)) return std::nullopt;
  AddressedDataset dataset{.text = text};
  const auto plain = is_s3 ? text : without_query(text);
  const auto named = counted_names(text);
  const bool has_path = plain.find('/', plain.find("://") + 3) != plain.npos;
  if (is_s3 && bucket_and_key(text).first.empty()) refuse_address(text);
  if (is_archive(plain) && has_path && (!is_s3 || named.size() > 1)) dataset.files = named;
  else if (is_s3) dataset.is_prefix = true;
  else if (plain.ends_with(".txt") && has_path) dataset.is_list = true;
  else refuse_address(text);
  return dataset;
}

DatasetRoom dataset_room_from_environment() {
  auto variable = [](const char* name) { return std::getenv(name) != nullptr ? std::string(std::getenv(name)) : std::string(); };
  const auto caches = variable("XDG_CACHE_HOME"), folder = variable("BURNISH_DATASETS"), size = variable("BURNISH_DATASETS_SIZE");
  DatasetRoom room{.folder = with_home(!folder.empty() ? folder : (caches.empty() ? "~/.cache" : caches) + "/burnish/datasets")};
  if (!size.empty()) room.most_bytes = parse_size("hub", "BURNISH_DATASETS_SIZE", size);
  return room;
}

fs::path fetch_addressed(const AddressedDataset& dataset, const Settings& settings, const DatasetRoom& room) {
  const auto own = room.folder / io::sha256(dataset.text).substr(0, 32);
  auto place = std::make_unique<Place>(dataset);
  const auto& captions = place->captions();
  auto store = std::make_unique<AddressStore>(own, !settings.offline.empty());
  const auto* files = store.get();
  Repository repository(without_query(dataset.text), std::move(place), std::move(store), settings);
  const auto paths = repository.paths();
  check_room_for(room, repository.amount(paths).num_bytes, own, dataset.text);
  repository.fetch(paths);
  if (settings.offline.empty()) {
    Listing listing;
    for (const auto& path : paths) listing.files.push_back({.path = path});
    files->keep_only(listing, write_captions(captions, files->folder()));
  }
  check_room_for(room, 0, own, dataset.text);
  const bool is_file = paths.size() == 1 && is_archive(paths.front());
  return is_file ? repository.folder() / paths.front() : repository.folder();
}

}  // namespace burnish::hub
