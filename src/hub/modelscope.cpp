#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "hub/hub.h"

namespace burnish::hub {

namespace {

/// Addresses and fields as in modelscope_hub's _legacy_api.py (list_repo_files, get_download_url, _ensure_session_auth).
class ModelScope : public Hub {
 public:
  explicit ModelScope(const Settings& settings) : endpoint_(settings.modelscope_endpoint), token_(settings.modelscope_token) {}

  Source source() const override { return Source::modelscope; }
  std::string name() const override { return "ModelScope"; }
  std::string endpoint() const override { return endpoint_; }
  const char* endpoint_variable() const override { return "MODELSCOPE_ENDPOINT"; }
  const char* token_variable() const override { return "MODELSCOPE_API_TOKEN"; }
  bool has_token() const override { return !token_.empty(); }
  std::string revision() const override { return "master"; }

  Listing list(const Transport& transport, const std::string& id) const override {
    auto answer = transport.get(asking(id, "/repo/files?Revision=master&Recursive=True"));
    if (!answer.is_good()) refuse(answer, id, "");
    auto json = nlohmann::json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    nlohmann::json::json_pointer files("/Data/Files");
    if (!json.is_object() || !json.contains(files) || !json.at(files).is_array()) {
      data_error("hub", "{} does not answer as ModelScope does to the question for '{}'; check the address in MODELSCOPE_ENDPOINT",
                 endpoint_, id);
    }
    Listing listing{revision(), {}};
    for (const auto& file : json.at(files)) {
      if (!file.is_object() || !file.value("Path", nlohmann::json()).is_string() || file.value("Type", nlohmann::json()) == "tree")
        continue;
      RemoteFile remote{file["Path"].get<std::string>()};
      if (auto size = file.find("Size"); size != file.end() && size->is_number_unsigned()) remote.size = size->get<int64_t>();
      if (auto hash = file.find("Sha256"); hash != file.end() && hash->is_string())
        remote.sha256 = hexadecimal(hash->get<std::string>(), 64);
      if (is_safe_path(remote.path)) listing.files.push_back(std::move(remote));
    }
    return listing;
  }

  Request request(const std::string& id, const std::string& commit, const std::string& path) const override {
    return asking(id, "/repo?Revision=" + url_encoded(commit) + "&FilePath=" + url_encoded(path));
  }

 private:
  /// The site looks for the token in a cookie, newer parts of it in the header.
  Request asking(const std::string& id, const std::string& rest) const {
    return {endpoint_ + "/api/v1/models/" + id + rest, token_, token_.empty() ? "" : "m_session_id=" + token_};
  }

  std::string endpoint_, token_;
};

}  // namespace

std::unique_ptr<Hub> make_modelscope(const Settings& settings) { return std::make_unique<ModelScope>(settings); }

}  // namespace burnish::hub
