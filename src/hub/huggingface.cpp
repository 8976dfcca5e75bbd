#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "hub/hub.h"

namespace burnish::hub {

namespace {

using nlohmann::json;

std::string text_at(const json& object, const char* key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

int64_t size_at(const json& object, const char* key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_number_unsigned() ? it->get<int64_t>() : -1;
}

/// Addresses and fields as in huggingface_hub's hf_api.py (model_info, dataset_info) and file_download.py (hf_hub_url).
class HuggingFace : public Hub {
 public:
  HuggingFace(const Settings& settings, std::string revision)
      : endpoint_(settings.huggingface_endpoint), token_(settings.huggingface_token), revision_(std::move(revision)) {}

  Source source() const override { return Source::huggingface; }
  std::string name() const override { return "Hugging Face"; }
  std::string endpoint() const override { return endpoint_; }
  const char* endpoint_variable() const override { return "HF_ENDPOINT"; }
  const char* token_variable() const override { return "HF_TOKEN"; }
  bool has_token() const override { return !token_.empty(); }
  std::string revision() const override { return revision_; }

  Listing list(const Transport& transport, const std::string& id) const override {
    const auto kind = is_dataset_id(id) ? "" : "models/";
    auto answer = transport.get({endpoint_ + "/api/" + kind + id + "/revision/" + url_encoded(revision_) + "?blobs=true", token_});
    if (!answer.is_good()) refuse(answer, id, "");
    auto model = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
    Listing listing{hexadecimal(text_at(model, "sha"), 40), {}};
    if (listing.commit.empty() || !model["siblings"].is_array()) {
      data_error("hub", "{} does not answer as Hugging Face does to the question for '{}'; check the address in HF_ENDPOINT", endpoint_,
                 id);
    }
    for (const auto& file : model["siblings"]) {
      RemoteFile remote{text_at(file, "rfilename"), size_at(file, "size"), "", hexadecimal(text_at(file, "blobId"), 40)};
      if (auto lfs = file.find("lfs"); lfs != file.end()) remote.sha256 = hexadecimal(text_at(*lfs, "sha256"), 64);
      if (is_safe_path(remote.path)) listing.files.push_back(std::move(remote));
    }
    return listing;
  }

  Request request(const std::string& id, const std::string& commit, const std::string& path) const override {
    return {endpoint_ + "/" + id + "/resolve/" + commit + "/" + url_encoded(path, "/"), token_};
  }

 private:
  std::string endpoint_, token_, revision_;
};

}  // namespace

std::unique_ptr<Hub> make_huggingface(const Settings& settings, std::string revision) {
  return std::make_unique<HuggingFace>(settings, std::move(revision));
}

}  // namespace burnish::hub
