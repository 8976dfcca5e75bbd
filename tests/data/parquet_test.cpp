// Parquet files as the package datasets and pyarrow write them (tests/golden/make_parquet.py).
#include "data/parquet.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "data/archived_files.h"
#include "data/dataset.h"
#include "data/load_metadata.h"
#include "data/tar.h"
#include "data/tar_writer.h"
#include "data/unpacked_parquet.h"
#include "tests/golden.h"
#include "tests/places.h"
#include "tests/rows.h"
#include "tests/scratch.h"

using namespace burnish;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

namespace {

fs::path golden_parquet(const std::string& name) { return test::golden_path("data/parquets/" + name); }

class Parquet : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(test::kProgram).parent_path() / "libburnish_parquet.so"))
      GTEST_SKIP() << "this build reads no Parquet files, since pyarrow was not there: ./dev setup installs it";
    setenv("XDG_CACHE_HOME", (scratch / "cache").c_str(), 1);
  }
  void TearDown() override { unsetenv("XDG_CACHE_HOME"); }

  static std::vector<nlohmann::json> rows(const fs::path& path) { return data::load_metadata(path).rows; }
  static std::vector<std::string> captions(const fs::path& path) {
    std::vector<std::string> all;
    for (const auto& row : rows(path)) all.push_back(row.value("text", "(none)"));
    return all;
  }
  std::vector<std::string> unpacked() const {
    std::vector<std::string> names;
    if (!fs::exists(scratch / "cache")) return names;
    for (const auto& entry : fs::recursive_directory_iterator(scratch / "cache")) {
      if (!entry.is_directory() && entry.path().filename() != "hashes.json") names.push_back(entry.path().string());
    }
    return names;
  }
  static data::DatasetOptions options(const fs::path& path) {
    return {.subsets = {{.base_path = "", .metadata_path = path.string(), .size = {.height = 32, .width = 48}}}};
  }

  test::Scratch scratch;
};

/// The picture of that number in make_parquet.py, as a dataset gives it: by its first and last row.
void expect_picture(const at::Tensor& pixels_HW3, int number) {
  ASSERT_EQ(pixels_HW3.sizes(), (std::vector<int64_t>{32, 48, 3}));
  EXPECT_EQ(pixels_HW3[0][0][0].item<int>(), 255 - 40 * number);
  EXPECT_EQ(pixels_HW3[31][0][0].item<int>(), 40 * number);
}

const std::string kGrey = "a grey square, tr\u00e8s clair";

}  // namespace

TEST_F(Parquet, WhatThePackageDatasetsWritesIsADataset) {
  auto photos = golden_parquet("photos.parquet");
  EXPECT_THAT(captions(photos), ElementsAre("a black square", "a dark square", kGrey));
  EXPECT_EQ(rows(photos)[1]["label"], 1);
  EXPECT_EQ(rows(photos)[1]["image"], (fs::canonical(photos) / "00000001.png").string());
  data::Dataset dataset(options(photos));
  ASSERT_THAT(dataset.rows(), ElementsAre(0, 1, 2));
  for (int row = 0; row < 3; ++row) {
    expect_picture(test::read_target(dataset, row), row);
    EXPECT_EQ(dataset.row(row).loss_weight, 0.5 * row);
  }
  EXPECT_EQ(dataset.row(2).prompt, kGrey);
}

TEST_F(Parquet, SeveralPicturesARowAreFurtherFiles) {
  auto several = options(golden_parquet("several.parquet"));
  EXPECT_THAT(test::error_of([&] { data::Dataset{several}; }),
              AllOf(HasSubstr("none of the columns image,video is there"), HasSubstr("mask, picture")))
      << "of several none is taken for the picture";
  several.data_file_keys = "picture";
  several.columns = {test::list_of("reference_images"), mask_column("mask")};
  several.skip_bad_samples = true;
  data::Dataset dataset(several);
  ASSERT_THAT(dataset.rows(), ElementsAre(0, 1));
  EXPECT_THAT(dataset.bad_samples().at(2), HasSubstr("'picture' names no file"));
  expect_picture(test::read_target(dataset, 0), 0);
  EXPECT_EQ(test::read_mask(dataset, 0)[0][0].item<int>(), 255);
  EXPECT_EQ(test::read_mask(dataset, 0)[31][0].item<int>(), 0);
  ASSERT_EQ(test::read_list(dataset, 0, "reference_images").size(), 2u);
  expect_picture(test::read_list(dataset, 0, "reference_images")[0], 1);
  expect_picture(test::read_list(dataset, 0, "reference_images")[1], 2);
  EXPECT_EQ(test::read_list(dataset, 1, "reference_images").size(), 0u);
  EXPECT_EQ(dataset.row(0).captions.size(), 2u);
}

