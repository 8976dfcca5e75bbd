#include "data/mask_check.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

/// Pictures of 40 by 80 pixels, of which the middle half is trained, with masks of one value or white on a side.
class MaskCheck : public ::testing::Test {
 protected:
  MaskCheck() {
    data::write_png(folder / "p.png", at::full({40, 80, 3}, 99, at::kByte));
    for (int value : {0, 1, 25, 26, 255})
      data::write_png(folder / (std::to_string(value) + ".png"), at::full({40, 80, 3}, value, at::kByte));
    auto side = at::zeros({40, 80, 3}, at::kByte);
    side.narrow(1, 0, 15).fill_(255);
    data::write_png(folder / "side.png", side);
    side.narrow(1, 0, 25).fill_(255);
    data::write_png(folder / "reaches.png", side);
    data::write_png(folder / "small.png", at::zeros({4, 8, 3}, at::kByte));
  }
  std::vector<std::string> warnings(const std::vector<std::string>& masks, bool opened = true) {
    std::string text = "image,prompt,mask\n";
    for (const auto& mask : masks) text += "p.png,a," + mask + "\n";
    data::DatasetOptions o{.subsets = {{folder.path(), folder.write("m.csv", text).string()}}};
    o.subsets[0].size = {40, 40, 1 << 20, 8};
    o.subsets[0].augmentation = augmentation;
    o.checks_folder = folder.path();
    o.columns = {opened ? mask_column("mask") : Column{.name = "mask", .is = Column::Is::text}};
    return data::warnings_of_masks(data::Dataset(o), mask_column("mask"));
  }
  test::Scratch folder;
  data::Augmentation augmentation;
};

}  // namespace

TEST_F(MaskCheck, BlackMasksAreCounted) {
  EXPECT_THAT(warnings({"0.png", "255.png", "", "0.png", "26.png"}),
              ElementsAre(AllOf(HasSubstr("2 samples have a black mask"), HasSubstr("the first is row 0")),
                          HasSubstr("1 sample has no mask and counts whole, beside 4 that have one")));
  EXPECT_THAT(warnings({"reaches.png", "26.png"}), IsEmpty());
}

TEST_F(MaskCheck, MasksOfZeroAndOneAreCounted) {
  EXPECT_THAT(warnings({"255.png", "1.png", "1.png", "26.png"}),
              ElementsAre(AllOf(HasSubstr("2 samples have a mask without a pixel above 1 of 255"), HasSubstr("0.0039 of the loss"),
                                HasSubstr("multiply masks of 0 and 1 by 255"), HasSubstr("row 1"))));
  EXPECT_THAT(warnings({"25.png", "255.png"}), ElementsAre(HasSubstr("above 25 of 255")));
}

TEST_F(MaskCheck, WhatIsWhiteOutsideOfTheCutIsAsBlack) {
  EXPECT_THAT(warnings({"side.png", "reaches.png"}), ElementsAre(HasSubstr("1 sample has a black mask where the picture is cut out")));
  augmentation = {.random_flip = true, .num_variants = 2};
  EXPECT_THAT(warnings({"side.png", "reaches.png"}), ElementsAre(HasSubstr("1 sample has a black mask"))) << "mirrored it is as black";
  augmentation = {.random_crop = true, .num_variants = 64};
  EXPECT_THAT(warnings({"side.png", "reaches.png"}), IsEmpty()) << "one of the ways has it";
}

TEST_F(MaskCheck, MasksThatChangeNothingAreSaid) {
  EXPECT_THAT(warnings({"255.png", "255.png"}), ElementsAre(HasSubstr("every mask is white")));
}

TEST_F(MaskCheck, AColumnThatNobodyAskedForMayHoldAnything) {
  EXPECT_THAT(warnings({"gone.png", "small.png", "0.png", "26.png"}, /*opened=*/false),
              ElementsAre(HasSubstr("1 sample has a black mask")));
  EXPECT_THAT(warnings({"p.csv", "a word"}, /*opened=*/false), IsEmpty());
}

TEST_F(MaskCheck, TransparencyIsOne) {
  data::DatasetOptions o{.subsets = {{folder.path(), folder.write("m.csv", "image,prompt\np.png,a\n").string()}}};
  o.columns = {opacity_column()};
  EXPECT_THAT(data::warnings_of_masks(data::Dataset(o), opacity_column()), ElementsAre(HasSubstr("no picture is transparent anywhere")));
  folder.write("rgba.png", test::content(test::golden_path("data/rgba.png")));
  folder.write("m.csv", "image,prompt\np.png,a\nrgba.png,b\n");
  EXPECT_THAT(data::warnings_of_masks(data::Dataset(o), opacity_column()), IsEmpty());
}
