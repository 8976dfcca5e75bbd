#include "hub/publish.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "hub/hub.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::hub {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kLfs = "application/vnd.git-lfs+json";
constexpr double kBytesInMiB = 1024.0 * 1024;
constexpr size_t kSample = 512;  // bytes by which the hub decides how a file is kept
constexpr int64_t kConflict = 409;

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // the function ends what it writes with a zero
  const auto length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                                      static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

/// A file that is sent.
struct Sent {
  std::string path;  ///< on the hub
  fs::path file;
  int64_t size = 0;
  std::string sha256 = {};  ///< of one that the hub keeps beside git (LFS); "" of one that goes with the commit
};

std::vector<Sent> files_in(const fs::path& folder) {
  std::vector<Sent> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto path = entry.path().lexically_relative(folder).generic_string();
    const bool is_hidden = path.starts_with('.') || path.find("/.") != path.npos;
    if (entry.is_regular_file() && !is_hidden) files.push_back({path, entry.path(), static_cast<int64_t>(entry.file_size())});
  }
  std::ranges::sort(files, {}, &Sent::path);
  return files;
}

std::string sha256_of(const fs::path& file) {
  io::Sha256 hash;
  std::ifstream bytes(file, std::ios::binary);
  std::vector<char> part(size_t{1} << 20);
  while (bytes.read(part.data(), static_cast<std::streamsize>(part.size())) || bytes.gcount() > 0)
    hash.update({part.data(), static_cast<size_t>(bytes.gcount())});
  return hash.hex();
}

/// Sends a folder in the steps of huggingface_hub's hf_api.py (create_repo), _commit_api.py and lfs.py.
class Publishing {
 public:
  Publishing(const Publication& publication, const Settings& settings)
      : publication_(publication), settings_(settings), transport_({.stall_seconds = std::max(settings.timeout, 120.0)}, interrupted) {}

  std::string run(const fs::path& folder) {
    auto files = files_in(folder);
    make_model();
    choose_ways(files);
    send_large(files);
    commit(files);
    return settings_.huggingface_endpoint + "/" + publication_.id;
  }

 private:
  json ask(const std::string& path, const std::string& body, const std::string& media_type = "application/json") const {
    const auto answer = transport_.send(
        {.url = settings_.huggingface_endpoint + path,
         .token = settings_.huggingface_token,
         .json = body,
         .media_type = media_type,
         .headers = media_type == kLfs ? std::map<std::string, std::string>{{"Accept", kLfs}} : std::map<std::string, std::string>{}});
    if (!answer.is_good()) refuse(answer);
    return json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  }

  [[noreturn]] void refuse(const Answer& answer) const {
    check_interrupt();
    const auto said = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    auto why = answer.problem.empty() ? fmt::format("status {}", answer.status) : answer.problem;
    if (said.is_object() && said.contains("error") && said["error"].is_string()) why = said["error"].get<std::string>();
    while (why.ends_with('.')) why.pop_back();
    data_error("hub", "{} does not take '{}': {}; the token has to be one that may write there, and the part before the slash your name",
               settings_.huggingface_endpoint, publication_.id, one_line(why));
  }

  [[noreturn]] void refuse_answer(const char* question) const {
    data_error("hub", "{} does not answer as Hugging Face does to the {} of '{}'; check the address in HF_ENDPOINT",
               settings_.huggingface_endpoint, question, publication_.id);
  }

  /// One that is there already is as good.
  void make_model() const {
    const auto slash = publication_.id.find('/');
    const json body{{"name", publication_.id.substr(slash + 1)},
                    {"organization", publication_.id.substr(0, slash)},
                    {"type", "model"},
                    {"private", publication_.is_private}};
    const auto answer = transport_.send(
        {.url = settings_.huggingface_endpoint + "/api/repos/create", .token = settings_.huggingface_token, .json = body.dump()});
    if (!answer.is_good() && answer.status != kConflict) refuse(answer);
  }

  /// Asks which files go with the commit, and which beside it.
  void choose_ways(std::vector<Sent>& files) const {
    json body{{"files", json::array()}};
    for (const auto& file : files) {
      std::string sample(kSample, '\0');
      std::ifstream bytes(file.file, std::ios::binary);
      bytes.read(sample.data(), static_cast<std::streamsize>(sample.size()));
      sample.resize(static_cast<size_t>(bytes.gcount()));
      body["files"].push_back({{"path", file.path}, {"sample", base64(sample)}, {"size", file.size}});
    }
    const auto ways = ask(fmt::format("/api/models/{}/preupload/main", publication_.id), body.dump());
    if (!ways.is_object() || !ways.contains("files") || !ways["files"].is_array()) refuse_answer("files");
    std::map<std::string, std::string> way_of;
    for (const auto& one : ways["files"]) way_of[one.value("path", "")] = one.value("uploadMode", "");
    for (auto& file : files) {
      if (way_of[file.path] == "lfs" && file.size > 0) file.sha256 = sha256_of(file.file);
    }
  }

