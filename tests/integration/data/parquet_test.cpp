// Runs on Parquet files with pictures inside (tests/golden/make_parquet.py).
#include <gmock/gmock.h>

#include "data/archived_files.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kData = kGolden.parent_path() / "data";
const std::string kShard = "train-00000-of-00002.parquet";

class ParquetRun : public BadInput {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(test::kProgram).parent_path() / "libburnish_parquet.so"))
      GTEST_SKIP() << "this build reads no Parquet files, since pyarrow was not there: ./dev setup installs it";
  }
  std::string cache() const { return "XDG_CACHE_HOME=" + quoted(at("cache")); }
  /// Its log's numbers and its adapter.
  std::pair<std::vector<std::string>, std::string> train_on(const fs::path& data, const std::string& run) {
    auto outcome = run_burnish("train " + golden_model() +
                                   "--height 32 --width 48 --learning_rate 1e-3 --lora_rank 2 --max_steps 4 --dataset_metadata_path " +
                                   quoted(data) + " --output_path " + quoted(at(run)),
                               cache());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    said_ = outcome.output;
    std::vector<std::string> numbers;
    for (auto& line : read_log(at(run))) numbers.push_back(nlohmann::json{line["step"], line["loss"], line["grad_norm"]}.dump());
    EXPECT_EQ(numbers.size(), 4u);
    return {numbers, read_file(at(run + "/step-4.safetensors"))};
  }

  std::string said_;
};

}  // namespace

TEST_F(ParquetRun, TrainsBitForBitAsTheFolderOfItsPictures) {
  for (const std::string name : {"000000.png", "000001.png"})
    write("folder/" + name, data::read_file_bytes(kData / "tars/shard-000000.tar" / name));
  auto folder =
      write("folder/metadata.csv", "file_name,text,loss_weight\n000000.png,a black square,0\n000001.png,a dark square,0.5\n").parent_path();
  auto expected = train_on(folder, "expected");
  EXPECT_FALSE(fs::exists(at("cache/burnish/parquet-1")));
  EXPECT_EQ(train_on(kData / "parquets" / kShard, "file"), expected);
  EXPECT_THAT(said_, HasSubstr("is unpacked once"));
  fs::create_directories(at("repository/data"));
  fs::copy(kData / "parquets" / kShard, at("repository/data") / kShard);
  fs::copy(kData / "parquets/test-00000-of-00001.parquet", at("repository/data/test-00000-of-00001.parquet"));
  EXPECT_EQ(train_on(at("repository"), "shards"), expected);
  EXPECT_THAT(said_, Not(HasSubstr("is unpacked once"))) << "the content is known";
  EXPECT_THAT(said_, HasSubstr("1 Parquet file left out"));
}

TEST_F(ParquetRun, IsLookedAtBeforeTraining) {
  auto outcome = run_burnish("data " + quoted(kData / "parquets/photos.parquet"), cache());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("3 pictures, 3 samples, from 48x32 to 48x32 pixels"));
}

TEST_F(ParquetRun, WithoutTheLibraryOneSentenceSaysWhatToInstall) {
  fs::copy_file(test::kProgram, at("burnish"));
  auto outcome = run_burnish("data " + quoted(kData / "parquets/photos.parquet"), "BURNISH_LOG=error " + cache(), at("burnish").string());
  expect_one_error(outcome, 3, {"photos.parquet", "built without Arrow's library", "./dev setup"});
  write("libburnish_parquet.so", "no library");
  outcome = run_burnish("data " + quoted(kData / "parquets/photos.parquet"), "BURNISH_LOG=error " + cache(), at("burnish").string());
  expect_one_error(outcome, 3, {"photos.parquet", "cannot be opened", "pip install 'pyarrow>=26,<27'"});
}
