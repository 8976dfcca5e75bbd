#pragma once
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/hash.h"
#include "tests/hub/scripted_server.h"
#include "tests/scratch.h"

namespace burnish::test {

/// The files of one model, "author/model", as Hugging Face and ModelScope give them, and of one dataset, "datasets/author/set", of the
/// revisions main and v1.
class FakeHub {
 public:
  /// By their paths. Those above 1000 bytes are in LFS, as on Hugging Face.
  std::map<std::string, std::string> files, dataset_files;
  /// Answers in place of the hub's own where it is not empty.
  std::function<std::string(const std::string& request)> instead = [](const std::string&) { return ""; };

  FakeHub() : server_([this](const std::string& request) { return answer(request); }) {}
  std::string address() const { return server_.address(); }
  std::vector<std::string> requests() const { return server_.requests(); }
  bool is_another_waiting(int milliseconds) const { return server_.is_another_waiting(milliseconds); }
  /// Of those, how many asked for content.
  int64_t num_files_asked() const {
    int64_t count = 0;
    for (const auto& request : requests()) count += request.find("/resolve/") != request.npos || request.find("FilePath=") != request.npos;
    return count;
  }

  /// All files of a folder.
  void add_folder(const std::filesystem::path& folder) { add(folder, files); }
  static void add(const std::filesystem::path& folder, std::map<std::string, std::string>& files) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      std::stringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      files[entry.path().lexically_relative(folder).generic_string()] = text.str();
    }
  }

  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  static std::string git_hash(const std::string& content) {
    Scratch folder;
    return io::git_blob_hash(folder.write("content", content));
  }

 private:
  std::string answer(const std::string& request) const {
    if (auto other = instead(request); !other.empty()) return other;
    auto target = request.substr(4, request.find(' ', 4) - 4);
    if (target.starts_with("/api/models/author/model/revision/main")) return http(200, huggingface_list(files).dump());
    for (const std::string revision : {"main", "v1"}) {
      if (target.starts_with("/api/datasets/author/set/revision/" + revision + "?"))
        return http(200, huggingface_list(dataset_files).dump());
    }
    if (target.starts_with("/api/v1/models/author/model/repo/files?")) return http(200, modelscope_list().dump());
    auto resolve = std::string("/author/model/resolve/") + kCommit + "/", file = std::string("/api/v1/models/author/model/repo?");
    if (target.starts_with(resolve)) return content(files, request, target.substr(resolve.size()));
    const auto of_dataset = std::string("/datasets/author/set/resolve/") + kCommit + "/";
    if (target.starts_with(of_dataset)) return content(dataset_files, request, target.substr(of_dataset.size()));
    if (target.starts_with(file)) return content(files, request, decoded(target.substr(target.find("FilePath=") + 9)));
    return http(404, "not found");
  }

  static std::string content(const std::map<std::string, std::string>& files, const std::string& request, const std::string& path) {
    auto it = files.find(path);
    if (it == files.end()) return http(404, "no such file");
    auto from = asked_from(request);
    return from < 0 ? http(200, it->second) : rest(it->second, from);
  }

  static std::string decoded(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') plain += text[i];
      else plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)), i += 2;
    }
    return plain;
  }

  static nlohmann::json huggingface_list(const std::map<std::string, std::string>& files) {
    auto siblings = nlohmann::json::array();
    for (const auto& [path, content] : files) {
      nlohmann::json file{{"rfilename", path}, {"size", content.size()}, {"blobId", git_hash(content)}};
      if (content.size() > 1000) {
        file["blobId"] = git_hash("pointer of " + path);
        file["lfs"] = {{"sha256", io::sha256(content)}, {"size", content.size()}, {"pointerSize", 130}};
      }
      siblings.push_back(file);
    }
    return {{"id", "author/model"}, {"sha", kCommit}, {"siblings", siblings}};
  }

  nlohmann::json modelscope_list() const {
    auto list = nlohmann::json::array({{{"Path", "folder"}, {"Type", "tree"}}});
    for (const auto& [path, content] : files)
      list.push_back({{"Path", path}, {"Type", "blob"}, {"Size", content.size()}, {"Sha256", io::sha256(content)}});
    return {{"Code", 200}, {"Success", true}, {"Data", {{"Files", list}}}};
  }

  ScriptedServer server_;
};

}  // namespace burnish::test
