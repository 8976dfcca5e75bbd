// Captions and boxes of a folder by a small Florence-2, and that models train on what it writes.
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/families/ideogram4.h"
#include "tests/integration/families/moss_image.h"
#include "tests/integration/processes.h"
#include "tests/integration/program.h"
#include "tests/integration/runs.h"
#include "tests/places.h"

namespace burnish::test {

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A folder with the two pictures that the golden model learned, and one that is damaged.
void fill_for_florence(const Scratch& scratch) {
  fs::create_directories(scratch / "pictures/more");
  fs::copy(golden_path("florence2/pictures/a.png"), scratch / "pictures/a.png");
  fs::copy(golden_path("florence2/pictures/b.png"), scratch / "pictures/more/b.png");
}

std::string by_florence(const Scratch& scratch, const std::string& model = "florence2/model") {
  return "caption " + quoted(scratch / "pictures") + " " + option("model", golden_path(model)) + "--dtype fp32 --num_threads 1 ";
}

nlohmann::json answer_in(const std::string& output) { return nlohmann::json::parse(output.substr(output.find('{'))); }

}  // namespace

TEST(FlorenceCaption, WritesSentencesTagsAndAnswersUnderBothNamesOfItsFiles) {
  Scratch scratch;
  fill_for_florence(scratch);
  scratch.write("pictures/broken.png", "no picture");
  const auto first = run_burnish(by_florence(scratch) + "--trigger_word sks");
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, AllOf(HasSubstr("broken.png has no new caption"), HasSubstr("2 captions written, 1 picture not")));
  EXPECT_EQ(read_file(scratch / "pictures/a.txt"), "sks, A red square hangs on a white wall. It is green.\n");
  EXPECT_EQ(read_file(scratch / "pictures/more/b.txt"), "sks, A blue bar lies over a yellow dot. The wall is green.\n");
  fs::remove(scratch / "pictures/broken.png");
  run_ok(by_florence(scratch, "florence2/original") + "--caption_mode replace --caption_style tags --num_beams 1");
  EXPECT_EQ(read_file(scratch / "pictures/a.txt"), "square, red, wall\n");
  run_ok(by_florence(scratch) + "--caption_mode add --caption_prompt 'What colour is it?' --batch_size 1");
  EXPECT_EQ(read_file(scratch / "pictures/a.txt"), "square, red, wall red\n");
  const auto cut = answer_in(run_ok(by_florence(scratch) + "--caption_mode replace --max_new_tokens 6 --json --only more/b.png"));
  EXPECT_EQ(cut["written"][0]["caption"], "A blue bar li");
  EXPECT_EQ(cut["written"][0]["is_cut"], true);
}

TEST(FlorenceCaption, WritesBoxesInBothFormsAndModelsTrainOnThem) {
  Scratch scratch;
  fill_for_florence(scratch);
  const auto told = answer_in(run_ok(by_florence(scratch) + "--caption_layout elements --caption_prompt '<CAPTION>' --json"));
  EXPECT_EQ(told["written"][0]["num_boxes"], 2);
  EXPECT_EQ(
      read_file(scratch / "pictures/a.txt"),
      R"({"high_level_description":"a red square","compositional_deconstruction":{"background":"","elements":[)"
      R"({"type":"obj","bbox":[200,100,700,500],"desc":"red square"},{"type":"text","bbox":[300,120,400,480],"text":"SALE","desc":"text"}]}})"
      "\n");
  const std::string steps =
      "--lora_rank 2 --max_steps 1 --height 32 --width 32 --num_threads 1 --dataset_base_path " + quoted(scratch / "pictures");
  const auto ideogram = run_ok("train " + ideogram4_model() + steps + " --output_path " + quoted(scratch / "ideogram"));
  EXPECT_THAT(ideogram, Not(HasSubstr("Ideogram 4 was trained with"))) << "every caption is what it expects";
  EXPECT_TRUE(fs::exists(scratch / "ideogram/step-1.safetensors"));

  run_ok(by_florence(scratch) + "--caption_layout items --caption_boxes 'a wall. it' --caption_mode replace --num_beams 1");
  const auto items = nlohmann::json::parse(read_file(scratch / "pictures/a.txt"));
  EXPECT_EQ(items["items"].size(), 2);
  EXPECT_EQ(items["items"][0], nlohmann::json::parse(R"({"label":"object","caption":"a wall","bbox":[-24,-30,23,29]})"));
  EXPECT_EQ(items["bbox_format"], "yxyx");
  run_ok("train " + moss_image_model() + steps + " --output_path " + quoted(scratch / "moss"));
  EXPECT_TRUE(fs::exists(scratch / "moss/step-1.safetensors"));
}

