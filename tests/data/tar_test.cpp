// Archives as webdataset and Python's tarfile write them (tests/golden/make_tars.py).
#include "data/tar.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "data/archived_files.h"
#include "data/dataset.h"
#include "data/file_hashes.h"
#include "data/image.h"
#include "data/load_metadata.h"
#include "io/files.h"
#include "tests/golden.h"
#include "tests/rows.h"
#include "tests/scratch.h"

using namespace burnish;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

fs::path archive(const std::string& name) { return test::golden_path("data/tars/" + name); }

std::vector<std::string> captions(const fs::path& path) {
  std::vector<std::string> all;
  for (const auto& row : data::load_metadata(path).rows) all.push_back(row.value("prompt", "(none)"));
  return all;
}

}  // namespace

TEST(Tar, AShardOfWebDatasetIsADataset) {
  auto shard = archive("shard-000000.tar");
  EXPECT_THAT(captions(shard), ElementsAre("a black square", "a dark square"));
  data::Dataset dataset({.subsets = {{.base_path = "", .metadata_path = shard.string(), .size = {.height = 32, .width = 48}}}});
  auto pixels = test::read_target(dataset, 1);
  EXPECT_EQ(pixels.sizes(), (std::vector<int64_t>{32, 48, 3}));
  EXPECT_EQ(pixels[0][0][0].item<int>(), 215);
  EXPECT_EQ(pixels[31][0][0].item<int>(), 40);
}

TEST(Tar, MasksWeightsAndCaptionsInAShardOfWebDataset) {
  auto shard = archive("masked-000000.tar");
  data::Dataset dataset({.subsets = {{.base_path = "", .metadata_path = shard.string(), .size = {.height = 32, .width = 48}}},
                         .columns = {mask_column("mask")}});
  ASSERT_THAT(dataset.rows(), ElementsAre(0));
  EXPECT_EQ(dataset.row(0).loss_weight, 0.5);
  ASSERT_EQ(dataset.row(0).captions.size(), 2u);
  EXPECT_EQ(dataset.row(0).captions[0].text, "a black square");
  EXPECT_EQ(dataset.row(0).captions[0].weight, 3);
  auto mask = test::read_mask(dataset, 0);
  EXPECT_EQ(mask[0][0].item<int>(), 255);
  EXPECT_EQ(mask[31][0].item<int>(), 0);
}

/// img2dataset leaves out what it could not fetch, and writes a caption file for empty captions too (tests/golden/make_img2dataset.py).
TEST(Tar, AnArchiveOfImg2datasetIsADataset) {
  auto tar = archive("img2dataset-00000.tar");
  EXPECT_THAT(captions(tar), testing::UnorderedElementsAre("a picture, with colours", "tr\u00e8s clair", ""));
  for (const auto& row : data::load_metadata(tar).rows) {
    EXPECT_EQ(row["status"], "success");
    EXPECT_EQ(row["punsafe"], row["prompt"] == "tr\u00e8s clair" ? 0.25 : 0.5);
  }
  data::Dataset dataset({.subsets = {{.base_path = "", .metadata_path = tar.string(), .size = {.height = 48, .width = 64}}}});
  ASSERT_THAT(dataset.rows(), ElementsAre(0, 1, 2));
  for (int64_t row : dataset.rows()) EXPECT_EQ(test::read_target(dataset, row).sizes(), (std::vector<int64_t>{48, 64, 3}));
}

TEST(Tar, EveryDialectIsRead) {
  for (const std::string name : {"gnu.tar", "pax.tar", "ustar.tar"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(captions(archive(name)), ElementsAre("a brighter square, tr\u00e8s clair", "a grey square"));
  }
}

TEST(Tar, AFolderOfArchivesIsOneDataset) {
  test::Scratch scratch;
  fs::create_directories(scratch / "shards/deep");
  fs::copy(archive("shard-000000.tar"), scratch / "shards/00000_of_00001.tar");
  fs::copy(archive("pax.tar"), scratch / "shards/deep/2.tar");
  EXPECT_THAT(captions(scratch / "shards"),
              ElementsAre("a black square", "a dark square", "a brighter square, tr\u00e8s clair", "a grey square"));
}

TEST(Tar, NamesDoNotLeadOutOfIt) {
  auto tar = archive("outside.tar");
  EXPECT_THAT(captions(tar), ElementsAre("/etc/hostname.png", "inside.png")) << "the first is etc/hostname.png in the archive";
  for (const auto& row : data::load_metadata(tar).rows)
    EXPECT_TRUE(row["image"].get<std::string>().starts_with(fs::canonical(tar).string())) << row["image"];
  EXPECT_FALSE(data::is_file_there(tar / "../outside.tar/x.png"));
}

TEST(Tar, AMemberIsKnownByItsContent) {
  test::Scratch scratch;
  fs::create_directories(scratch / "a");
  auto tar = scratch / "a/x.tar";
  fs::copy(archive("shard-000000.tar"), tar);
  data::FileHashes hashes("");
  auto first = hashes.hash(tar / "000000.png"), second = hashes.hash(tar / "000001.png");
  EXPECT_NE(first, second);
  EXPECT_EQ(first, data::FileHashes("").hash(archive("shard-000000.tar") / "000000.png"));
  fs::remove(tar);
  fs::copy(archive("gnu.tar"), tar);
  EXPECT_THAT(test::error_of([&] { hashes.hash(tar / "000000.png"); }), HasSubstr("000000.png"));
}

TEST(Tar, DamagedOnesEndInASentence) {
  test::Scratch scratch;
  for (const std::string name : {"shard-000000.tar", "gnu.tar", "pax.tar"}) {
    auto bytes = test::content(archive(name));
    for (size_t i = 0; i < 3072; i += 29) {
      auto changed = bytes;
      changed[i] = static_cast<char>(~changed[i]);
      try {
        captions(scratch.write("x.tar", changed));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data) << name << " " << i;
      }
    }
    for (size_t length : {size_t{600}, size_t{1024}, size_t{1500}})
      EXPECT_THAT(test::error_of([&] { captions(scratch.write("x.tar", bytes.substr(0, length))); }), HasSubstr("is truncated: "));
  }
  EXPECT_THAT(test::error_of([&] { captions(scratch.write("x.tar", "\x1F\x8B" + std::string(600, 'x'))); }), HasSubstr("compressed"));
  EXPECT_THAT(test::error_of([&] { captions(scratch.write("x.tar", "")); }), HasSubstr("is no tar archive"));
}
