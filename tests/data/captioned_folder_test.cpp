#include "data/captioned_folder.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "data/load_metadata.h"
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
  file("10001_cat/c.png");
  EXPECT_THAT(refusal(), HasSubstr("10001 repeats"));
}

TEST_F(CaptionedFolder, AFolderOfNoRepeatsIsLeftOutAsInSdScripts) {
  file("0_none/a.png");
  file("0_none/b.png");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("0_none"), HasSubstr("left out")));
  file("2_cat/c.png");
  file("2_cat/c.txt", "cat");
  testing::internal::CaptureStdout();
  EXPECT_THAT(captions(), ElementsAre("cat", "cat"));
  auto said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, HasSubstr("0_none is left out: its name asks for no visits"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CaptionedFolder, BadCaptionsAndArchivesAreBadRows) {
  file("a.png");
  file("a.txt", "caption");
  file("b.png");
  file("c.png");
  file("c.txt", "\xFF");
  file("stray.tar", "no archive");
  auto m = data::load_metadata(folder);
  ASSERT_EQ(m.rows.size(), 4u);
  EXPECT_EQ(m.rows[0]["prompt"], "caption");
  ASSERT_EQ(m.bad.size(), 3u);
  EXPECT_THAT(m.bad.at(1), AllOf(HasSubstr("b.png has no caption"), HasSubstr("b.txt"), HasSubstr(".json")));
  EXPECT_THAT(m.bad.at(2), AllOf(HasSubstr("c.txt"), HasSubstr("not UTF-8")));
  EXPECT_THAT(m.bad.at(3), AllOf(HasSubstr("stray.tar"), HasSubstr("no tar archive")));
  EXPECT_TRUE(data::load_metadata(folder, {.class_tokens = "a cat"}).rows[1]["prompt"] == "a cat");
}

TEST_F(CaptionedFolder, HiddenFilesAreNoPictures) {
  for (const char* name : {"a.png", "._a.png", ".hidden/b.png", "sub/.c.png"}) file(name);
  EXPECT_EQ(data::load_metadata(folder, {.class_tokens = "x"}).rows.size(), 1u);
}

TEST_F(CaptionedFolder, LinksThatAreLeftOutAreSaid) {
  file("a.png");
  file("../elsewhere/b.png");
  fs::create_directory_symlink(scratch / "elsewhere", folder / "linked");
  fs::create_symlink(scratch / "nothing.png", folder / "gone.png");
  fs::create_symlink(folder / "loop.png", folder / "loop.png");
  fs::create_symlink(scratch / "elsewhere/b.png", folder / "c.png");
  testing::internal::CaptureStdout();
  EXPECT_EQ(data::load_metadata(folder, {.class_tokens = "x"}).rows.size(), 2u) << "a link to a picture is one";
  auto said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, AllOf(HasSubstr("1 linked folder left out"), HasSubstr("pictures/linked")));
  EXPECT_THAT(said, AllOf(HasSubstr("2 links left out"), testing::AnyOf(HasSubstr("gone.png"), HasSubstr("loop.png"))));
}

TEST_F(CaptionedFolder, ANumberAloneIsNoCount) {
  for (const char* name : {"10/a.png", "10/b.png", "3_cat/c.png"}) file(name);
  testing::internal::CaptureStdout();
  EXPECT_EQ(data::load_metadata(folder, {.class_tokens = "x"}).rows.size(), 2u + 3);
  auto said = testing::internal::GetCapturedStdout();
  EXPECT_THAT(said, AllOf(HasSubstr("the folder"), HasSubstr("pictures/10 is named by a number alone"), HasSubstr("10_cat")));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CaptionedFolder, MasksAndFieldsBesideAPicture) {
  for (const char* name : {"a.jpg", "a.mask.png", "b.png", "lonely.mask.png"}) file(name);
  file("a.txt", "from the text file");
  file("a.json", R"({"caption": "from the object", "loss_weight": 0.5})");
  file("b.json", R"({"caption": [{"text": "x", "weight": 2}, {"text": "y", "weight": 1}]})");
  file("lonely.mask.txt", "no mask");
  auto rows = data::load_metadata(folder).rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["prompt"], "from the text file");
  EXPECT_EQ(rows[0]["loss_weight"], 0.5);
  EXPECT_EQ(rows[0]["mask"], (fs::canonical(folder) / "a.mask.png").string());
  EXPECT_EQ(rows[1]["prompt"].size(), 2u);
  EXPECT_FALSE(rows[1].contains("mask"));
  EXPECT_EQ(rows[2]["prompt"], "no mask");
}

TEST_F(CaptionedFolder, NumberedPicturesWithoutCaptionAreLayersWhereThereMayBeAny) {
  for (const char* name : {"a.png", "a_10.png", "a_2.png", "b_1.png", "b.png", "deep/c.png", "deep/c_0.png", "d_1.png", "a_x.png"})
    file(name);
  for (const char* name : {"a.txt", "b.txt", "b_1.txt", "deep/c.txt", "d_1.txt", "a_x.txt"}) file(name, "caption");
  auto root = fs::canonical(folder);
  auto rows = data::load_metadata(folder, {.with_layers = true}).rows;
  std::map<std::string, nlohmann::json> images;
  for (const auto& row : rows)
    images[row["image"].is_array() ? row["image"][0].get<std::string>() : row["image"].get<std::string>()] = row["image"];
  EXPECT_EQ(images.at((root / "a.png").string()),
            nlohmann::json({(root / "a.png").string(), (root / "a_2.png").string(), (root / "a_10.png").string()}));
  EXPECT_EQ(images.at((root / "deep/c.png").string()), nlohmann::json({(root / "deep/c.png").string(), (root / "deep/c_0.png").string()}));
  // With a caption of its own, or without a picture that it could be of, it is a picture.
  for (const char* name : {"b.png", "b_1.png", "d_1.png", "a_x.png"}) EXPECT_TRUE(images.at((root / name).string()).is_string()) << name;
  EXPECT_EQ(rows.size(), 6u);
}

