// Whose samples several datasets of a run take is told.
#include <gmock/gmock.h>

#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/options/hints.h"

using namespace burnish;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class SharedData : public testing::Test {
 protected:
  std::vector<std::string> hints(const std::vector<std::string>& tables) const {
    std::string text;
    for (const auto& table : tables) text += "[[datasets]]\n" + table + "\n";
    return train::shared_data_hints(
        test::options_of({"--model", "model", "--dataset_config", scratch.write("datasets.toml", text).string()}));
  }
  test::Scratch scratch;
};

const std::string kOneFolder = "image_dir = 'photos'\n";

}  // namespace

TEST_F(SharedData, OfOneFolderIsToldWhereFilesAreTakenTwice) {
  EXPECT_THAT(hints({kOneFolder, kOneFolder}), ElementsAre(testing::AllOf(HasSubstr((scratch / "photos").string()), HasSubstr("2 datasets"),
                                                                          HasSubstr("pictures and clips"))));
  EXPECT_THAT(hints({kOneFolder, kOneFolder + "media = 'clips'"}), testing::SizeIs(1));
  EXPECT_THAT(hints({kOneFolder + "media = 'clips'", kOneFolder + "media = 'clips'\nnum_frames = 25"}),
              ElementsAre(HasSubstr("each takes its clips")));
}

TEST_F(SharedData, IsNotToldWhereEachFileIsTakenOnce) {
  EXPECT_THAT(hints({kOneFolder + "media = 'pictures'", kOneFolder + "media = 'clips'"}), IsEmpty());
  EXPECT_THAT(hints({kOneFolder, "image_dir = 'others'"}), IsEmpty());
  EXPECT_THAT(hints({kOneFolder, kOneFolder + "is_reg = true"}), IsEmpty());
}

TEST_F(SharedData, IsNoneOfARunThatDrawsItsSamples) {
  EXPECT_THAT(train::shared_data_hints(test::options_of({"--model", "model", "--task", "slider"})), IsEmpty());
}