TEST(FlorenceCaption, ABrokenAnswerCostsAPictureItsBoxesAlone) {
  Scratch scratch;
  fill_for_florence(scratch);
  const auto told = run_burnish(by_florence(scratch) + "--caption_layout elements --caption_boxes '<CAPTION>' --json");
  EXPECT_EQ(told.exit_code, 0) << told.output;
  EXPECT_THAT(told.output, HasSubstr("a.png has no boxes: "));
  const auto written = answer_in(told.output)["written"];
  ASSERT_EQ(written.size(), 2);
  EXPECT_THAT(written[0]["boxes_error"].get<std::string>(), HasSubstr("no box was read"));
  EXPECT_EQ(nlohmann::json::parse(read_file(scratch / "pictures/a.txt"))["compositional_deconstruction"]["elements"].size(), 0);
  // A language model of random weights answers no list either.
  const auto random = run_burnish("caption " + quoted(scratch / "pictures") + " " + option("model", golden_path("captions/qwen3_vl")) +
                                  "--dtype fp32 --num_threads 1 --max_new_tokens 6 --caption_layout elements --caption_mode replace");
  EXPECT_EQ(random.exit_code, 0) << random.output;
  EXPECT_THAT(random.output, HasSubstr("a.png has no boxes: "));
  EXPECT_TRUE(nlohmann::json::accept(read_file(scratch / "pictures/a.txt")));
}

TEST(FlorenceCaption, IsAmongTheModelsOfThisMachine) {
  Scratch scratch;
  fs::create_directories(scratch / "models");
  for (const char* folder : {"model", "original"})
    fs::copy(golden_path(std::string("florence2/") + folder), scratch / "models" / folder, fs::copy_options::recursive);
  const auto found = run_burnish("models --json", "cd " + quoted(scratch / "") + " && HF_HOME=" + quoted(scratch / "hub"));
  ASSERT_EQ(found.exit_code, 0) << found.output;
  const auto caption = answer_in(found.output)["caption"];
  ASSERT_EQ(caption.size(), 2) << found.output;
  for (const auto& one : caption) EXPECT_EQ(one["title"], "Florence-2");
}

TEST(FlorenceCaption, RefusesWhatBelongsToOthers) {
  Scratch scratch;
  fill_for_florence(scratch);
  auto refused = [&](const std::string& arguments, const std::string& words) {
    const auto run = run_burnish(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_THAT(run.output, HasSubstr(words));
  };
  refused(by_florence(scratch) + "--temperature 1", "temperature has no effect here: it belongs to Qwen-VL and JoyCaption");
  refused(by_florence(scratch) + "--num_frames 4", "num_frames has no effect here: it belongs to Qwen-VL and taggers");
  refused(by_florence(scratch, "captions/qwen3_vl") + "--num_beams 2", "num_beams has no effect here: it belongs to Florence-2");
  refused(by_florence(scratch) + "--caption_boxes cat", "caption_boxes has no effect here: it belongs to a caption_layout with boxes");
  refused(by_florence(scratch) + "--caption_layout elements --caption_mode add", "makes each caption a whole");
  EXPECT_FALSE(fs::exists(scratch / "pictures/a.txt"));
}

}  // namespace burnish::test
