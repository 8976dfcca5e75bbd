#include "hub/repository.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "io/files.h"
#include "tests/hub/fake_hub.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

namespace {

class RepositoryTest : public testing::Test {
 protected:
  void SetUp() override {
    hub_.files = {{"config.json", "{}"}, {"vae/model.safetensors", std::string(5000, 'v')}, {"vae/config.json", "{\"a\": 1}"}};
    settings_.huggingface_endpoint = settings_.modelscope_endpoint = hub_.address();
    settings_.huggingface_cache = folder_ / "hf";
    settings_.modelscope_cache = folder_ / "ms";
    settings_.model_base = folder_ / "models";
  }

  /// The sentence of the Error that fetching ends with.
  std::string refusal(hub::Repository repository, const std::vector<std::string>& paths) {
    try {
      repository.fetch(paths);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data);
      return error.what();
    }
    return "";
  }

  Scratch folder_;
  FakeHub hub_;
  hub::Settings settings_;
};

}  // namespace

TEST_F(RepositoryTest, WritesTheCacheOfHuggingFace) {
  auto repository = hub::in_cache("author/model", settings_);
  EXPECT_THAT(repository.paths(), ElementsAre("config.json", "vae/config.json", "vae/model.safetensors"));
  repository.fetch({"config.json", "vae/model.safetensors"});

  auto model = folder_ / "hf/models--author--model";
  EXPECT_EQ(io::read_text(model / "refs/main"), FakeHub::kCommit);
  auto snapshot = model / "snapshots" / FakeHub::kCommit;
  EXPECT_EQ(repository.folder(), snapshot);
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"), "../../blobs/" + FakeHub::git_hash("{}"));
  EXPECT_EQ(fs::read_symlink(snapshot / "vae/model.safetensors"), "../../../blobs/" + io::sha256(std::string(5000, 'v')));
  EXPECT_EQ(io::read_text(snapshot / "vae/model.safetensors"), std::string(5000, 'v'));
  EXPECT_FALSE(io::is_there(snapshot / "vae/config.json"));
  EXPECT_TRUE(io::glob(model / "blobs", "*incomplete").empty());
  auto tree = nlohmann::json::parse(io::read_text(model / "trees" / (std::string(FakeHub::kCommit) + ".json")));
  EXPECT_EQ(tree["format_version"], 1);
  EXPECT_EQ(tree["files"]["vae/model.safetensors"]["lfs_size"], 5000);
}

TEST_F(RepositoryTest, NothingIsAskedWhenTheFilesAreThere) {
  hub::in_cache("author/model", settings_).fetch({"config.json"});
  auto before = hub_.requests().size();
  auto again = hub::in_cache("author/model", settings_);
  again.fetch({"config.json"});
  EXPECT_THAT(again.paths(), ElementsAre("config.json", "vae/config.json", "vae/model.safetensors"));
  EXPECT_EQ(hub_.requests().size(), before);
}

TEST_F(RepositoryTest, CountsWhatIsNotHere) {
  auto repository = hub::in_cache("author/model", settings_);
  const std::vector<std::string> both{"config.json", "vae/model.safetensors"};
  EXPECT_EQ(repository.amount(both).num_bytes, 5002);
  EXPECT_EQ(repository.amount(both).num_missing, 5002);
  repository.fetch({"vae/model.safetensors"});
  EXPECT_EQ(repository.amount(both).num_missing, 2);
}

TEST_F(RepositoryTest, TwoFilesOfOneContentAreFetchedOnce) {
  hub_.files["vae/model.fp16.safetensors"] = hub_.files["vae/model.safetensors"];
  auto repository = hub::in_cache("author/model", settings_);
  repository.fetch({"vae/model.safetensors", "vae/model.fp16.safetensors"});
  EXPECT_EQ(hub_.num_files_asked(), 1);
  EXPECT_EQ(io::read_text(repository.folder() / "vae/model.fp16.safetensors"), std::string(5000, 'v'));
}

TEST_F(RepositoryTest, FilesAreFetchedSideBySide) {
  int num_files = 0;
  bool are_together = false;
  hub_.instead = [&](const std::string& request) {
    bool is_first_file = request.find("/resolve/") != request.npos && num_files++ == 0;
    if (is_first_file) are_together = hub_.is_another_waiting(10000);  // which nobody begins that waits for the first
    return std::string();
  };
  hub::in_cache("author/model", settings_).fetch({"vae/config.json", "vae/model.safetensors"});
  EXPECT_EQ(num_files, 2);
  EXPECT_TRUE(are_together);
}

TEST_F(RepositoryTest, GoesOnWithWhatAnEarlierProcessLeft) {
  auto blob = folder_ / ("hf/models--author--model/blobs/" + io::sha256(std::string(5000, 'v')) + ".burnish.incomplete");
  io::write_text_atomic(blob, std::string(2000, 'v'));
  hub::in_cache("author/model", settings_).fetch({"vae/model.safetensors"});
  EXPECT_THAT(hub_.requests().back(), HasSubstr("Range: bytes=2000-"));

  SetUp();
  settings_.model_base = folder_ / "damaged";  // what is there is no beginning of the file: it is fetched whole
  io::write_text_atomic(
      folder_ / ("damaged/author/model/vae/model.safetensors." + io::sha256(std::string(5000, 'v')).substr(0, 16) + ".incomplete"),
      std::string(2000, 'x'));
  hub::in_model_base("author/model", settings_).fetch({"vae/model.safetensors"});
  EXPECT_EQ(io::read_text(folder_ / "damaged/author/model/vae/model.safetensors"), std::string(5000, 'v'));
}

