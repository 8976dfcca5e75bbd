// Captions of tags: what `burnish caption` writes by a tagger (tests/golden/make_taggers.py).
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/text.h"
#include "tests/golden.h"
#include "tests/integration/refused.h"

namespace burnish::test {

namespace {

using ::testing::HasSubstr;

class Tags : public BadInput {
 protected:
  Tags() {
    fs::create_directories(at("pictures/more"));
    fs::copy(golden_path("captions/pictures/a.png"), at("pictures/a.png"));
    fs::copy(golden_path("captions/pictures/b.png"), at("pictures/more/b.png"));
    fs::copy(golden_path("clips/anim.webp"), at("pictures/moving.webp"));
    write("pictures/there.txt", "mine, long hair\n");
    fs::copy(golden_path("captions/pictures/a.png"), at("pictures/there.png"));
  }
  std::string command(const std::string& more, const std::string& model = "taggers/vit") const {
    return "caption " + quoted(at("pictures")) + " " + option("model", golden_path(model)) + "--num_threads 1 " + more;
  }
  Outcome run(const std::string& more) const {
    auto outcome = run_burnish(command(more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome;
  }
};

nlohmann::json json_in(const std::string& output) { return nlohmann::json::parse(output.substr(output.find('{'))); }

}  // namespace

TEST_F(Tags, AreWrittenWhereNoneAreOfPicturesAndClipsByEachArchitecture) {
  for (const char* model : {"eva02", "vit", "swin_v2", "conv_next"}) {
    for (const char* name : {"pictures/a.txt", "pictures/more/b.txt", "pictures/moving.txt"}) fs::remove(at(name));
    const auto outcome = run_burnish(command("--json --tag_threshold 0.5 --character_threshold 0.5", std::string("taggers/") + model));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto told = json_in(outcome.output);
    ASSERT_EQ(told["written"].size(), 3) << model;
    EXPECT_EQ(told["num_there"], 1);
    for (const auto& one : told["written"]) {
      const auto file = fs::path(one["file"].get<std::string>()).replace_extension(".txt");
      EXPECT_EQ(read_file(file), one["caption"].get<std::string>() + "\n") << model;
      std::vector<std::string> tags;
      for (const auto& tag : one["tags"]) {
        tags.push_back(tag["tag"]);
        EXPECT_GT(tag["likelihood"].get<double>(), 0.5);
      }
      EXPECT_EQ(one["caption"].get<std::string>(), join(tags));
    }
  }
  EXPECT_EQ(read_file(at("pictures/there.txt")), "mine, long hair\n");
}

TEST_F(Tags, AreThoseOfTheNetworkInTheOrderAndSpellingAskedFor) {
  const auto logits = golden("taggers/taggers.safetensors").tensor("vit.a").to(at::kDouble);
  const std::vector<std::string> names{"1girl",    "long_hair", "^_^",          "looking_at_viewer",
                                       "blue_sky", "o_o",       "hatsune_miku", "ayanami_(azur_lane)"};
  std::vector<std::pair<double, std::string>> likely;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto logit = logits[static_cast<int64_t>(i) + 4].item<double>();
    if (logit > 0) likely.emplace_back(i >= 6 ? -100 - logit : -logit, names[i]);
  }
  std::sort(likely.begin(), likely.end());
  std::vector<std::string> expected;
  for (const auto& [order, name] : likely) expected.push_back(name);
  ASSERT_GE(expected.size(), 3) << "the case says nothing";
  run("--only a.png --tag_threshold 0.5 --character_threshold 0.5 --keep_underscores --caption_extension .raw --trigger_word sks "
      "--caption_prefix 'a, b'");
  EXPECT_EQ(read_file(at("pictures/a.raw")), fmt::format("sks, a, b, {}\n", join(expected)));
  run("--only a.png --tag_threshold 0.5 --character_threshold 0.5 --keep_underscores --tags_without '" + expected[0] +
      "' --tag_order alphabetical --tag_rating");
  expected.erase(expected.begin());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(read_file(at("pictures/a.txt")), fmt::format("{}, questionable\n", join(expected)));
}

TEST_F(Tags, AreAddedOnceBehindThoseThatAreThere) {
  run("--caption_mode add --only there.png --tag_threshold 0.01 --trigger_word sks");
  const auto caption = read_file(at("pictures/there.txt"));
  EXPECT_THAT(caption, testing::StartsWith("sks, mine, long hair, ")) << caption;
  EXPECT_EQ(caption.find("long hair", caption.find("long hair") + 1), caption.npos) << caption;
  run("--caption_mode add --only there.png --tag_threshold 0.01 --trigger_word sks");
  EXPECT_EQ(read_file(at("pictures/there.txt")), caption) << "nothing is added twice";
}

TEST_F(Tags, OptionsOfModelsThatWriteAreRefusedAndTheOtherWayRound) {
  refused(2, command("--caption_prompt 'What is it?'"),
          {"caption_prompt has no effect here: it belongs to Qwen-VL, JoyCaption and Florence-2", "ViT tagger"});
  refused(2, command("--tag_rating true", "captions/qwen3_vl"), {"tag_rating has no effect here: it belongs to taggers", "Qwen3-VL"});
  refused(2, command("--tag_threshold 2"), {"tag_threshold"});
  fs::copy(golden_path("taggers/vit"), at("model"));
  fs::remove(at("model/selected_tags.csv"));
  refused(3, "caption " + quoted(at("pictures")) + " --model " + quoted(at("model")), {"no selected_tags.csv beside it"});
}

TEST_F(Tags, TaggersAreAmongTheModelsOfThisMachine) {
  fs::create_directories(at("models"));
  fs::copy(golden_path("taggers/swin_v2"), at("models/swin"), fs::copy_options::recursive);
  const auto found = run_burnish("models --json", "cd " + quoted(at("")) + " && HF_HOME=" + quoted(at("hub")));
  ASSERT_EQ(found.exit_code, 0) << found.output;
  const auto caption = json_in(found.output)["caption"];
  ASSERT_EQ(caption.size(), 1) << found.output;
  EXPECT_EQ(caption[0]["name"], "models/swin");
  EXPECT_EQ(caption[0]["title"], "Swin V2 tagger");
}

}  // namespace burnish::test
