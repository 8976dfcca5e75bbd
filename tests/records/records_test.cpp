// What a run leaves behind: log, CSV and where previews lie.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "records/csv_log.h"
#include "records/json_log.h"
#include "records/previews.h"
#include "tests/scratch.h"

using namespace burnish;
using nlohmann::json;
using test::content;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;
using ::testing::Pair;

namespace {

std::string line(int64_t step, double loss) {
  return json{{"step", step}, {"loss", loss}, {"time", 100.0 + static_cast<double>(step)}}.dump() + "\n";
}

void append(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary | std::ios::app) << text; }

}  // namespace

TEST(Record, HoldsNumbersByPathAndNullAsNaN) {
  auto record = records::to_record(json::parse(
      R"({"step": 3, "time": 7.5, "loss": 1, "ema": {"decay": 0.9}, "bins": [{"raw": 2}, {"raw": null}], "note": "x", "on": true})"));
  ASSERT_TRUE(record);
  EXPECT_EQ(record->step, 3);
  EXPECT_EQ(record->time, 7.5);
  EXPECT_THAT(record->values, ElementsAre(Pair("bins/0/raw", 2), Pair("bins/1/raw", IsNan()), Pair("ema/decay", 0.9), Pair("loss", 1)));
}

TEST(Record, IsOnlyAnObjectWithAWholeStep) {
  for (const char* text : {"[1]", "3", "{}", R"({"step": "3"})", R"({"step": 1.5})", R"({"step": null})"})
    EXPECT_FALSE(records::to_record(json::parse(text))) << text;
}

TEST(LogFollower, ReadsWhatCameSince) {
  Scratch folder;
  auto path = folder.write("log.jsonl", line(1, 0.5) + line(2, 0.25));
  records::LogFollower follower(path);
  auto part = follower.next();
  EXPECT_TRUE(part.from_start);
  EXPECT_THAT(part.log.steps, ElementsAre(1, 2));
  EXPECT_THAT(part.log.columns.at("loss"), ElementsAre(0.5, 0.25));
  EXPECT_THAT(part.log.columns.at("time"), ElementsAre(101, 102));

  append(path, line(3, 0.125));
  part = follower.next();
  EXPECT_FALSE(part.from_start);
  EXPECT_THAT(part.log.steps, ElementsAre(3));
  EXPECT_TRUE(follower.next().log.steps.empty());
}

TEST(LogFollower, WaitsForAFileThatIsNotThereYet) {
  Scratch folder;
  records::LogFollower follower(folder / "log.jsonl");
  EXPECT_TRUE(follower.next().from_start);
  EXPECT_FALSE(follower.next().from_start);
  folder.write("log.jsonl", line(1, 0.5));
  auto part = follower.next();
  EXPECT_FALSE(part.from_start);
  EXPECT_THAT(part.log.steps, ElementsAre(1));
}

TEST(LogFollower, LeavesAnUnfinishedLineForLater) {
  Scratch folder;
  auto whole = line(2, 0.25);
  auto path = folder.write("log.jsonl", line(1, 0.5) + whole.substr(0, 9));
  records::LogFollower follower(path);
  auto part = follower.next();
  EXPECT_THAT(part.log.steps, ElementsAre(1));
  EXPECT_EQ(part.log.num_skipped, 0);
  append(path, whole.substr(9));
  EXPECT_THAT(follower.next().log.columns.at("loss"), ElementsAre(0.25));
}

TEST(LogFollower, SkipsAndCountsLinesThatAreNoRecords) {
  Scratch folder;
  auto path = folder.write("log.jsonl", line(1, 0.5) + "{\"step\": 2, \"lo{\"step\"\n[1, 2]\n\n" + line(3, 0.1));
  auto log = records::LogFollower(path).next().log;
  EXPECT_THAT(log.steps, ElementsAre(1, 3));
  EXPECT_EQ(log.num_skipped, 3);
}

TEST(LogFollower, FillsWhatARowLacksWithNaN) {
  Scratch folder;
  auto path = folder.write("log.jsonl", line(1, 0.5) + "{\"step\": 2, \"validation_loss\": 0.75}\n" + line(3, 0.1));
  auto log = records::LogFollower(path).next().log;
  EXPECT_THAT(log.columns.at("loss"), ElementsAre(0.5, IsNan(), 0.1));
  EXPECT_THAT(log.columns.at("validation_loss"), ElementsAre(IsNan(), 0.75, IsNan()));
}

TEST(LogFollower, BeginsAnewWhenTheFileWasCutOrRewritten) {
  Scratch folder;
  auto path = folder.write("log.jsonl", line(1, 0.5) + line(2, 0.25) + line(3, 0.125));
  records::LogFollower follower(path);
  follower.next();
  folder.write("log.jsonl", line(1, 0.5));
  auto part = follower.next();
  EXPECT_TRUE(part.from_start);
  EXPECT_THAT(part.log.steps, ElementsAre(1));

  // As long as before and longer, but another run's.
  folder.write("log.jsonl", line(1, 0.75) + line(2, 0.25));
  part = follower.next();
  EXPECT_TRUE(part.from_start);
  EXPECT_THAT(part.log.columns.at("loss"), ElementsAre(0.75, 0.25));

  std::filesystem::remove(path);
  part = follower.next();
  EXPECT_TRUE(part.from_start);
  EXPECT_TRUE(part.log.steps.empty());
}

