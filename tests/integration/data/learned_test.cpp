// What a run says of each picture: planted ones that are none of the set stand out by their losses.
#include <gmock/gmock.h>

#include "data/image.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::ElementsAre;

namespace {

const std::vector<std::string> kSwapped{"cactus", "crown", "guitar", "lemon"};

class Learned : public BadInput {
 protected:
  Learned() {
    fs::copy(fs::path(test::kCheckout) / "assets/demo-pictures", at("set"));
    at::manual_seed(3);
    plant("noise", at::randint(256, {192, 192, 3}));
    const auto x = at::arange(192) / 192.0, y = x.unsqueeze(1);
    const auto waves = at::stack({(9 * x + 3 * (7 * y).sin()).sin(), (11 * y + 2 * (5 * x).cos()).sin(), (6 * (x + y)).cos()}, -1);
    plant("waves", (waves + 1) * 127);
  }
  void plant(const std::string& name, const at::Tensor& pixels_HW3) const {
    data::write_png(at("set") / (name + ".png"), pixels_HW3.to(at::kByte).contiguous());
    write("set/" + name + ".txt", "a picture of another set");
  }
  /// Gives each of four pictures the caption of the next.
  void swap_captions() const {
    for (size_t i = 0; i < kSwapped.size(); ++i) write("set/" + kSwapped[i] + ".txt", kSwapped[(i + 1) % kSwapped.size()]);
  }
  /// Asks the model before it trains.
  nlohmann::json asked(const std::string& question) const {
    write("run.toml", "model = [\"" + fs::path(kAssets).string() + "\"]\ndataset_base_path = \"" + at("set").string() +
                          "\"\nheight = 192\nwidth = 192\ndtype = \"fp32\"\nlora_rank = 4\ncaption_dropout = 0.5\n");
    const auto said = run_burnish("data --settings " + quoted(at("run.toml")) + " --json " + question);
    EXPECT_EQ(said.exit_code, 0) << said.output;
    return nlohmann::json::parse(said.output.substr(said.output.find('{')));
  }
  std::string words(const std::string& run, int max_steps) const {
    return "train --model " + quoted(kAssets) + " --dataset_metadata_path " + quoted(at("set")) +
           " --height 96 --width 96 --lora_rank 16 --learning_rate 1e-3 --dtype fp32 --save_steps 100 --max_steps " +
           std::to_string(max_steps) + " --output_path " + quoted(at(run));
  }
};
using LearnedFrom = Learned;

}  // namespace

TEST_F(LearnedFrom, PicturesOfAnotherSetStandOut) {
  const auto trained = run_burnish(words("run", 390));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto said = run_burnish("data --from_run " + quoted(at("run")) + " --json");
  ASSERT_EQ(said.exit_code, 0) << said.output;
  const auto samples = nlohmann::json::parse(said.output).at("samples");
  ASSERT_EQ(samples.size(), 26);
  std::vector<std::string> badly, first;
  for (const auto& sample : samples) {
    const auto name = fs::path(sample.at("file").get<std::string>()).stem().string();
    if (sample.at("stands_out") == "badly") badly.push_back(name);
    if (first.size() < 2) first.push_back(name);
    EXPECT_EQ(sample.at("visits"), 15) << name;
  }
  EXPECT_THAT(first, testing::UnorderedElementsAre("noise", "waves"));
  EXPECT_THAT(badly, testing::SizeIs(testing::AllOf(testing::Ge(1), testing::Le(4)))) << "good pictures are hard now and then";
  const auto text = run_burnish("data --from_run " + quoted(at("run")) + " --num_samples 1").output;
  EXPECT_THAT(text, testing::HasSubstr("26 samples, 390 visits")) << text;
}

TEST_F(LearnedFrom, WrongCaptionsSayLittleOfTheirPictures) {
  swap_captions();
  for (const char* name : {"noise", "waves"}) {
    fs::remove(at("set") / (std::string(name) + ".png"));
    fs::remove(at("set") / (std::string(name) + ".txt"));
  }
  const auto json = asked("--compare_captions 4");
  EXPECT_EQ(json.at("tells_apart"), true);
  std::vector<std::string> little;
  for (const auto& sample : json.at("samples")) {
    if (sample.at("says_little") == true) little.push_back(fs::path(sample.at("file").get<std::string>()).stem().string());
  }
  EXPECT_THAT(little, testing::IsSupersetOf(kSwapped)) << json.dump(1);
  EXPECT_LE(little.size(), kSwapped.size() + 1) << json.dump(1);
}

TEST_F(LearnedFrom, PicturesThatTeachSomethingElseAreNamedBeforeTraining) {
  swap_captions();
  auto planted = kSwapped;
  planted.insert(planted.end(), {"noise", "waves"});
  const auto json = asked("--compare_gradients");
  ASSERT_EQ(json.at("samples").size(), 26);
  std::vector<std::string> named;
  for (const auto& sample : json.at("samples")) {
    if (sample.at("pulls_elsewhere") == true) named.push_back(fs::path(sample.at("file").get<std::string>()).stem().string());
  }
  EXPECT_THAT(named, testing::IsSupersetOf(planted)) << json.dump(1);
  EXPECT_LE(named.size(), planted.size() + 1) << json.dump(1);
  refused(2, "data --compare_gradients", {"name its settings with --settings run.toml"});
}

TEST_F(Learned, ARunThatGoesOnLogsEachVisitOnce) {
  for (const char* run : {"whole", "parts"}) ASSERT_EQ(run_burnish(words(run, run == std::string("whole") ? 8 : 5)).exit_code, 0);
  const auto rest = run_burnish(words("parts", 8) + " --resume");
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_EQ(read_file(at("parts") / "visits.jsonl"), read_file(at("whole") / "visits.jsonl"));
}

TEST_F(Learned, ARunWithoutVisitsIsNamed) {
  refused(3, "data --from_run " + quoted(at("set")), {"set has no visits.jsonl"});
  write("set/visits.jsonl", "{\"step\": 1, \"visits\": []}\n");
  refused(3, "data --from_run " + quoted(at("set")), {"has 0 visits, and none at the noise of another"});
}
