// Masks of a folder by a CLIPSeg as a hub has it, and runs that read them.
#include <ATen/ops/full.h>

#include "data/image.h"
#include "tests/golden.h"
#include "tests/integration/program.h"

namespace burnish::test {

namespace {

/// A folder with pictures, also in a subfolder, of which one is damaged and one has a mask.
void fill(const Scratch& scratch) {
  fs::create_directories(scratch / "pictures/more");
  for (const char* name : {"a", "b"})
    fs::copy(golden_path(std::string("captions/pictures/") + name + ".png"), scratch / (std::string("pictures/") + name + ".png"));
  fs::copy(golden_path("captions/pictures/c.png"), scratch / "pictures/more/c.png");
  scratch.write("pictures/broken.png", "no picture");
  data::write_png(scratch / "pictures/b.mask.png", at::full({84, 40, 1}, 7, at::kByte));
}

std::string command(const Scratch& scratch) {
  return "mask '" + (scratch / "pictures").string() + "' " + option("model", golden_path("masks/clip_seg")) +
         "--mask_prompt 'a cat' --mask_threshold 0.57 --num_threads 1 ";
}

nlohmann::json told_by(const std::string& arguments) {
  const auto run = run_burnish(arguments + " --json");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return nlohmann::json::parse(run.output.substr(run.output.find('{')));
}

}  // namespace

TEST(MakeMasks, FillsBesidePicturesAndLosesNothingByADamagedFile) {
  Scratch scratch;
  fill(scratch);
  const auto told = told_by(command(scratch));
  ASSERT_EQ(told["written"].size(), 2);
  EXPECT_EQ(told["num_there"], 1);
  ASSERT_EQ(told["bad"].size(), 1);
  for (const auto& [mask, picture] : {std::pair{"a-masklabel.png", "a.png"}, {"more/c-masklabel.png", "more/c.png"}}) {
    const auto size = data::image_size(scratch / (std::string("pictures/") + picture));
    EXPECT_EQ(data::image_size(scratch / (std::string("pictures/") + mask)), size) << mask;
  }
  EXPECT_FALSE(fs::exists(scratch / "pictures/b-masklabel.png"));
  EXPECT_EQ(told_by(command(scratch))["num_there"], 3);
}

TEST(MakeMasks, JoinsThoseThatAreThereAndWritesIntoAFolder) {
  Scratch scratch;
  fill(scratch);
  fs::remove(scratch / "pictures/broken.png");
  ASSERT_EQ(run_burnish(command(scratch) + "--mask_folder '" + (scratch / "masks").string() + "'").exit_code, 0);
  EXPECT_TRUE(fs::exists(scratch / "masks/more/c.png"));
  const auto fresh = data::decode_gray(scratch / "masks/b.png");
  ASSERT_EQ(run_burnish(command(scratch) + "--mask_mode add").exit_code, 0);
  EXPECT_TRUE(at::equal(data::decode_gray(scratch / "pictures/b.mask.png"), at::maximum(fresh, at::full_like(fresh, 7))));
  ASSERT_EQ(run_burnish(command(scratch) + "--mask_mode replace").exit_code, 0);
  EXPECT_TRUE(at::equal(data::decode_gray(scratch / "pictures/b.mask.png"), fresh));
  EXPECT_FALSE(fs::exists(scratch / "pictures/.burnish-mask.jsonl"));
}

TEST(MakeMasks, RefusesWhatItCannotDo) {
  Scratch scratch;
  fill(scratch);
  auto refused = [&](const std::string& arguments, int code, const std::string& words) {
    const auto run = run_burnish(arguments);
    EXPECT_EQ(run.exit_code, code) << run.output;
    EXPECT_NE(run.output.find(words), std::string::npos) << run.output;
  };
  refused("mask", 2, "folder names the pictures");
  refused("mask x", 2, "mask_prompt says what is to count");
  refused("mask x y --mask_prompt z --mask_folder f", 2, "for the masks of one folder");
  refused("mask /nowhere --mask_prompt x", 3, "is no folder, and masks are written");
}

}  // namespace burnish::test
