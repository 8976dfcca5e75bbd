// Captions of a folder, by the text encoder of a whole Qwen-Image-Edit and by a Qwen3-VL as a hub has it.
#include <ATen/ops/full.h>
#include <fmt/core.h>

#include "data/image.h"
#include "tests/golden.h"
#include "tests/integration/processes.h"
#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

namespace burnish::test {

namespace {

/// A folder with pictures in a subfolder and a clip, of which one file is damaged, one picture is too long, and one has a caption.
void fill(const Scratch& scratch) {
  fs::create_directories(scratch / "pictures/more");
  for (const char* name : {"a", "b"})
    fs::copy(golden_path(std::string("captions/pictures/") + name + ".png"), scratch / (std::string("pictures/") + name + ".png"));
  fs::copy(golden_path("captions/pictures/c.png"), scratch / "pictures/more/c.png");
  fs::copy(golden_path("clips/anim.webp"), scratch / "pictures/moving.webp");
  scratch.write("pictures/broken.png", "no picture");
  data::write_png(scratch / "pictures/long.png", at::full({2, 500, 3}, 7, at::kByte));
  scratch.write("pictures/there.txt", "a caption of mine\n");
  fs::copy(golden_path("captions/pictures/a.png"), scratch / "pictures/there.png");
}

std::string command(const Scratch& scratch, const std::string& model) {
  return "caption '" + (scratch / "pictures").string() + "' " + option("model", golden_path(model)) +
         "--dtype fp32 --max_new_tokens 6 --frame_pixels 6272 --num_threads 1 ";
}

const std::string kQwenImage = "qwen_edit_pipeline/model", kQwen3Vl = "captions/qwen3_vl", kJoyCaption = "joy_caption/model";

}  // namespace

TEST(Caption, WritesWhatIsMissingBesidePicturesAndClipsAndLosesNothingByADamagedFile) {
  for (const auto& model : {kQwenImage, kQwen3Vl}) {
    Scratch scratch;
    fill(scratch);
    const auto first = run_burnish(command(scratch, model) + "--trigger_word sks");
    EXPECT_EQ(first.exit_code, 0) << first.output;
    for (const char* name : {"a.txt", "b.txt", "more/c.txt", "moving.txt"})
      EXPECT_NE(read_file(scratch / (std::string("pictures/") + name)).find("sks"), std::string::npos) << name;
    EXPECT_FALSE(fs::exists(scratch / "pictures/broken.txt"));
    EXPECT_EQ(read_file(scratch / "pictures/there.txt"), "a caption of mine\n");
    for (const char* says : {"broken.png has no new caption", "long.png has no new caption: a picture is 500 by 2 pixels"})
      EXPECT_NE(first.output.find(says), std::string::npos) << first.output;
    EXPECT_NE(first.output.find("4 captions written, 1 there before, 2 pictures not"), std::string::npos) << first.output;
  }
}

TEST(Caption, FillGoesOnWhereItWasAndReplaceAndAddWriteWhatIsThere) {
  Scratch scratch;
  fill(scratch);
  fs::remove(scratch / "pictures/broken.png");
  fs::remove(scratch / "pictures/long.png");
  const auto whole = command(scratch, kQwen3Vl);
  ASSERT_EQ(run_burnish(whole).exit_code, 0);
  const auto caption = read_file(scratch / "pictures/a.txt");
  scratch.write("pictures/a.txt", "mine\n");
  fs::remove(scratch / "pictures/b.txt");
  const auto again = run_burnish(whole + "--json");
  const auto told = nlohmann::json::parse(again.output.substr(again.output.find('{')));
  ASSERT_EQ(told["written"].size(), 1) << again.output;
  EXPECT_TRUE(told["written"][0]["file"].get<std::string>().ends_with("b.png"));
  EXPECT_EQ(told["num_there"], 4);
  EXPECT_EQ(read_file(scratch / "pictures/a.txt"), "mine\n");
  ASSERT_EQ(run_burnish(whole + "--caption_mode add --caption_style tags --caption_prompt 'Describe it.'").exit_code, 0);
  EXPECT_TRUE(read_file(scratch / "pictures/a.txt").starts_with("mine, "));
  ASSERT_EQ(run_burnish(whole + "--caption_mode replace --batch_size 1").exit_code, 0);
  EXPECT_EQ(read_file(scratch / "pictures/a.txt"), caption);
}

TEST(Caption, AddingGoesOnWhereItWasInterruptedAndAddsToNothingTwice) {
  constexpr int kMany = 300;
  Scratch scratch;
  fs::create_directory(scratch / "pictures");
  auto caption = [&](int i) { return scratch / fmt::format("pictures/{:03}.txt", i); };
  for (int i = 0; i < kMany; ++i) {
    fs::copy(golden_path("captions/pictures/a.png"), fs::path(caption(i)).replace_extension(".png"));
    scratch.write(fmt::format("pictures/{:03}.txt", i), "mine\n");
  }
  const auto add = command(scratch, kQwen3Vl) + "--caption_mode add --batch_size 1 ";
  const auto journal = scratch / "pictures/.burnish-caption.jsonl";
  {
    Running run(quoted(test::kProgram) + " " + add, scratch / "output");
    EXPECT_TRUE(within(200, [&] { return run.has_ended() || read_file(caption(2)) != "mine\n"; })) << run.output();
    run.send(SIGINT);
    ASSERT_TRUE(run.ends_within(60)) << run.output();
    ASSERT_EQ(run.exit_code(), 130) << run.output();
    EXPECT_NE(run.output().find("the same command goes on"), std::string::npos) << run.output();
  }
  ASSERT_EQ(read_file(caption(kMany - 1)), "mine\n") << "it was over before it was interrupted";
  ASSERT_TRUE(fs::exists(journal));
  const auto other = run_burnish(add + "--caption_prompt 'Another question.' --max_new_tokens 1 --json");
  EXPECT_EQ(other.output.find("goes on"), std::string::npos) << "another command begins anew";
  for (int i = 0; i < kMany; ++i) scratch.write(fmt::format("pictures/{:03}.txt", i), "mine\n");
  {
    Running run(quoted(test::kProgram) + " " + add, scratch / "output");
    EXPECT_TRUE(within(200, [&] { return run.has_ended() || read_file(caption(2)) != "mine\n"; })) << run.output();
    run.send(SIGKILL);
    ASSERT_TRUE(run.ends_within(60));
  }
  const auto second = run_burnish(add);
  EXPECT_EQ(second.exit_code, 0) << second.output;
  EXPECT_NE(second.output.find("written by this command before it was interrupted"), std::string::npos) << second.output;
  EXPECT_FALSE(fs::exists(journal));
  const auto expected = read_file(caption(0));
  EXPECT_TRUE(expected.starts_with("mine"));
  for (int i = 1; i < kMany; ++i) EXPECT_EQ(read_file(caption(i)), expected) << i;
}

TEST(Caption, WeightsMayBeHeldInFewBits) {
  Scratch scratch;
  fill(scratch);
  for (const char* format : {"int8", "fp8", "nf4"}) {
    const auto run = run_burnish(command(scratch, kQwen3Vl) + "--caption_mode replace --weight_format " + format);
    EXPECT_EQ(run.exit_code, 0) << run.output;
  }
}

TEST(Caption, JoyCaptionWritesOfPicturesAndFirstFrames) {
  Scratch scratch;
  fill(scratch);
  const auto whole = "caption '" + (scratch / "pictures").string() + "' " + option("model", golden_path(kJoyCaption)) +
                     "--dtype fp32 --max_new_tokens 20 --repetition_penalty 1 --num_threads 1 ";
  const auto told = nlohmann::json::parse([&] {
    const auto first = run_burnish(whole + "--json");
    return first.output.substr(first.output.find('{'));
  }());
  EXPECT_EQ(told["written"].size(), 5U) << "it sees a long picture as well: " << told;
  EXPECT_EQ(told["bad"].size(), 1U) << told;
  // The text of transformers, in one line.
  const auto golden = nlohmann::json::parse(read_file(golden_path("joy_caption/captions.json")))["joy_caption/model"];
  const auto text = golden[1]["texts"][0].get<std::string>();
  ASSERT_EQ(text.find_first_of(" .!?\n"), text.npos) << "the case would be put into one line";
  EXPECT_EQ(read_file(scratch / "pictures/b.txt"), text + "\n");
  EXPECT_EQ(run_burnish(whole + "--caption_mode replace --weight_format int8 --trigger_word sks --only moving.webp").exit_code, 0);
  EXPECT_TRUE(read_file(scratch / "pictures/moving.txt").starts_with("sks, "));
  for (const char* option : {"max_pixels 1000", "frame_pixels 1000", "num_frames 2", "caption_layout elements"}) {
    const auto refused = run_burnish(whole + "--" + option);
    EXPECT_EQ(refused.exit_code, 2) << refused.output;
    EXPECT_NE(refused.output.find("which the JoyCaption is not"), std::string::npos) << refused.output;
  }
}

TEST(Caption, RefusesWhatItCannotDo) {
  Scratch scratch;
  fill(scratch);
  auto refused = [&](const std::string& arguments, int code, const std::string& words) {
    const auto run = run_burnish(arguments);
    EXPECT_EQ(run.exit_code, code) << run.output;
    EXPECT_NE(run.output.find(words), std::string::npos) << run.output;
  };
  refused("caption", 2, "folder names the pictures");
  refused("caption", 2, "model names a Qwen2.5-VL");
  refused(command(scratch, kQwen3Vl) + "--caption_mode delete", 2, "caption_mode");
  refused(command(scratch, kQwen3Vl) + "--top_k 5", 2, "temperature");
  refused(command(scratch, "pipeline/model"), 3, "there is no Qwen2.5-VL");
  refused("caption '" + (scratch / "pictures/a.png").string() + "' " + option("model", golden_path(kQwen3Vl)), 3, "is no folder");
  fs::remove(scratch / "pictures/a.png");
  fs::remove(scratch / "pictures/b.png");
  fs::remove_all(scratch / "pictures/more");
  fs::remove(scratch / "pictures/moving.webp");
  fs::remove(scratch / "pictures/there.txt");
  fs::remove(scratch / "pictures/there.png");
  refused(command(scratch, kQwen3Vl), 3, "none of 2 pictures could be captioned");
}

}  // namespace burnish::test
