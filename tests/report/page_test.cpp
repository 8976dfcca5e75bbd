#include "report/page.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "io/files.h"
#include "report/run_follower.h"
#include "report/strip.h"
#include "tests/planted_visits.h"
#include "tests/report/fake_run.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace {

std::string link(const std::filesystem::path&, const records::Preview& p) { return std::to_string(p.step); }

report::RunFollower follow(const std::filesystem::path& run) { return {run, "cat", link}; }

/// What the page holds as data: what a browser finds in the element.
json data_in(const std::string& html) {
  const std::string start = "<script type=\"application/json\" id=\"data\">";
  auto from = html.find(start) + start.size();
  return json::parse(html.substr(from, html.find("</script>", from) - from));
}

size_t count(const std::string& text, const std::string& word) {
  size_t number = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++number;
  return number;
}

}  // namespace

TEST(RunFollower, TellsAllThenWhatIsNew) {
  Scratch folder;
  auto run = folder / "run";
  make_run(run, 3);
  auto follower = follow(run);
  auto all = follower.next();
  EXPECT_EQ(all["name"], "cat");
  EXPECT_EQ(all["settings"], json::parse(R"([{"group": "Adapters", "name": "lora_rank", "value": "16", "doc": "rank"}])"));
  EXPECT_EQ(all["log"]["steps"], json({1, 2, 3}));
  EXPECT_EQ(all["log"]["columns"]["loss"], json({1.0, 0.5, 0.3333333}));
  EXPECT_EQ(all["log"]["columns"]["time"][2], 1000000003);
  EXPECT_EQ(all["previews"],
            json::parse(R"([{"step": 0, "number": 0, "url": "0", "prompt": "</script><script>alert('a fox')</script>"}])"));
  EXPECT_TRUE(all["validation"].is_null());
  EXPECT_TRUE(follower.next().is_null());

  append(run / "log.jsonl", log_line(4, 0.25));
  draw_preview(run, 4, "a fox");
  auto news = follower.next();
  EXPECT_FALSE(news.contains("name"));
  EXPECT_EQ(news["log"]["steps"], json({4}));
  EXPECT_EQ(news["previews"], json::parse(R"([{"step": 4, "number": 0, "url": "4", "prompt": "a fox"}])"));
  EXPECT_TRUE(follower.next().is_null());
}

