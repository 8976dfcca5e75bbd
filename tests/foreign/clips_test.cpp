// Settings of Wan in other programs: which frames of a clip are trained, and which of two experts.
#include <gmock/gmock.h>

#include "tests/foreign/imported.h"

using namespace burnish;
using foreign::Settings;
using foreign::Value;
using test::Imported;
using test::imported;
using test::RunOptions;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

namespace {

Imported of_musubi(const std::string& more) {
  return imported(foreign::musubi(),
                  R"({"script": "wan_train_network.py", "network_module": "networks.lora_wan", "video_directory": "clips")" + more + "}");
}
Imported of_diffusion_pipe(const std::string& dataset, const std::string& more = "") {
  return imported(foreign::diffusion_pipe(),
                  R"({"model": {"type": "wan", "ckpt_path": "w"}, "dataset": {"path": "clips")" + dataset + "}" + more + "}");
}
Imported of_ai_toolkit(const std::string& arch, const std::string& dataset, const std::string& model = "") {
  return imported(foreign::ai_toolkit(), R"({"network": {"type": "lora"}, "train": {"noise_scheduler": "flowmatch"}, "model": {"arch": ")" +
                                             arch + "\"" + model + R"(}, "dataset": {"folder_path": "clips")" + dataset + "}}");
}

std::string value(const Imported& result, const std::string& option) {
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
  EXPECT_THAT(both.said.different, Contains(HasSubstr("one network is trained on both models there, and here one on each")));
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

TEST(ExpertsOfAiToolkit, TakeTurnsThereAndNotHere) {
  auto both = of_ai_toolkit("wan22_14b", "", R"(, "model_kwargs": {"train_high_noise": true, "train_low_noise": true})");
  EXPECT_EQ(value(both, "experts"), "");
  EXPECT_EQ(value(both, "lora_base_model"), "dit") << "which means both";
  EXPECT_THAT(both.said.not_carried, Contains(HasSubstr("switch_boundary_every (its default) = 1: experts take turns there")));
  EXPECT_THAT(of_ai_toolkit("flux", "").said.not_carried, Not(Contains(HasSubstr("switch_boundary_every"))));
  EXPECT_THAT(of_ai_toolkit("wan22_14b", "", R"(, "model_kwargs": {"train_high_noise": false})").said.not_carried,
              Not(Contains(HasSubstr("switch_boundary_every"))));
}

TEST(KindsOfAiToolkit, MayHaveAVariant) {
  for (const std::string arch : {"zimage:turbo", "zimage:deturbo", "qwen_image:2512", "qwen_image_edit_plus:2511", "wan22_14b:t2v"}) {
    auto arranged = foreign::ai_toolkit().arrange(
        Value{{"config", {{"name", "x"}, {"process", {{{"type", "sd_trainer"}, {"model", {{"arch", arch}}}}}}}}},
        [](const std::string&) { return Value(); });
    RunOptions options;
    foreign::Import said;
    foreign::apply(foreign::ai_toolkit().table(), Settings(arranged.tree), true, options.fields, said);
    EXPECT_THAT(said.not_carried, Not(Contains(HasSubstr("model.arch")))) << arch;
  }
}

TEST(FramesThatAModelGoesOnFrom, AreColumnsOfTheRun) {
  auto of_task = [](const std::string& task) { return value(of_musubi(R"(, "task": ")" + task + "\""), "extra_inputs"); };
  EXPECT_EQ(of_task("i2v-A14B") + " " + of_task("i2v-14B") + " " + of_task("t2v-14B"), "input_image input_image ");
  EXPECT_EQ(of_task("flf2v-14B"), "input_image,end_image");
  auto of_pipe = [](const std::string& path) {
    return value(imported(foreign::diffusion_pipe(), R"({"model": {"type": "wan", "ckpt_path": ")" + path + R"("}})"), "extra_inputs");
  };
  EXPECT_EQ(of_pipe("Wan2.1-I2V-14B-480P") + " " + of_pipe("Wan2.2-TI2V-5B") + of_pipe("Wan2.1-T2V-14B"), "input_image ");
  auto of_flavour = [](const std::string& flavour) {
    return imported(foreign::simpletuner(), R"({"model_family": "wan", "model_type": "lora", "model_flavour": ")" + flavour + R"("})");
  };
  auto high = of_flavour("i2v-14b-2.2-high");
  EXPECT_EQ(value(high, "extra_inputs") + " " + value(high, "experts"), "input_image high_noise");
  EXPECT_THAT(high.said.different, Contains(HasSubstr("SimpleTuner loads transformer_2")));
  EXPECT_EQ(value(of_flavour("i2v-14b-2.2-low"), "experts"), "low_noise");
  EXPECT_EQ(value(of_flavour("flf2v-14b-2.1"), "extra_inputs") + value(of_flavour("t2v-480p-1.3b-2.1"), "extra_inputs"),
            "input_image,end_image");
}

TEST(ExpertsOfDiffusionPipe, AreThoseOfTheTransformersPath) {
  auto of_path = [](const std::string& path) {
    return imported(foreign::diffusion_pipe(), R"({"model": {"type": "wan", "ckpt_path": "A14B", "transformer_path": ")" + path + R"("}})");
  };
  EXPECT_EQ(value(of_path("A14B/low_noise_model"), "experts"), "low_noise");
  EXPECT_EQ(value(of_path("A14B/high_noise_model"), "experts"), "high_noise");
  EXPECT_EQ(value(of_path("x.safetensors"), "experts"), "");
}

TEST(TimesOfMusubi, AreDrawnByTheSchemeUnderSigma) {
  for (const std::string scheme : {"logit_normal", "mode"})
    EXPECT_EQ(value(of_musubi(R"(, "weighting_scheme": ")" + scheme + "\""), "timestep_sampling"), scheme);
  EXPECT_EQ(value(of_musubi(R"(, "weighting_scheme": "mode", "timestep_sampling": "shift")"), "timestep_sampling"), "shift");
  EXPECT_EQ(value(of_musubi(R"(, "weighting_scheme": "cosmap")"), "timestep_sampling"), "sigma");
}

TEST(BucketsOfMusubi, ScaleSmallPicturesUp) {
  auto buckets = of_musubi(R"(, "resolution": [960, 544], "enable_bucket": true)");
  EXPECT_EQ(value(buckets, "enable_bucket") + " " + value(buckets, "bucket_no_upscale"), "true false");
  EXPECT_EQ(value(buckets, "min_bucket_reso") + " " + value(buckets, "max_bucket_reso") + " " + value(buckets, "bucket_reso_steps"),
            "352 1440 16");
  EXPECT_THAT(value(buckets, "resolution"), HasSubstr("960,544"));
  auto as_they_are = of_musubi(R"(, "resolution": [960, 544], "enable_bucket": true, "bucket_no_upscale": true)");
  EXPECT_EQ(value(as_they_are, "enable_bucket") + " " + value(as_they_are, "max_pixels"), " 522240");
}
