#include "data/caption_places.h"

#include <gmock/gmock.h>

#include "tests/scratch.h"

using namespace burnish;
using test::Scratch;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

/// "picture -> caption file", with a + where that is there, from the folder on.
std::vector<std::string> places_in(const fs::path& folder, const std::string& ending = ".txt") {
  std::vector<std::string> list;
  for (const auto& place : data::caption_places(folder, ending)) {
    auto from = [&](const fs::path& path) { return path.lexically_relative(fs::canonical(folder)).string(); };
    list.push_back(from(place.picture) + " " + from(place.file) + (place.is_there ? " +" : ""));
  }
  return list;
}

}  // namespace

TEST(CaptionPlaces, EveryPictureAndClipHasAFileOfItsNameAndMasksHaveNone) {
  Scratch scratch;
  fs::create_directory(scratch / "more");
  for (const char* name : {"a.png", "a.mask.png", "b.JPG", "b-masklabel.png", "more/c.mp4", ".hidden.png", "notes.md"})
    scratch.write(name, "");
  scratch.write("b.TXT", "there");
  EXPECT_THAT(places_in(scratch.path()), ::testing::ElementsAre("a.png a.txt", "b.JPG b.TXT +", "more/c.mp4 more/c.txt"));
  EXPECT_THAT(places_in(scratch.path(), ".caption"), ::testing::Contains("b.JPG b.caption"));
}

TEST(CaptionPlaces, RefusesWhatIsNoFolderOfPictures) {
  Scratch scratch;
  scratch.write("a.txt", "");
  EXPECT_THAT(test::error_of([&] { data::caption_places(scratch.path(), ".txt"); }), HasSubstr("holds no picture"));
  EXPECT_THAT(test::error_of([&] { data::caption_places(scratch / "a.txt", ".txt"); }), HasSubstr("is no folder"));
}