TEST_F(CaptionedFolder, PicturesUnderTheEndingsOfOtherProgramsAreTaken) {
  for (const char* name : {"a.jfif", "b.jpe", "c.mpo", "d.apng", "e.jpg_large", "F.JFIF"}) file(name);
  testing::internal::CaptureStdout();
  EXPECT_EQ(data::load_metadata(folder, {.class_tokens = "x"}).rows.size(), 6u);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_F(CaptionedFolder, WhatIsPassedOverIsCountedAndNamed) {
  for (const char* name : {"a.png", "b.psd", "c.psd", "d.raw", "a.npz", "notes.md", "a.json"}) file(name, "{}");
  testing::internal::CaptureStdout();
  EXPECT_EQ(data::load_metadata(folder, {.class_tokens = "x"}).rows.size(), 1u);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("3 files are passed over"), HasSubstr("2 .psd, 1 .raw"), HasSubstr("b.psd")));
}

TEST_F(CaptionedFolder, CaptionsAreFoundInCapitalsToo) {
  file("a.PNG");
  file("a.TXT", "a cat");
  file("b.png");
  file("b.JSON", R"({"prompt": "a dog"})");
  EXPECT_THAT(captions(), ElementsAre("a cat", "a dog"));
}

TEST_F(CaptionedFolder, MasksByOneTrainersNamesAreNoPictures) {
  file("a.png");
  file("a.txt", "cat");
  file("a-masklabel.png");
  file("b-masklabel.png");  // of no picture, so one itself
  file("b-masklabel.txt", "label");
  auto m = data::load_metadata(folder);
  ASSERT_EQ(m.rows.size(), 2u);
  EXPECT_TRUE(m.rows[0]["mask"].get<std::string>().ends_with("a-masklabel.png"));
  EXPECT_FALSE(m.rows[1].contains("mask"));
}

TEST_F(CaptionedFolder, AFolderNameWithACountIsTheCaptionOfPicturesWithoutOne) {
  file("3_sks dog/a.png");
  file("3_sks dog/b.png");
  file("3_sks dog/b.txt", "sks dog on a chair");
  EXPECT_THAT(captions(), ElementsAre("sks dog", "sks dog", "sks dog", "sks dog on a chair", "sks dog on a chair", "sks dog on a chair"));
  EXPECT_EQ(data::load_metadata(folder, {.class_tokens = "x"}).rows[0]["prompt"], "x");
}

TEST_F(CaptionedFolder, OneCaptionOrATriggerWordIsForThoseWithoutOne) {
  file("a.png");
  file("b.png");
  file("b.txt", "a dog");
  file("c.png");
  file("c.txt", "");
  file("3_sks dog/d.png");
  EXPECT_THAT(data::load_metadata(folder).bad.at(3),
              AllOf(HasSubstr("a.png has no caption"), HasSubstr("class_tokens"), HasSubstr("trigger_word"), HasSubstr("class_prompt")));
  auto prompts = [&](const data::CaptionFiles& captions) {
    std::set<std::string> all;
    for (const auto& row : data::load_metadata(folder, captions).rows) all.insert(row.value("prompt", "none"));
    return all;
  };
  using Prompts = std::set<std::string>;
  EXPECT_EQ(prompts({.class_tokens = "one for all"}), (Prompts{"", "a dog", "one for all"}));
  EXPECT_EQ(prompts({.trigger_word = "sks"}), (Prompts{"", "a dog", "sks", "sks dog"})) << "the name of a folder says more";
  EXPECT_EQ(prompts({.class_tokens = "one for all", .trigger_word = "sks"}), (Prompts{"", "a dog", "one for all"}));
}

TEST_F(CaptionedFolder, CaptionsAndMasksOfTheOtherNormalFormBelongToTheirPicture) {
  const std::string apart = "cafe\xCC\x81", one = "caf\xC3\xA9";
  file(apart + ".png");
  file(one + ".txt", "a cup");
  file(one + ".mask.png");
  auto m = data::load_metadata(folder);
  ASSERT_EQ(m.rows.size(), 1u);
  EXPECT_EQ(m.rows[0]["prompt"], "a cup");
  EXPECT_EQ(m.rows[0]["mask"], (fs::canonical(folder) / (one + ".mask.png")).string());
}

TEST_F(CaptionedFolder, PicturesThatSteerOthersInOneTrainerAreLeftOut) {
  file("a.png");
  file("a.txt", "cat");
  file("a-condlabel.png");
  testing::internal::CaptureStdout();
  EXPECT_EQ(data::load_metadata(folder).rows.size(), 1u);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), AllOf(HasSubstr("1 picture -condlabel left out"), HasSubstr("a-condlabel.png")));
}