TEST(JsonLog, DropsTheLinesOfStepsThatAreTakenAgain) {
  Scratch folder;
  auto path = folder.write("log.jsonl", line(1, 0.5) + line(2, 0.25) + line(3, 0.125) + "{\"step\": 4, \"lo");
  {
    records::JsonLog log(path, 2);
    EXPECT_EQ(content(path), line(1, 0.5) + line(2, 0.25));
    log.write(json::parse(line(3, 7)));
    EXPECT_EQ(content(path), line(1, 0.5) + line(2, 0.25) + line(3, 7)) << "before the log is closed";
  }
  records::JsonLog anew(path, 0);
  EXPECT_EQ(content(path), "");
}

TEST(JsonLog, SaysWhatToDoWhenItCannotWrite) {
  Scratch folder;
  std::filesystem::create_directories(folder / "log.csv");
  EXPECT_THAT(
      error_of([&] { records::AppendFile file(folder / "log.csv"); }),
      AllOf(HasSubstr("cannot write " + (folder / "log.csv").string()), HasSubstr("the last saved state is intact, go on with --resume")));
  records::AppendFile full("/dev/full");
  EXPECT_THAT(error_of([&] { full.write("x"); }), HasSubstr("No space left on device"));
}

TEST(CsvLog, WritesTheColumnsOfTheFirstRecord) {
  Scratch folder;
  auto path = folder / "log.csv";
  records::CsvLog log(path, 0);
  log.write({1, 100.5, {{"loss", 0.1}, {"a,\"b\"", 1e-9}, {"peak_memory_bytes", 6512345088}}});
  log.write({2, 101, {{"peak_memory_bytes", 1}, {"later", 5}, {"loss", std::nan("")}}});
  EXPECT_EQ(content(path), "step,time,loss,\"a,\"\"b\"\"\",peak_memory_bytes\r\n1,100.5,0.1,1e-09,6512345088\r\n2,101,,,1\r\n");
}

TEST(CsvLog, GoesOnAfterTheStepsThatAreKept) {
  Scratch folder;
  auto path = folder / "log.csv";
  {
    records::CsvLog log(path, 0);
    for (int64_t step = 1; step <= 3; ++step) log.write({step, 100, {{"a,b", 0.5}, {"loss", 0.25}}});
  }
  append(path, "4,100,0.");
  {
    records::CsvLog log(path, 2);
    log.write({3, 200, {{"loss", 1}, {"a,b", 2}}});
  }
  EXPECT_EQ(content(path), "step,time,\"a,b\",loss\r\n1,100,0.5,0.25\r\n2,100,0.5,0.25\r\n3,200,2,1\r\n");
  records::CsvLog anew(path, 0);
  anew.write({1, 1, {{"other", 1}}});
  EXPECT_EQ(content(path), "step,time,other\r\n1,1,1\r\n") << "a new run chooses its own columns";
}

TEST(CsvLog, KeepsNothingOfAFileThatIsNotItsOwn) {
  Scratch folder;
  auto path = folder.write("log.csv", "name,size\r\n1,2\r\n");
  records::CsvLog log(path, 5);
  EXPECT_EQ(content(path), "");
}

TEST(Previews, AreFoundByStepThenNumber) {
  Scratch folder;
  for (auto [step, number] : {std::pair{1000, 0}, {200, 11}, {200, 2}, {0, 0}, {1234567, 100}}) {
    auto path = records::preview_path(folder.path(), step, number);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  EXPECT_EQ(records::preview_path("run", 100, 7), "run/samples/step-000100/07.png");
  using Kind = records::PreviewKind;
  for (auto [number, kind] : {std::pair{3, Kind::webp}, {4, Kind::mp4}, {5, Kind::webm}})
    std::ofstream(records::preview_path(folder.path(), 200, number, kind)) << "x";
  EXPECT_TRUE(std::filesystem::exists(folder / "samples/step-000200/03.webp"));
  const auto frames = records::preview_path(folder.path(), 200, 6, Kind::frames);
  std::filesystem::create_directories(frames);
  for (const char* frame : {"00001.png", "00000.png", "notes.txt"}) std::ofstream(frames / frame) << "x";
  for (const char* other : {"samples/0000.png", "samples/step-000200/7.png", "samples/step-000200/03.png.partial-12",
                            "samples/step-x/00.png", "samples/step-000200/08"}) {
    std::filesystem::create_directories((folder / other).parent_path());
    std::ofstream(folder / other) << "x";
  }
  using P = records::Preview;
  EXPECT_THAT(records::find_previews(folder.path()),
              ElementsAre(P{0, 0}, P{200, 2}, P{200, 3, Kind::webp}, P{200, 4, Kind::mp4}, P{200, 5, Kind::webm}, P{200, 6, Kind::frames},
                          P{200, 11}, P{1000, 0}, P{1234567, 100}));
  EXPECT_THAT(records::preview_frames(frames), ElementsAre(frames / "00000.png", frames / "00001.png"));
  EXPECT_TRUE(records::find_previews(folder / "nowhere").empty());
}
