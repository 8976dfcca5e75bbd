// Which files of a folder a dataset takes.
#include <gmock/gmock.h>

#include "data/load_metadata.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A folder of a picture, an animation and two clips, of which one has no caption.
class MediaOfFolder : public testing::Test {
 protected:
  MediaOfFolder() {
    for (const char* name : {"all/frames", "still"}) std::filesystem::create_directories(folder / name);
    for (const char* name : {"a.png", "b.gif", "c.mp4", "a.txt", "b.txt", "c.txt"}) folder.write(std::string("all/") + name, "a");
    folder.write("all/d.mp4", "d");
  }
  std::vector<std::string> taken(data::Media media) const {
    const auto metadata = data::load_metadata(folder / "all", {.with_videos = true, .media = media});
    std::vector<std::string> names;
    for (size_t i = 0; i < metadata.rows.size(); ++i)
      names.push_back(std::filesystem::path(metadata.rows[i]["image"].get<std::string>()).filename().string() +
                      (metadata.bad.contains(i) ? " bad" : ""));
    return names;
  }
  test::Scratch folder;
};

}  // namespace

TEST_F(MediaOfFolder, AreTakenByWhatADatasetIsFor) {
  EXPECT_THAT(taken(data::Media::all), ElementsAre("a.png", "b.gif", "c.mp4", "d.mp4 bad"));
  EXPECT_THAT(taken(data::Media::pictures), ElementsAre("a.png", "b.gif"));
  EXPECT_THAT(taken(data::Media::clips), ElementsAre("c.mp4", "d.mp4 bad"));
}

TEST_F(MediaOfFolder, OfNamesInMetadataTooAndFoldersOfFramesAreClips) {
  folder.write("all/frames/0.png", "");
  const auto rows = folder.write("all/rows.jsonl", R"({"image": "a.png", "prompt": "a"}
{"image": "frames", "prompt": "b"}
{"video": "c.mp4", "prompt": "c"})");
  EXPECT_EQ(data::load_metadata(rows, {.media = data::Media::clips}).rows.size(), 2u);
  EXPECT_EQ(data::load_metadata(rows, {.media = data::Media::pictures}).rows.size(), 1u);
}

TEST_F(MediaOfFolder, ThatHasNoneOfThemIsRefused) {
  folder.write("still/a.png", "a");
  folder.write("still/a.txt", "a");
  EXPECT_THAT(test::error_of([&] { data::load_metadata(folder / "still", {.with_videos = true, .media = data::Media::clips}); }),
              HasSubstr("holds pictures alone, and media clips asks for clips"));
}
