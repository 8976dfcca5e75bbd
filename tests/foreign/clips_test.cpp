// Settings of Wan in other programs: which frames of a clip are trained, and which of two experts.
#include <gmock/gmock.h>

#include "foreign/program.h"
#include "tests/foreign/run_options.h"

using namespace burnish;
using foreign::Settings;
using foreign::Value;
using test::RunOptions;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace {

struct Result {
  std::map<std::string, std::string> values;  ///< of options that are not as they are by themselves
  foreign::Import said;
};

Result imported(const foreign::Program& program, const std::string& json) {
  RunOptions options;
  Result result;
  foreign::apply(program.table(), Settings(Value::parse(json)), true, options.fields, result.said);
  static const auto untouched = RunOptions().values();
  for (const auto& [name, text] : options.values()) {
    if (text != untouched.at(name)) result.values[name] = text;
  }
  return result;
}

Result of_musubi(const std::string& more) {
  return imported(foreign::musubi(),
                  R"({"script": "wan_train_network.py", "network_module": "networks.lora_wan", "video_directory": "clips")" + more + "}");
}
Result of_diffusion_pipe(const std::string& dataset, const std::string& more = "") {
  return imported(foreign::diffusion_pipe(),
                  R"({"model": {"type": "wan", "ckpt_path": "w"}, "dataset": {"path": "clips")" + dataset + "}" + more + "}");
}
Result of_ai_toolkit(const std::string& arch, const std::string& dataset, const std::string& model = "") {
  return imported(foreign::ai_toolkit(), R"({"network": {"type": "lora"}, "train": {"noise_scheduler": "flowmatch"}, "model": {"arch": ")" +
                                             arch + "\"" + model + R"(}, "dataset": {"folder_path": "clips")" + dataset + "}}");
}

std::string value(const Result& result, const std::string& option) {
  auto it = result.values.find(option);
  auto text = it == result.values.end() ? "" : it->second;
  return text.starts_with('"') ? Value::parse(text).get<std::string>() : text;
}

}  // namespace

TEST(ClipsOfMusubi, AreTakenAsItTakesThem) {
  auto head = of_musubi(R"(, "target_frames": [34], "source_fps": 30.0)");
  EXPECT_EQ(value(head, "num_frames"), "33") << "1 and a multiple of 4";
  EXPECT_EQ(value(head, "dataset_metadata_path"), "clips");
  EXPECT_EQ(value(head, "frame_extraction") + value(head, "frame_stride") + value(head, "frame_sample"), "");
  EXPECT_EQ(value(head, "lora_target_modules"), "blocks\\.[0-9]+\\..*");
  EXPECT_THAT(head.said.different, Not(Contains(HasSubstr("one by one"))));
  EXPECT_THAT(head.said.not_carried, Not(Contains(HasSubstr("not trained here"))));

  EXPECT_EQ(value(of_musubi(R"(, "target_frames": [17], "frame_extraction": "chunk")"), "frame_extraction"), "chunks");
  auto slide = of_musubi(R"(, "target_frames": [1, 25, 45], "frame_extraction": "slide", "frame_stride": 10, "frame_sample": 7)");
  EXPECT_EQ(value(slide, "num_frames") + " " + value(slide, "frame_stride") + " " + value(slide, "frame_sample"), "45 10 ");
  EXPECT_THAT(slide.said.different, Contains(HasSubstr("give a dataset for each number")));
  EXPECT_THAT(slide.said.different, Contains(HasSubstr("one by one")));
  auto uniform = of_musubi(R"(, "target_frames": [25], "frame_extraction": "uniform")");
  EXPECT_EQ(value(uniform, "frame_extraction") + " " + value(uniform, "frame_sample"), "uniform 1") << "its default, which is not ours";
  auto full = of_musubi(R"(, "target_frames": [25], "frame_extraction": "full", "max_frames": 80)");
  EXPECT_EQ(value(full, "frame_extraction") + " " + value(full, "num_frames"), "whole 77");
}

TEST(ExpertsOfMusubi, AreBothFilesOfTheModel) {
  auto both = of_musubi(R"(, "dit": "low.safetensors", "dit_high_noise": "high.safetensors", "offload_inactive_dit": true)");
  EXPECT_THAT(value(both, "model"), HasSubstr("low.safetensors"));
  EXPECT_THAT(value(both, "model"), HasSubstr("high.safetensors"));
  EXPECT_THAT(of_musubi(R"(, "timestep_boundary": 900)").said.not_carried, Contains(HasSubstr("timestep_boundary = 900: experts meet at")));
}

TEST(ClipsOfDiffusionPipe, AreTakenAsItTakesThem) {
  auto one = of_diffusion_pipe(R"(, "frame_buckets": [1, 33])", R"(, "video_clip_mode": "single_middle")");
  EXPECT_EQ(value(one, "num_frames") + " " + value(one, "frame_extraction"), "33 middle");
  EXPECT_THAT(one.said.not_carried, Not(Contains(HasSubstr("frame_buckets"))));
  EXPECT_THAT(one.said.not_carried, Not(Contains(HasSubstr("model.type"))));
  auto several = of_diffusion_pipe(R"(, "frame_buckets": [1, 33, 65])", R"(, "video_clip_mode": "multiple_overlapping")");
  EXPECT_EQ(value(several, "num_frames") + " " + value(several, "frame_extraction"), "65 chunks");
  EXPECT_THAT(several.said.different, Contains(HasSubstr("not the next of these numbers")));
  EXPECT_THAT(several.said.different, Contains(HasSubstr("without an overlap")));
}

TEST(ClipsOfAiToolkit, AreTakenAsItTakesThem) {
  auto spread = of_ai_toolkit("wan21", R"(, "num_frames": 41)");
  EXPECT_EQ(value(spread, "num_frames") + value(spread, "frame_rate"), "41");
  EXPECT_THAT(spread.said.not_carried, Contains(HasSubstr("frames are spread over the whole clip there")));
  auto at_rate = of_ai_toolkit("wan22_5b", R"(, "num_frames": 41, "shrink_video_to_frames": false, "do_i2v": true)");
  EXPECT_EQ(value(at_rate, "num_frames") + " " + value(at_rate, "frame_rate") + " " + value(at_rate, "extra_inputs"),
            "41 24.0 input_image");
  auto whole = of_ai_toolkit("wan21", R"(, "num_frames": 41, "auto_frame_count": true, "fps": 12)");
  EXPECT_EQ(value(whole, "num_frames") + value(whole, "frame_extraction") + " " + value(whole, "frame_rate"), "whole 12.0");
  EXPECT_EQ(value(of_ai_toolkit("wan21", ""), "num_frames"), "1") << "pictures";
  EXPECT_EQ(value(of_ai_toolkit("flux", ""), "num_frames"), "");
}

TEST(ExpertsOfAiToolkit, AreThoseThatItTrains) {
  auto train = [](const std::string& kwargs) { return of_ai_toolkit("wan22_14b_i2v", "", ", \"model_kwargs\": {" + kwargs + "}"); };
  EXPECT_EQ(value(train(""), "experts"), "");
  EXPECT_EQ(value(train(R"("train_low_noise": false)"), "experts"), "high_noise");
  EXPECT_EQ(value(train(R"("train_high_noise": false)"), "experts"), "low_noise");
  EXPECT_EQ(value(train(""), "extra_inputs"), "input_image");
  EXPECT_THAT(train(R"("train_low_noise": false)").said.not_carried, Not(Contains(HasSubstr("model_kwargs"))));
}