TEST(RunFollower, BeginsAnewWhenTheRunDoes) {
  Scratch folder;
  auto run = folder / "run";
  make_run(run, 3);
  auto follower = follow(run);
  follower.next();
  std::ofstream(run / "log.jsonl") << log_line(1, 1);
  auto all = follower.next();
  EXPECT_EQ(all["name"], "cat");
  EXPECT_EQ(all["log"]["steps"], json({1}));
  EXPECT_EQ(all["previews"].size(), 1u);

  // The same log under other settings: a resumed run that had nothing to cut.
  std::ofstream(run / "config.toml") << "lora_rank = 32\n";
  std::filesystem::last_write_time(run / "config.toml", std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  all = follower.next();
  EXPECT_EQ(all["settings"][0]["value"], "32");
  EXPECT_EQ(all["log"]["steps"], json({1}));
}

TEST(RunFollower, LeavesOutADamagedPictureAndReadsValidation) {
  Scratch folder;
  auto run = folder / "run";
  make_run(run, 1);
  std::ofstream(records::preview_path(run, 0, 1)) << "no picture";
  std::ofstream(run / "validation.json") << R"({"before": 0.5, "after": 0.25})";
  auto all = follow(run).next();
  EXPECT_EQ(all["previews"].size(), 1u);
  EXPECT_EQ(all["validation"]["after"], 0.25);
}

TEST(RunFollower, BringsThePlanOfMemory) {
  Scratch folder;
  auto run = folder / "run";
  make_run(run, 1);
  EXPECT_TRUE(follow(run).next()["plan"].is_null());
  std::ofstream(run / "plan.json") << R"({"bytes": 7, "stages": []})";
  EXPECT_EQ(follow(run).next()["plan"]["bytes"], 7);
}

TEST(RunFollower, TellsWhereARunStandsBeforeItsFirstStep) {
  Scratch folder;
  auto run = folder / "run";
  write_status(run, {.state = records::State::encoding, .stage = "vae", .done = 3, .total = 40, .seconds_left = 9.5});
  auto follower = follow(run);
  auto all = follower.next();
  EXPECT_EQ(all["name"], "cat");
  EXPECT_EQ(all["log"]["steps"], json::array());
  EXPECT_EQ(all["status"]["state"], "encoding");
  EXPECT_EQ(all["status"]["seconds_left"], 9.5);
  EXPECT_EQ(all["status"]["is_running"], true);
  EXPECT_TRUE(follower.next().is_null()) << "nothing is new, and there is no log yet";

  write_status(run, {.state = records::State::encoding, .stage = "vae", .done = 4, .total = 40});
  auto news = follower.next();
  EXPECT_FALSE(news.contains("name"));
  EXPECT_EQ(news["status"]["done"], 4);
  append(run / "log.jsonl", log_line(1, 0.25));
  news = follower.next();
  EXPECT_FALSE(news.contains("status"));
  EXPECT_EQ(news["log"]["steps"], json({1}));

  write_status(run, {.state = records::State::failed, .sentence = "no room", .exit_code = 3});
  news = follower.next();
  EXPECT_EQ(news["status"]["sentence"], "no room");
  EXPECT_EQ(news["status"]["exit_code"], 3);
  EXPECT_TRUE(news["status"]["is_running"].is_null()) << "it has said that it ended";
  std::ofstream(records::status_path(run)) << "{}";
  EXPECT_TRUE(follower.next()["status"].is_null());
  EXPECT_TRUE(follower.next().is_null()) << "what is damaged is left out once";
}

TEST(RunFollower, SeesThatAProcessIsGone) {
  Scratch folder;
  auto child = fork();
  if (child == 0) {
    write_status(folder / "run", {.state = records::State::loading});
    pause();
    _exit(0);
  }
  auto follower = follow(folder / "run");
  json status;
  while (status.is_null()) {
    auto news = follower.next();
    if (news.contains("status")) status = news["status"];
  }
  EXPECT_EQ(status["is_running"], true);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  auto news = follower.next();
  EXPECT_EQ(news["status"]["state"], "loading");
  EXPECT_EQ(news["status"]["is_running"], false);
  EXPECT_TRUE(follower.next().is_null());
}

TEST(Run, IsAFolderWithALogOrAStatus) {
  Scratch folder;
  EXPECT_THAT(error_of([&] { report::check_run(folder / "nowhere", true); }),
              AllOf(HasSubstr("nowhere is not there"), HasSubstr("--output_path")));
  report::check_run(folder.path(), true);
  EXPECT_THAT(error_of([&] { report::check_run(folder.path(), false); }), HasSubstr("holds neither a status.json nor a log.jsonl"));
  EXPECT_THAT(error_of([&] { report::check_run(folder.write("file", "x"), true); }), HasSubstr("file is no folder"));
  EXPECT_THAT(error_of([&] { report::check_run(folder.path(), true); }), HasSubstr("holds neither a status.json nor a log.jsonl"));
  write_status(folder.path(), {});
  report::check_run(folder.path(), false);
}

TEST(Page, HoldsHostileTextAsData) {
  Scratch folder;
  auto run = folder / "run";
  make_run(run, 2);
  append(run / "log.jsonl", "{\"step\": 3, \"</script><b>\": 1, \"\xF0\x9F\xA6\x8A\": 2}\n");
  auto all = follow(run).next();
  all["name"] = "<!--<script>\xFF{{script}}";
  auto html = report::page(json::array({all}), false);
  // The page's own two script elements, and no more.
  EXPECT_EQ(count(html, "<script"), 2u);
  EXPECT_EQ(count(html, "</script"), 2u);
  EXPECT_EQ(count(html, "<!--"), 0u);
  auto found = data_in(html);
  EXPECT_EQ(found["live"], false);
  EXPECT_EQ(found["runs"][0]["previews"], all["previews"]);
  EXPECT_EQ(found["runs"][0]["name"], "<!--<script>\xEF\xBF\xBD{{script}}");
  EXPECT_EQ(found["runs"][0]["log"]["columns"]["</script><b>"], json({nullptr, nullptr, 1.0}));
}

TEST(Page, AsksForNothingFromElsewhere) {
  auto html = report::page(json::array(), true);
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  for (const char* elsewhere : {"https://", "src=\"", "@import", "url(h"}) EXPECT_THAT(html, Not(HasSubstr(elsewhere)));
}

TEST(Report, IsOneFileWithItsPictures) {
  Scratch folder;
  auto run = folder / "cat";
  make_run(run, 3);
  draw_preview(run, 100, "large", 96);
  auto path = report::write_report({.runs = {run.string() + "/"}, .output = "", .picture_size = 48});
  EXPECT_EQ(path, run / "report.html");
  auto found = data_in(content(path));
  EXPECT_EQ(found["runs"][0]["name"], "cat");
  auto url = found["runs"][0]["previews"][0]["url"].get<std::string>();
  EXPECT_THAT(url, StartsWith("data:image/png;base64,iVBORw0KGgo"));  // the signature of PNG
  EXPECT_EQ(url.size() % 4, std::string("data:image/png;base64,").size() % 4);
  url = found["runs"][0]["previews"][1]["url"];
  EXPECT_THAT(url, StartsWith("data:image/webp;base64,UklGR"));  // RIFF
  report::write_report({.runs = {run.string()}, .output = (folder / "as_it_is.html").string(), .picture_size = 0});
  url = data_in(content(folder / "as_it_is.html"))["runs"][0]["previews"][1]["url"];
  EXPECT_THAT(url, StartsWith("data:image/png"));
  draw_clip(run, 100, 1, "a fox that runs");
  report::write_report({.runs = {run.string()}, .output = "", .picture_size = 4});
  auto clip = data_in(content(path))["runs"][0]["previews"][2];
  EXPECT_EQ(clip["prompt"], "a fox that runs");
  EXPECT_THAT(clip["url"].get<std::string>(), StartsWith("data:image/webp;base64,UklGR")) << "as it is, with all of its frames";
}

TEST(Report, NamesThePicturesThatStandOut) {
  Scratch folder;
  make_run(folder / "cat", 3);
  make_run(folder / "dog", 3);
  plant_visits(folder / "cat");
  const auto path =
      report::write_report({.runs = {(folder / "cat").string(), (folder / "dog").string()}, .output = "", .picture_size = 48});
  const auto runs = data_in(content(path))["runs"];
  ASSERT_EQ(runs[0]["stand_out"].size(), 1);
  EXPECT_EQ(runs[0]["stand_out"][0]["file"], "4.png");
  EXPECT_EQ(runs[1]["stand_out"].size(), 0) << "it logged no visits";
}

TEST(Report, TellsRunsOfOneNameApart) {
  Scratch folder;
  make_run(folder / "a/out", 1);
  make_run(folder / "b/out", 1, 32);
  report::write_report({.runs = {(folder / "a/out").string(), (folder / "b/out").string()}, .output = (folder / "r.html").string()});
  auto found = data_in(content(folder / "r.html"));
  EXPECT_EQ(found["runs"][0]["name"], (folder / "a/out").string());
  EXPECT_EQ(found["runs"][1]["settings"][0]["value"], "32");
}

TEST(Page, ClipsPlayInItAndStandAsStrips) {
  using Kind = records::PreviewKind;
  Scratch folder;
  auto run = folder / "run";
  make_run(run, 3);
  draw_clip(run, 2, 0, "webp");
  draw_video(run, 2, 1, Kind::mp4, "mp4");
  draw_video(run, 2, 2, Kind::webm, "webm");
  draw_video(run, 2, 3, Kind::frames, "frames");
  auto path = report::write_report({.runs = {run}, .output = {}, .picture_size = 16});
  auto previews = data_in(content(path))["runs"][0]["previews"];
  ASSERT_EQ(previews.size(), 5u);
  EXPECT_FALSE(previews[0].contains("strip")) << "a picture has none";
  const char* kinds[] = {"image/webp", "video/mp4", "video/webm", "image/webp"};
  for (size_t i = 0; i < 4; ++i) {
    const auto& preview = previews[i + 1];
    EXPECT_EQ(preview["prompt"], std::vector<std::string>({"webp", "mp4", "webm", "frames"})[i]);
    EXPECT_THAT(preview["url"].get<std::string>(), StartsWith(std::string("data:") + kinds[i]));
    EXPECT_THAT(preview["strip"].get<std::string>(), StartsWith("data:image/webp"));
    EXPECT_EQ(preview.contains("video"), i == 1 || i == 2);
  }
  EXPECT_EQ(previews[4]["frames"].size(), 3u);
  EXPECT_EQ(previews[4]["rate"], 8);
}

TEST(Strip, HasFramesFromTheFirstToTheLast) {
  EXPECT_EQ(report::frames_in_strip(1), std::vector<int64_t>{0});
  EXPECT_EQ(report::frames_in_strip(3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(report::frames_in_strip(81), (std::vector<int64_t>{0, 16, 32, 48, 64, 80}));
  Scratch folder;
  auto clip = at::empty({3, 9, 16, 32}, at::TensorOptions().dtype(at::kByte));
  for (int64_t k = 0; k < 9; ++k) clip.select(1, k).fill_(20 * k);
  for (const char* format : {"webp", "mp4", "webm", "png"}) {
    data::write_drawn(folder / "clip", format, clip, 12, {});
    io::write_text_atomic(folder / "strip", report::strip_of(data::drawn_path(folder / "clip", format, true)));
    auto strip = data::decode_image(folder / "strip");
    ASSERT_EQ(strip.sizes(), (std::vector<int64_t>{16, 192, 3})) << format;
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(strip[8][32 * i + 16][0].item<int>(), 20 * report::frames_in_strip(9)[static_cast<size_t>(i)], 5) << format;
  }
}
