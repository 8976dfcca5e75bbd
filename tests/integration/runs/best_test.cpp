// Which save of a run is best: planted runs with a save that copies training pictures and one that has drifted away.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/image.h"
#include "records/previews.h"
#include "tests/golden.h"
#include "tests/integration/refused.h"

namespace burnish::test {

namespace {

using ::testing::HasSubstr;

constexpr int kPictures = 4;

class Best : public BadInput {
 protected:
  /// A run of four saves: the second is good, the third draws training pictures, the fourth noise.
  Best() {
    write("run/config.toml", "");
    for (int step : {10, 20, 30, 40}) write(fmt::format("run/step-{}.safetensors", step), "");
    nlohmann::json samples = nlohmann::json::array();
    for (int i = 0; i < kPictures; ++i) {
      const auto file = write_picture(fmt::format("set/{}.png", i), pattern(i, 0));
      samples.push_back({{"row", i}, {"file", file.string()}, {"caption", "a cat"}});
    }
    write("run/visits.jsonl", nlohmann::json{{"step", 0}, {"samples", samples}}.dump() + "\n");
    at::manual_seed(4);
    for (int i = 0; i < kPictures; ++i) {
      preview(0, i, pattern(i, 1.6));
      preview(10, i, pattern(i, 1.3));
      preview(20, i, pattern(i, 0.3));
      preview(30, i, pattern(i, 0));
      preview(40, i, at::randint(256, {64, 64, 3}).to(at::kByte));
    }
  }
  /// Coloured waves; `change` moves them away from the training picture of that number.
  static at::Tensor pattern(int number, double change) {
    const auto x = at::arange(64) / 64.0, y = x.unsqueeze(1);
    const double a = 3 + 2.0 * number + 4 * change, b = 9 - 1.5 * number;
    const auto waves =
        at::stack({(a * x + b * y).sin(), (b * x * (1 + change)).cos().expand({64, 64}), (a * y).sin().expand({64, 64})}, -1);
    return ((waves + 1) * 127).to(at::kByte).contiguous();
  }
  fs::path write_picture(const std::string& name, const at::Tensor& pixels, const std::string& prompt = "") const {
    fs::create_directories(at(name).parent_path());
    data::write_png(at(name), pixels.contiguous(), {{"prompt", prompt}});
    return at(name);
  }
  void preview(int64_t step, int64_t number, const at::Tensor& pixels) const {
    write_picture(records::preview_path("run", step, number).string(), pixels);
  }
  void losses(const std::vector<double>& values) const {
    std::string lines;
    for (size_t i = 0; i < values.size(); ++i) lines += nlohmann::json{{"step", 10 * i}, {"validation_loss", values[i]}}.dump() + "\n";
    write("run/log.jsonl", lines);
  }
  nlohmann::json judged(const std::string& more) const {
    const auto outcome = run_burnish("best " + quoted(at("run")) + " --json --num_threads 1 " + more, "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output);
  }
  static std::string clip() { return option("model", golden_path("likeness/clip")); }
};

nlohmann::json of_step(const nlohmann::json& told, int64_t step) {
  for (const auto& save : told["saves"]) {
    if (save["step"] == step) return save;
  }
  return nullptr;
}

}  // namespace

TEST_F(Best, ASaveThatCopiesAndOneThatDriftedAwayStandBehindTheGoodOne) {
  const auto told = judged(clip());
  EXPECT_EQ(told["take"], 20) << told.dump(1);
  const auto good = of_step(told, 20), copying = of_step(told, 30), noise = of_step(told, 40);
  EXPECT_EQ(copying["copies"], kPictures);
  EXPECT_EQ(good["copies"], 0);
  EXPECT_NEAR(copying["nearest"]["likeness"].get<double>(), 1, 1e-5);
  const auto nearest = copying["nearest"];
  EXPECT_EQ(fs::path(nearest["picture"].get<std::string>()).stem().string(), std::to_string(nearest["preview"].get<int64_t>()));
  EXPECT_GT(good["likeness"].get<double>(), noise["likeness"].get<double>());
  EXPECT_GT(noise["drift"].get<double>(), good["drift"].get<double>());
  EXPECT_EQ(told["saves"][3]["step"], 30) << "it copies";
  EXPECT_TRUE(told["overfitting"].is_null()) << "what came after it copied nothing";
}

TEST_F(Best, ADinoComparesPicturesAndAClipBesideItAnswersAlone) {
  for (int i = 0; i < kPictures; ++i) write_picture(records::preview_path("run", 20, i).string(), pattern(i, 0.3), "a cat");
  const auto dino = option("model", golden_path("likeness/dino"));
  const auto by_clip = judged(clip()), by_dino = judged(dino), by_both = judged(dino + clip());
  EXPECT_EQ(by_dino["seen_by"], "DINOv2");
  EXPECT_EQ(by_both["seen_by"], "DINOv2 and CLIP");
  EXPECT_TRUE(of_step(by_dino, 20)["answer"].is_null());
  EXPECT_EQ(of_step(by_both, 20)["likeness"], of_step(by_dino, 20)["likeness"]);
  EXPECT_NE(of_step(by_both, 20)["likeness"], of_step(by_clip, 20)["likeness"]);
  EXPECT_EQ(of_step(by_both, 20)["answer"], of_step(by_clip, 20)["answer"]);
  EXPECT_EQ(of_step(by_dino, 30)["copies"], kPictures);
}

TEST_F(Best, AnswersAreMeasuredWherePreviewsNameTheirPrompts) {
  EXPECT_TRUE(of_step(judged(clip()), 20)["answer"].is_null());
  for (int i = 0; i < kPictures; ++i) write_picture(records::preview_path("run", 20, i).string(), pattern(i, 0.3), "a cat");
  const auto told = judged(clip());
  EXPECT_TRUE(of_step(told, 20)["answer"].is_number());
  EXPECT_TRUE(of_step(told, 10)["answer"].is_null());
}

TEST_F(Best, OverfittingBeginsWhereTheValidationLossTurns) {
  losses({1, 0.9, 0.7, 0.75, 0.8});
  const auto without = judged("");
  EXPECT_EQ(without["take"], 20);
  EXPECT_TRUE(without["overfitting"].is_null()) << "two looks above the lowest may be chance";
  EXPECT_EQ(without["seen_by"], "");
  EXPECT_THAT(without["missing"].dump(), HasSubstr("nothing looked at the previews"));
  losses({1, 0.7, 0.72, 0.75, 0.8});
  const auto told = judged(clip());
  EXPECT_EQ(told["overfitting"]["after"], 10);
  EXPECT_EQ(told["take"], 10);
  EXPECT_EQ(of_step(told, 20)["is_overfit"], true);
  EXPECT_DOUBLE_EQ(of_step(told, 20)["validation_loss"].get<double>(), 0.72);
}

TEST_F(Best, CopiesUpToTheLastSaveAreOverfittingToo) {
  for (int i = 0; i < kPictures; ++i) preview(40, i, pattern(i, 0));
  const auto told = judged(clip());
  EXPECT_EQ(told["overfitting"]["after"], 20) << told.dump(1);
  EXPECT_EQ(told["overfitting"]["by_copies"], true);
  EXPECT_EQ(told["take"], 20);
}

TEST_F(Best, MemoryShowsBesidePicturesThatTheRunDidNotSee) {
  const auto without = judged(option("model", golden_path("likeness/dino3")));
  EXPECT_EQ(without["seen_by"], "DINOv3");
  EXPECT_TRUE(of_step(without, 30)["memory"].is_null());
  EXPECT_THAT(without["missing"].dump(), HasSubstr("no pictures that the run did not see"));
  std::string rows = "image,prompt\n";
  for (int i = 0; i < kPictures; ++i) {
    write_picture(fmt::format("unseen/{}.png", i), pattern(i, 0.6));
    rows += fmt::format("{}.png,a cat\n", i);
  }
  write("unseen/metadata.csv", rows);
  write("run/config.toml", "validation_metadata_path = \"" + at("unseen/metadata.csv").string() + "\"\n");
  for (const auto& told : {judged(option("model", golden_path("likeness/dino3"))),
                           judged(option("model", golden_path("likeness/dino3")) + option("held_out", at("unseen")))}) {
    EXPECT_EQ(told["num_held_out"], kPictures);
    EXPECT_GT(of_step(told, 30)["memory"].get<double>(), of_step(told, 20)["memory"].get<double>());
    EXPECT_GT(of_step(told, 20)["held_out"].get<double>(), of_step(told, 40)["held_out"].get<double>());
    EXPECT_EQ(of_step(told, 20)["memorises"], false);
    EXPECT_EQ(of_step(told, 30)["memorises"], true) << told.dump(1);
    EXPECT_EQ(told["overfitting"]["after"], 20);
    EXPECT_EQ(told["overfitting"]["by_held_out"], true);
  }
  refused(3, "best " + quoted(at("run")) + " " + clip() + option("held_out", at("nowhere")), {"to take held-out pictures from"});
}

TEST_F(Best, TwoModelsThatComparePicturesAreRefused) {
  refused(
      2, "best " + quoted(at("run")) + " " + option("model", golden_path("likeness/dino")) + option("model", golden_path("likeness/dino3")),
      {"DINOv2 and DINOv3 both compare pictures with pictures"});
}

TEST_F(Best, IsSaidInWordsWithTheFileThatIsTaken) {
  losses({1, 0.9, 0.7, 0.75, 0.8});
  const auto outcome = run_burnish("best " + quoted(at("run")) + " --num_threads 1 " + clip());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* words :
       {"4 saves, previews seen by CLIP beside 4 training pictures", "overfitting was not seen", "4 copies",
        "take step 20: its validation loss is the best of all", "run/step-20.safetensors", "nearer to a training picture than"})
    EXPECT_THAT(outcome.output, HasSubstr(words));
}

TEST_F(Best, PreviewsOfANearbyStepStandForASaveAndPicturesMayLieElsewhere) {
  fs::rename(at("run/samples/step-000020"), at("run/samples/step-000017"));
  fs::rename(at("set"), at("moved"));
  EXPECT_THAT(run_burnish("best " + quoted(at("run")) + " " + clip()).output, HasSubstr("--pictures names their folder"));
  for (int i = 0; i < kPictures; ++i) write(fmt::format("moved/{}.txt", i), "a cat");
  const auto told = judged(clip() + "--pictures " + quoted(at("moved")));
  EXPECT_EQ(of_step(told, 20)["drawn_at"], 17);
  EXPECT_EQ(told["take"], 20);
  fs::remove_all(at("run/samples/step-000010"));
  EXPECT_TRUE(of_step(judged(clip() + "--pictures " + quoted(at("moved"))), 10)["drawn_at"].is_null());
}

TEST_F(Best, RefusesWhatTellsNothing) {
  refused(2, "best", {"run names the folder of one training run, and 0 are named"});
  refused(3, "best " + quoted(at("set")), {"is no folder of a training run"});
  refused(3, "best " + quoted(at("run")), {"nothing tells the saves of", "the run measured no validation loss"});
  refused(3, "best " + quoted(at("run")) + " " + option("model", golden_path("masks/clip_seg")), {"there is no whole CLIP"});
  for (int step : {10, 20, 30, 40}) fs::remove(at(fmt::format("run/step-{}.safetensors", step)));
  refused(3, "best " + quoted(at("run")), {"holds no weights that a run saved"});
}

}  // namespace burnish::test
