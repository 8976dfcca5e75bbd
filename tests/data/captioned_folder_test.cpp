#include "data/captioned_folder.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

class CaptionedFolder : public ::testing::Test {
 protected:
  void file(const std::string& name, const std::string& text = "") {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
  }
  std::vector<std::string> captions() const {
    std::vector<std::string> all;
    for (const auto& row : data::load_metadata(folder).rows) all.push_back(row["prompt"]);
    return all;
  }
  std::string refusal() const {
    return error_of([&] { data::load_metadata(folder); });
  }
  Scratch scratch;
  fs::path folder = scratch / "pictures";
};

}  // namespace

TEST_F(CaptionedFolder, PicturesInTheOrderOfTheirNames) {
  file("b.PNG");
  file("b.txt", "\xEF\xBB\xBF a bird \n");
  file("a.jpeg");
  file("a.txt");
  file("notes.md", "no picture");
  auto m = data::load_metadata(folder);
  EXPECT_THAT(captions(), ElementsAre("", "a bird"));
  EXPECT_EQ(m.rows[1]["image"], (fs::canonical(folder) / "b.PNG").string());
  EXPECT_EQ(data::load_metadata(folder / "").rows.size(), 2u);
}

TEST_F(CaptionedFolder, SubfoldersRepeat) {
  file("2_cat/cat.webp");
  file("2_cat/cat.txt", "cat");
  file("2024/year.png");
  file("2024/year.txt", "year");
  file("plain/deep/x.jpg");
  file("plain/deep/x.txt", "x");
  EXPECT_THAT(captions(), ElementsAre("year", "cat", "cat", "x"));
}

TEST_F(CaptionedFolder, AYearThatIsReadAsACountIsSaid) {
  for (const char* name : {"2024_photos/a", "2024_photos/b", "12_cat/c"}) {
    file(std::string(name) + ".png");
    file(std::string(name) + ".txt", "x");
  }
  testing::internal::CaptureStdout();  // where the logger of this program writes
  EXPECT_EQ(captions().size(), 2u * 2024 + 12);
  auto said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("2024_photos asks for 2024 visits an epoch of each of its pictures"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CaptionedFolder, RefusesInASentence) {
  file("a.txt", "caption");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("holds no picture"), HasSubstr("metadata file")));
  file("a.png");
  file("b.png");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("1 of the 2 pictures"), HasSubstr("b.png"), HasSubstr("b.txt")));
  file("b.txt", "\xFF");
  EXPECT_THAT(refusal(), HasSubstr("not UTF-8"));
  file("b.txt");
  file("0_none/c.png");
  file("0_none/c.txt");
  EXPECT_THAT(refusal(), HasSubstr("0 repeats"));
}
