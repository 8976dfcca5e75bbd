#include "data/spelling.h"

#include <gmock/gmock.h>

#include "data/tar_writer.h"
#include "tests/scratch.h"

using namespace burnish;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

const std::string kApart = "cafe\xCC\x81", kOne = "caf\xC3\xA9";  // an e with an accent as two characters, and as one

}  // namespace

TEST(Spelling, NormalFormC) {
  EXPECT_EQ(data::composed(kApart), kOne);
  EXPECT_EQ(data::composed(kOne), kOne);
  EXPECT_EQ(data::composed("\xED\x95\x9C"), data::composed("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB")) << "a syllable of Hangul";
  EXPECT_EQ(data::composed("plain \xFF"), "plain \xFF") << "no UTF-8";
}

TEST(Spelling, NamesOfEitherFormFindFilesOfTheOther) {
  Scratch folder;
  fs::create_directory(folder / kApart);
  folder.write(kApart + "/" + kOne + ".png", "");
  folder.write("both-" + kOne, "");
  folder.write("both-" + kApart, "");
  data::SpelledFiles files;
  auto found = files.find(folder.path(), kOne + "/" + kApart + ".png");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, folder / kApart / (kOne + ".png"));
  EXPECT_EQ(files.find(folder.path(), "both-" + kApart), folder / ("both-" + kApart)) << "a file of that very name comes first";
  EXPECT_FALSE(files.find(folder.path(), kOne + "/other-" + kOne).has_value());
}

TEST(Spelling, BackslashesOfWindowsAreSlashesWhereNoFileHasThem) {
  Scratch folder;
  fs::create_directory(folder / "sub");
  folder.write("p0.png", "");
  folder.write("sub/" + kApart, "");
  folder.write("odd\\p1.png", "");
  data::SpelledFiles files;
  EXPECT_EQ(files.find(folder.path(), ".\\p0.png"), folder / "p0.png");
  EXPECT_EQ(files.find(folder.path(), "sub\\..\\p0.png"), folder / "p0.png");
  EXPECT_EQ(files.find(folder.path(), "sub\\" + kOne), folder / "sub" / kApart);
  EXPECT_EQ(files.find(folder.path(), "odd\\p1.png"), folder / "odd\\p1.png");
  EXPECT_FALSE(files.find(folder.path(), "C:\\p0.png").has_value());
}

TEST(Spelling, MembersOfArchivesAreFoundToo) {
  Scratch folder;
  data::TarWriter tar(folder / "p.tar");
  tar.add("sub/" + kApart + ".png", "x");
  tar.commit();
  data::SpelledFiles files;
  EXPECT_EQ(files.find(folder.path(), "p.tar/sub/" + kOne + ".png"), folder / "p.tar" / "sub" / (kApart + ".png"));
  EXPECT_FALSE(files.find(folder.path(), "p.tar/" + kOne + ".png").has_value());
}