  /// Sends what goes beside the commit, and is not there yet.
  void send_large(const std::vector<Sent>& files) const {
    std::map<std::string, const Sent*> large;  // files of one content are one
    int64_t total = 0;
    for (const auto& file : files) {
      if (!file.sha256.empty() && large.emplace(file.sha256, &file).second) total += file.size;
    }
    if (large.empty()) return;
    json body{{"operation", "upload"}, {"transfers", {"basic"}}, {"hash_algo", "sha256"}, {"objects", json::array()}};
    for (const auto& [hash, file] : large) body["objects"].push_back({{"oid", hash}, {"size", file->size}});
    const auto batch = ask(fmt::format("/{}.git/info/lfs/objects/batch", publication_.id), body.dump(), kLfs);
    if (!batch.is_object() || !batch.contains("objects") || !batch["objects"].is_array()) refuse_answer("large files");
    int64_t num_gone = 0;
    const auto count = [](int64_t bytes) { return static_cast<int64_t>(static_cast<double>(bytes) / kBytesInMiB); };
    Progress progress("upload (MiB)", std::max<int64_t>(count(total), 1));
    for (const auto& object : batch["objects"]) {
      const auto found = large.find(object.value("oid", ""));
      if (found == large.end()) refuse_answer("large files");
      send_one(object, *found->second, [&](int64_t more) { progress.update(count(num_gone += more)); });
    }
  }

  void send_one(const json& object, const Sent& file, const std::function<void(int64_t)>& gone) const {
    if (const auto error = object.value("error", json::object()); !error.empty())
      refuse({.status = error.value("code", int64_t{0}), .problem = error.value("message", "it says nothing of why")});
    const auto actions = object.value("actions", json::object());
    if (!actions.contains("upload")) return gone(file.size);  // it is there already
    const auto to = actions["upload"].value("href", "");
    if (to.empty() || actions["upload"].value("header", json::object()).contains("chunk_size")) refuse_answer("large files");
    const auto answer = transport_.upload({.url = to, .media_type = "application/octet-stream"}, file.file, gone);
    if (!answer.is_good()) refuse(answer);
    const auto verify = actions.value("verify", json::object()).value("href", "");
    if (verify.empty()) return;
    const auto verified = transport_.send({.url = verify,
                                           .token = settings_.huggingface_token,
                                           .json = json{{"oid", file.sha256}, {"size", file.size}}.dump(),
                                           .media_type = kLfs});
    if (!verified.is_good()) refuse(verified);
  }

  void commit(const std::vector<Sent>& files) const {
    auto lines = json{{"key", "header"}, {"value", {{"summary", publication_.message}, {"description", ""}}}}.dump() + "\n";
    for (const auto& file : files) {
      const json value = file.sha256.empty()
                             ? json{{"path", file.path}, {"encoding", "base64"}, {"content", base64(io::read_text(file.file))}}
                             : json{{"path", file.path}, {"algo", "sha256"}, {"oid", file.sha256}, {"size", file.size}};
      lines += json{{"key", file.sha256.empty() ? "file" : "lfsFile"}, {"value", value}}.dump() + "\n";
    }
    ask(fmt::format("/api/models/{}/commit/main", publication_.id), lines, "application/x-ndjson");
  }

  const Publication& publication_;
  const Settings& settings_;
  Transport transport_;
};

}  // namespace

void check_publication(const Publication& publication, const Settings& settings) {
  if (!is_model_id(publication.id))
    config_error("hub", "'{}' is no id of a model on Hugging Face: name it by your name there, a slash, and a name for the model",
                 publication.id);
  if (!settings.offline.empty()) config_error("hub", "{} keeps burnish from asking Hugging Face; unset it to publish", settings.offline);
  if (settings.huggingface_token.empty())
    config_error("hub", "to publish needs a token of Hugging Face that may write; set HF_TOKEN to it, or run `hf auth login` once");
}

std::string publish(const fs::path& folder, const Publication& publication, const Settings& settings) {
  check_publication(publication, settings);
  return Publishing(publication, settings).run(folder);
}

}  // namespace burnish::hub
