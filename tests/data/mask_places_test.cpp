#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "data/caption_places.h"
#include "data/image.h"
#include "tests/scratch.h"

using namespace burnish;
using test::Scratch;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

namespace {

/// "picture -> mask", with a + where that is there, from the folder on.
std::vector<std::string> places_in(const fs::path& folder, const fs::path& masks = {}) {
  std::vector<std::string> list;
  for (const auto& place : data::mask_places(folder, masks)) {
    auto from = [&](const fs::path& path) { return path.lexically_relative(fs::canonical(folder)).string(); };
    list.push_back(from(place.picture) + " " + from(place.file) + (place.is_there ? " +" : ""));
  }
  return list;
}

}  // namespace

TEST(MaskPlaces, AreBesidePicturesWhereTheyAreOrAsOneTrainerNamesThem) {
  Scratch scratch;
  fs::create_directory(scratch / "more");
  for (const char* name : {"a.png", "a.mask.png", "b.JPG", "b-masklabel.png", "more/c.webp", "more/clip.mp4", ".hidden.png"})
    scratch.write(name, "");
  EXPECT_THAT(places_in(scratch.path()), ElementsAre("a.png a.mask.png +", "b.JPG b-masklabel.png +", "more/c.webp more/c-masklabel.png"));
}

TEST(MaskPlaces, OfAFolderForMasksHaveThePicturesNames) {
  Scratch scratch;
  for (const char* folder : {"more", "masks"}) fs::create_directory(scratch / folder);
  for (const char* name : {"a.png", "more/c.webp", "masks/a.png"}) scratch.write(name, "");
  EXPECT_THAT(places_in(scratch.path(), fs::canonical(scratch.path()) / "masks"),
              ElementsAre("a.png masks/a.png +", "more/c.webp masks/more/c.png"));
}

TEST(MaskPlaces, AMaskOfAnotherEndingBecomesAPng) {
  Scratch scratch;
  scratch.write("a.png", "");
  scratch.write("a.mask.webp", "");
  const auto places = data::mask_places(scratch.path());
  ASSERT_EQ(places.size(), 1u);
  data::write_mask(places[0], at::full({2, 3, 1}, 9, at::kByte));
  EXPECT_FALSE(fs::exists(scratch / "a.mask.webp"));
  EXPECT_EQ(data::decode_gray(scratch / "a-masklabel.png").sum().item<int64_t>(), 6 * 9);
}
