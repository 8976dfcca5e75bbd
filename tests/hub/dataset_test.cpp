#include "hub/dataset.h"

#include <gmock/gmock.h>

#include "tests/hub/fake_hub.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::HasSubstr;

namespace {

class Dataset : public testing::Test {
 protected:
  void SetUp() override {
    settings_.huggingface_endpoint = hub_.address();
    settings_.huggingface_cache = folder_ / "hf";
  }
  std::filesystem::path fetched(const std::string& address) { return hub::fetch_dataset(*hub::dataset_address(address), settings_); }
  std::filesystem::path snapshot() const { return folder_ / "hf/datasets--author--set/snapshots" / FakeHub::kCommit; }

  Scratch folder_;
  FakeHub hub_;
  hub::Settings settings_;
};

}  // namespace

TEST(DatasetAddress, IsTheHubsOwn) {
  EXPECT_FALSE(hub::dataset_address("datasets/author/set"));
  EXPECT_FALSE(hub::dataset_address(""));
  const auto plain = hub::dataset_address("hf://datasets/author/set");
  EXPECT_EQ(plain->id, "datasets/author/set");
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->path, "");
  const auto part = hub::dataset_address("hf://datasets/author/set@v1/photos/cats/");
  EXPECT_EQ(part->id, "datasets/author/set");
  EXPECT_EQ(part->revision, "v1");
  EXPECT_EQ(part->path, "photos/cats");
  for (const char* wrong : {"hf://author/set", "hf://datasets/set", "hf://datasets/author/", "hf://datasets/author/set@",
                            "hf://datasets/a/../b", "hf://datasets/author/set/../x"})
    EXPECT_THAT(error_of([&] { hub::dataset_address(wrong); }, Exit::config), HasSubstr("names no dataset of a hub")) << wrong;
}

TEST_F(Dataset, IsFetchedOnceAndLiesWhereTheHubsProgramsLookForIt) {
  hub_.dataset_files = {{"README.md", "words"}, {"a.png", std::string(2000, 'a')}, {"a.txt", "a caption"}};
  EXPECT_EQ(fetched("hf://datasets/author/set"), snapshot());
  for (const auto& [path, content] : hub_.dataset_files) EXPECT_TRUE(std::filesystem::exists(snapshot() / path)) << path;
  const auto before = hub_.requests().size();
  EXPECT_EQ(fetched("hf://datasets/author/set"), snapshot());
  EXPECT_EQ(hub_.requests().size(), before);
  EXPECT_EQ(fetched("hf://datasets/author/set@v1"), snapshot());
  EXPECT_EQ(hub_.requests().size(), before + 1) << "another revision is asked for, and what it has is here";
}

TEST_F(Dataset, OfPartsTheseAloneAreFetched) {
  hub_.dataset_files = {{"cats/a.png", "a"}, {"dogs/b.png", "b"}};
  EXPECT_EQ(fetched("hf://datasets/author/set/cats"), snapshot() / "cats");
  EXPECT_FALSE(std::filesystem::exists(snapshot() / "dogs"));
  EXPECT_THAT(error_of([&] { fetched("hf://datasets/author/set/birds"); }, Exit::data),
              HasSubstr("datasets/author/set holds no 'birds' at main; it has cats/a.png, dogs/b.png"));
}

TEST_F(Dataset, OfPushToHubIsItsFolderOfData) {
  hub_.dataset_files = {{".gitattributes", ""}, {"README.md", ""}, {"data/train-00000-of-00001.parquet", "p"}};
  EXPECT_EQ(fetched("hf://datasets/author/set"), snapshot() / "data");
}

TEST_F(Dataset, ThatIsNotThereIsNamed) {
  EXPECT_THAT(error_of([&] { fetched("hf://datasets/author/none"); }, Exit::data), HasSubstr("there is no 'datasets/author/none'"));
  EXPECT_THAT(error_of([&] { fetched("hf://datasets/author/set@v2"); }, Exit::data), HasSubstr("the name of the revision"));
}
