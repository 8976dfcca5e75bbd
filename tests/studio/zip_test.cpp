// Archives that are dropped on a dataset of a studio, and folders that are linked.
#include <minizip/zip.h>
#include <sys/stat.h>

#include "studio/arrival.h"
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

struct Member {
  std::string name, bytes;
  mode_t mode = S_IFREG | 0644;
};

std::string zipped(const std::vector<Member>& members) {
  Scratch scratch;
  const auto path = (scratch / "made.zip").string();
  auto* file = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  for (const auto& member : members) {
    zip_fileinfo info{};
    info.external_fa = static_cast<uLong>(member.mode) << 16;
    zipOpenNewFileInZip64(file, member.name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, Z_DEFLATED, Z_BEST_SPEED, 1);
    zipWriteInFileInZip(file, member.bytes.data(), static_cast<unsigned>(member.bytes.size()));
    zipCloseFileInZip(file);
  }
  zipClose(file, nullptr);
  return text_of(path);
}

class ZipTest : public DatasetTest {
 protected:
  /// What is answered to an archive, with the status.
  json drop(const std::string& bytes) const {
    auto answer = client().Put("/api/datasets/cats/files/all.zip", {{"Authorization", "Bearer " + token}}, bytes, "application/zip");
    auto value = json::parse(answer->body);
    value["status"] = answer->status;
    return value;
  }
  /// Names of all that lies in the dataset.
  std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder())) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_F(ZipTest, GivesItsPicturesWithWhatBelongsToThem) {
  ASSERT_EQ(put("1.png", picture(8, 8)), 200);
  const auto answer = drop(zipped({{"one/1.png", picture(8, 8)},
                                   {"one/1.txt", "a cat"},
                                   {"one/1-masklabel.png", picture(8, 8)},
                                   {"two\\1.txt", "a dog"},
                                   {"two\\1.png", picture(8, 8)},
                                   {"__MACOSX/one/._1.png", "x"},
                                   {"two/run.sh", "#!/bin/sh"},
                                   {"../../3.png", picture(8, 8)}}));
  EXPECT_EQ(answer, json::parse(R"({"status": 200, "added": 5, "passed_over": ["two/run.sh"]})"));
  EXPECT_EQ(there(), (Names{"1-2-masklabel.png", "1-2.png", "1-2.txt", "1-3.png", "1-3.txt", "1.png"}));
  EXPECT_EQ(text_of(folder() / "1-3.txt"), "a dog");
  EXPECT_FALSE(fs::exists(root() / "3.png") || fs::exists(root() / "datasets/3.png")) << "nothing leads out of the dataset";
}

TEST_F(ZipTest, FollowsNoLinks) {
  const auto answer = drop(zipped({{"a.png", "/etc/passwd", S_IFLNK | 0777}, {"b.png", picture(8, 8)}}));
  EXPECT_EQ(answer["passed_over"], json{"a.png"});
  EXPECT_EQ(there(), Names{"b.png"});
}

TEST_F(ZipTest, LeavesNothingOfAnArchiveThatIsDamaged) {
  auto bytes = zipped({{"a.png", picture(8, 8)}, {"b.png", picture(64, 64) + std::string(5000, 'x')}});
  const auto at = bytes.find("b.png") + 40;
  bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
  auto answer = drop(bytes);
  EXPECT_EQ(answer["status"], 400);
  EXPECT_THAT(answer["sentence"].get<std::string>(), HasSubstr("damaged"));
  EXPECT_THAT(drop("no archive")["sentence"].get<std::string>(), HasSubstr("no zip archive"));
  EXPECT_EQ(there(), Names{});
}

TEST_F(ZipTest, RefusesWhatIsPackedTooWell) {
  const auto answer = drop(zipped({{"a.png", std::string(100 << 20, '\0')}}));
  EXPECT_EQ(answer["status"], 400);
  EXPECT_THAT(answer["sentence"].get<std::string>(), HasSubstr("times as large"));
  EXPECT_EQ(there(), Names{});
}

TEST_F(ZipTest, OfALinkedFolderTheLinkAloneGoes) {
  const auto elsewhere = scratch / "elsewhere";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere / "a.png", std::ios::binary) << picture(8, 8);
  EXPECT_EQ(ask("/api/datasets", json{{"name", "dogs"}, {"folder", elsewhere.string()}})["name"], "dogs");
  EXPECT_EQ(ask("/api/datasets")[1]["folder"], elsewhere.string());
  EXPECT_EQ(ask("/api/datasets/dogs/items").size(), 1u);
  const httplib::Headers headers{{"Authorization", "Bearer " + token}};
  EXPECT_EQ(client().Delete("/api/datasets/dogs/items/a.png", headers)->status, 409);
  EXPECT_EQ(client().Delete("/api/datasets/dogs", headers)->status, 200);
  EXPECT_TRUE(fs::exists(elsewhere / "a.png"));
  EXPECT_EQ(ask("/api/datasets").size(), 1u);
  EXPECT_EQ(ask("/api/datasets", json{{"name", "dogs"}, {"folder", "/nowhere at all"}})["status"], 400);
  EXPECT_EQ(ask("/api/datasets", json{{"name", "dogs"}, {"folder", "elsewhere"}})["status"], 400);
  EXPECT_EQ(remove(""), 200) << "a folder of the workspace goes into its bin";
  EXPECT_TRUE(fs::exists(root() / "bin"));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(ZipTest, OfTwoMembersOfOneNameIsRefusedWhole) {
  const auto answer = drop(zipped({{"a.png", picture(8, 8)}, {"b.png", picture(8, 8)}, {"a.png", picture(16, 16)}}));
  EXPECT_EQ(answer["status"], 400);
  EXPECT_THAT(answer["sentence"].get<std::string>(), HasSubstr("all.zip has two members called a.png"));
  EXPECT_EQ(there(), Names{}) << "nothing is left of it, hidden or not";
}

TEST_F(ZipTest, LeavesNothingWhereAStudioWasKilled) {
  ASSERT_EQ(put("a.png", picture(8, 8)), 200);
  fs::create_directories(folder() / ".arriving-1-2");
  std::ofstream(folder() / ".arriving-1-2/0") << "a member";
  std::ofstream(folder() / ".arriving-1-3") << "an archive";
  std::ofstream(folder() / "b.txt.partial-1") << "a caption";
  studio::remove_arrivals(folder());
  EXPECT_EQ(there(), Names{"a.png"});
}