TEST_F(RepositoryTest, AnotherContentThanListedIsRefused) {
  hub_.instead = [](const std::string& request) {
    return request.find("/resolve/") == request.npos ? "" : http(200, std::string(5000, 'x'));
  };
  EXPECT_THAT(refusal(hub::in_cache("author/model", settings_), {"vae/model.safetensors"}), HasSubstr("another content"));
  hub_.instead = [](const std::string& request) { return request.find("/resolve/") == request.npos ? "" : http(200, "[]"); };
  EXPECT_THAT(refusal(hub::in_cache("author/model", settings_), {"config.json"}), HasSubstr("another content"));
  EXPECT_FALSE(io::is_there(hub::in_cache("author/model", settings_).folder() / "config.json"));
}

TEST_F(RepositoryTest, ModelScopeGivesAPlainFolder) {
  settings_.modelscope_token = "secret";
  auto repository = hub::in_model_base("author/model", settings_);
  repository.fetch({"vae/model.safetensors"});
  EXPECT_EQ(io::read_text(folder_ / "models/author/model/vae/model.safetensors"), std::string(5000, 'v'));
  EXPECT_THAT(hub_.requests().back(), HasSubstr("GET /api/v1/models/author/model/repo?Revision=master&FilePath=vae%2Fmodel.safetensors "));
  EXPECT_THAT(hub_.requests().back(), HasSubstr("m_session_id=secret"));

  settings_.source = hub::Source::modelscope;
  EXPECT_EQ(hub::in_cache("author/model.1", settings_).folder(), folder_ / "ms/models/author--model.1/snapshots/master");
  io::write_text_atomic(folder_ / "ms/hub/models/author/model___1/config.json", "{}");  // older releases
  EXPECT_EQ(hub::in_cache("author/model.1", settings_).folder(), folder_ / "ms/hub/models/author/model___1");
}

TEST_F(RepositoryTest, AFileOfAnotherSizeIsFetchedAgain) {
  io::write_text_atomic(folder_ / "models/author/model/vae/model.safetensors", std::string(4999, 'v'));
  hub::in_model_base("author/model", settings_).fetch({"vae/model.safetensors"});
  EXPECT_EQ(fs::file_size(folder_ / "models/author/model/vae/model.safetensors"), 5000u);
}

TEST_F(RepositoryTest, EachRefusalSaysWhatToTry) {
  auto answers = [&](int status, const std::string& headers = "") {
    hub_.instead = [=](const std::string&) { return http(status, "", headers); };
    return refusal(hub::in_cache("author/model", settings_), {"config.json"});
  };
  EXPECT_THAT(answers(401), HasSubstr("set HF_TOKEN"));
  EXPECT_THAT(answers(403, "X-Error-Code: GatedRepo\r\n"), HasSubstr("gated; open " + hub_.address() + "/author/model"));
  EXPECT_THAT(answers(404), HasSubstr("DIFFSYNTH_DOWNLOAD_SOURCE=modelscope"));
  EXPECT_THAT(answers(429, "Retry-After: 3600\r\n"), HasSubstr("try again in some minutes, or with a token in HF_TOKEN"));
  EXPECT_THAT(answers(400), HasSubstr("check the address in HF_ENDPOINT"));
  hub_.instead = [](const std::string&) { return http(200, "<html>"); };
  EXPECT_THAT(refusal(hub::in_cache("author/model", settings_), {"config.json"}), HasSubstr("check the address in HF_ENDPOINT"));
  settings_.huggingface_token = "secret";
  EXPECT_THAT(answers(401), Not(HasSubstr("secret")));
  settings_.offline = "HF_HUB_OFFLINE";
  EXPECT_THAT(refusal(hub::in_cache("author/model", settings_), {"config.json"}), HasSubstr("HF_HUB_OFFLINE keeps burnish from asking"));
}

TEST_F(RepositoryTest, AMissingFileOfAModelThatIsThere) {
  EXPECT_THAT(refusal(hub::in_cache("author/model", settings_), {"nosuch.json"}), HasSubstr("no file 'nosuch.json' of 'author/model'"));
}

TEST(Hub, NamesAndPaths) {
  EXPECT_TRUE(hub::is_model_id("black-forest-labs/FLUX.1-dev"));
  for (const char* other : {"model", "a/b/c", "../model", "./model", "/model", "a/", "a b/c", "~/model"})
    EXPECT_FALSE(hub::is_model_id(other)) << other;
  EXPECT_TRUE(hub::is_safe_path("vae/.hidden/a b.json"));
  for (const char* other : {"", "/etc/passwd", "../x", "a/../x", "a//b", "a/."}) EXPECT_FALSE(hub::is_safe_path(other)) << other;
  EXPECT_EQ(hub::url_encoded("a b/ü+.json", "/"), "a%20b/%C3%BC%2B.json");
}

TEST(Hub, ListsModelsOfACache) {
  Scratch folder;
  for (const char* name :
       {"hf/models--b--two--x", "hf/models--a--one", "hf/datasets--a--pictures", "hf/models--alone", "ms/models/c--three"})
    fs::create_directories(folder / name);
  hub::Settings settings;
  settings.huggingface_cache = folder / "hf";
  settings.modelscope_cache = folder / "ms";
  EXPECT_THAT(hub::ids_in_cache(settings), ElementsAre("a/one", "b/two--x"));
  settings.source = hub::Source::modelscope;
  EXPECT_THAT(hub::ids_in_cache(settings), ElementsAre("c/three"));
  settings.modelscope_cache = folder / "nowhere";
  EXPECT_THAT(hub::ids_in_cache(settings), ElementsAre());
}