TEST_F(Parquet, AFolderOfShardsIsOneDatasetInTheirOrder) {
  fs::create_directories(scratch / "repository/data");
  for (const char* name : {"train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "test-00000-of-00001.parquet"})
    fs::copy(golden_parquet(name), scratch / "repository/data" / name);
  EXPECT_THAT(captions(scratch / "repository"), ElementsAre("a black square", "a dark square", kGrey)) << "test- is left out";
  EXPECT_THAT(captions(scratch / "repository/data/test-00000-of-00001.parquet"), ElementsAre("a black square"));
  data::Dataset dataset(options(scratch / "repository"));
  expect_picture(test::read_target(dataset, 2), 2);
  scratch.write("repository/data/train-00002.parquet", "nothing");
  auto m = data::load_metadata(scratch / "repository");
  EXPECT_EQ(m.rows.size(), 4u);
  EXPECT_THAT(m.bad.at(3), AllOf(HasSubstr("train-00002.parquet is no Parquet file"), HasSubstr("Arrow says")));
}

TEST_F(Parquet, EveryCompressionAndKindOfValue) {
  for (const std::string name : {"snappy", "zstd", "gzip", "brotli", "lz4", "none"}) {
    SCOPED_TRACE(name);
    auto file = golden_parquet("types_" + name + ".parquet");
    auto all = rows(file);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0]["image"], all[0]["jpg"]) << "the only column of pictures";
    EXPECT_EQ(all[2]["caption"], kGrey);
    EXPECT_EQ(all[0]["size"].dump(), R"({"sides":[1.5,null],"width":48})");
    EXPECT_TRUE(all[2]["size"].is_null());
    EXPECT_EQ(all[1]["time"], "1970-01-01 00:00:00.001");
    EXPECT_TRUE(all[1]["ratio"].is_null()) << "JSON has no NaN";
    EXPECT_EQ(all[2]["ratio"], -2.0);
    EXPECT_EQ(all[1]["good"], false);
    auto dataset_options = options(file);
    EXPECT_THAT(test::error_of([&] { data::Dataset{dataset_options}; }), HasSubstr("types_" + name + ".parquet/00000001"));
    dataset_options.skip_bad_samples = true;
    data::Dataset dataset(dataset_options);
    EXPECT_THAT(dataset.rows(), ElementsAre(0, 2));
    expect_picture(test::read_target(dataset, 2), 2);
  }
}

TEST_F(Parquet, IsUnpackedOnceByItsContent) {
  fs::copy(golden_parquet("photos.parquet"), scratch / "a.parquet");
  rows(scratch / "a.parquet");
  ASSERT_EQ(unpacked().size(), 1u);
  auto archive = fs::path(unpacked()[0]);
  EXPECT_EQ(archive, data::unpacked_parquet(scratch / "a.parquet"));
  EXPECT_EQ(data::read_tar(archive).size(), 4u) << "three pictures and the rows";
  auto written = fs::last_write_time(archive);
  fs::copy(scratch / "a.parquet", scratch / "b.parquet");
  EXPECT_THAT(captions(scratch / "b.parquet"), ElementsAre("a black square", "a dark square", kGrey));
  EXPECT_EQ(fs::last_write_time(archive), written);
  EXPECT_EQ(unpacked().size(), 1u);
  fs::copy(golden_parquet("test-00000-of-00001.parquet"), scratch / "b.parquet", fs::copy_options::overwrite_existing);
  EXPECT_THAT(captions(scratch / "b.parquet"), ElementsAre("a black square"));
  EXPECT_EQ(unpacked().size(), 2u);
}

TEST_F(Parquet, LinksOfTheHubsCacheLeadToFilesWithoutEnding) {
  fs::create_directories(scratch / "snapshots/main");
  fs::copy(golden_parquet("photos.parquet"), scratch / "0123abcd");
  fs::create_symlink("../../0123abcd", scratch / "snapshots/main/train-00000-of-00001.parquet");
  EXPECT_EQ(data::Dataset(options(scratch / "snapshots/main/train-00000-of-00001.parquet")).rows().size(), 3u);
  EXPECT_EQ(data::Dataset(options(scratch / "snapshots")).rows().size(), 3u);
}

TEST_F(Parquet, DamagedOnesEndInASentence) {
  auto bytes = test::content(golden_parquet("several.parquet"));
  for (size_t i = 0; i < bytes.size(); i += 37) {
    auto changed = bytes;
    changed[i] = static_cast<char>(~changed[i]);
    try {
      rows(scratch.write("x.parquet", changed));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data) << i;
    }
  }
  fs::remove_all(scratch / "cache");
  for (size_t length : {size_t{0}, size_t{3}, size_t{12}, bytes.size() / 2, bytes.size() - 1}) {
    auto file = scratch.write("x.parquet", bytes.substr(0, length));
    EXPECT_THAT(test::error_of([&] { rows(file); }), HasSubstr("is no Parquet file, or is damaged")) << length;
  }
  EXPECT_THAT(test::error_of([&] { rows(scratch / "absent.parquet"); }), HasSubstr("absent.parquet"));
  EXPECT_THAT(unpacked(), IsEmpty()) << "nothing is left of what could not be unpacked";
}

TEST(TarWriter, WhatItWritesIsRead) {
  test::Scratch scratch;
  data::TarWriter writer(scratch / "x.tar");
  std::vector<std::pair<std::string, std::string>> files{
      {"empty", ""}, {"a/short.txt", "x"}, {"block", std::string(512, 'b')}, {std::string(100, 'n'), std::string(513, 'c')}};
  for (const auto& [name, content] : files) writer.add(name, content);
  EXPECT_THROW(writer.add(std::string(101, 'n'), ""), std::logic_error);
  EXPECT_FALSE(fs::exists(scratch / "x.tar"));
  writer.commit();
  EXPECT_EQ(data::read_tar(scratch / "x.tar").size(), files.size());
  for (const auto& [name, content] : files) EXPECT_EQ(data::read_file_bytes(scratch / "x.tar" / name), content) << name;
}
