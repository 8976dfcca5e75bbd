// InfiniteTalk in the whole program: beside its formulas in torch, diffusers and peft (tests/golden/make_wan_talk.py), and in all ways of
// running it.
#include <gmock/gmock.h>

#include "tests/integration/wan/wan_kinds.h"
#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kTalk = golden_path("wan_talk"), kSpoken = golden_path("wan_speech/sounds");
const std::string kSpeaking = "--extra_inputs input_image,input_audio ";
const std::string kAllAdded = "--trainable_models 'dit.audio_proj,dit.blocks.*.audio_cross_attn,dit.blocks.*.norm_x' ";
const std::string kSpokenAdapter = "--lora_base_model dit --lora_rank 4 ";

class WanTalk : public WanRun {
 protected:
  static std::string data(const fs::path& metadata = kTalk / "metadata.csv") {
    return option("dataset_metadata_path", metadata) + "--height 48 --width 64 --num_frames 5 --frame_rate 10 ";
  }
  /// Ten steps by the draws of the golden file.
  void steps(const std::string& name, const std::string& more) const {
    ok("train --max_steps 10 --learning_rate 1e-3 --loss_weighting uniform --overwrite " + option("replay", kTalk / "replay.safetensors") +
       option("output_path", at("replayed")) + wan_talk_model() + data() + kSpeaking + more);
    auto log = read_log(at("replayed"));
    expect_logged(log, "loss", expected_in(kTalk).tensor(name + ".loss"), 3e-6);
    expect_logged(log, "grad_norm", expected_in(kTalk).tensor(name + ".grad_norm"), 1e-4);
  }
  static std::string what(const std::string& more) {
    return wan_talk_model() + option("reference", kGolden / "pictures/0.png") + option("input_audio", kSpoken / "0.wav") + more;
  }
  at::Tensor drawn(const std::string& more) const { return latents_of(kTalk, what(more)); }
};

}  // namespace

TEST_F(WanTalk, TrainsAnAdapterOfAllAttention) { steps("lora", option("lora_checkpoint", kTalk / "lora.safetensors")); }

TEST_F(WanTalk, TrainsAllThatIsAdded) {
  steps("added", kAllAdded);
  steps("added", kAllAdded + "--use_gradient_checkpointing ");
}

TEST_F(WanTalk, DrawsAPictureThatSpeaks) {
  const auto expected = expected_in(kTalk);
  EXPECT_LE(relative_error(drawn("--audio_cfg_scale 1 "), expected.tensor("plain")), tolerance(1e-5));
  EXPECT_LE(relative_error(drawn("--audio_cfg_scale 3 "), expected.tensor("heard")), tolerance(1e-5)) << "away from silence alone";
  EXPECT_LE(relative_error(drawn("--audio_cfg_scale 3 --cfg_scale 2 --negative_prompt cat "), expected.tensor("guided")), tolerance(1e-5))
      << "away from a text and from silence";
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
}

TEST_F(WanTalk, IsEqualLiveAndSplitAndPaged) {
  auto live = trained("live", wan_talk_model() + data() + kSpeaking + kSpokenAdapter);
  ok("train --task sft:data_process " + wan_talk_model() + data() + kSpeaking + option("output_path", at("cache")));
  const auto transformer =
      option("model", golden_path("wan_image/transformer")) + option("model", kTalk / "infinitetalk.safetensors") + "--dtype fp32 ";
  EXPECT_EQ(trained("split", "--task sft:train " + transformer + option("dataset_base_path", at("cache")) + kSpeaking + kSpokenAdapter),
            live);
  EXPECT_EQ(trained("paged", wan_talk_model() + data() + kSpeaking + kSpokenAdapter + "--use_gradient_checkpointing_offload "), live);
}

/// What trained whole is a file of what is added, which stands for the one that it began with.
TEST_F(WanTalk, WhatTrainedIsReadInPlaceOfWhatWasAdded) {
  ok("train --max_steps 3 --learning_rate 1e-3 " + option("output_path", at("whole")) + wan_talk_model() + data() + kSpeaking + kAllAdded);
  auto written = io::TensorSource::open({at("whole") / "step-3.safetensors"});
  auto before = io::TensorSource::open({kTalk / "infinitetalk.safetensors"});
  EXPECT_EQ(written.names(), before.names());
  const fs::path of_image = golden_path("wan_image");
  const auto model = wan_parts(
      {of_image / "transformer", at("whole") / "step-3.safetensors", of_image / "image_encoder", fs::path(golden_path("wav2vec2_base"))});
  const auto given = option("reference", kGolden / "pictures/0.png") + option("input_audio", kSpoken / "0.wav") + "--audio_cfg_scale 1 ";
  EXPECT_GT(relative_error(latents_of(kTalk, model + given), expected_in(kTalk).tensor("plain")), 1e-4);
}

TEST_F(WanTalk, OneFileHasTheTransformerAndWhatIsAdded) {
  fs::create_directories(at("one"));
  fs::copy(golden_path("wan_image/transformer/config.json"), at("one/config.json"));
  auto live = trained("live", wan_talk_model() + data() + kSpeaking + kSpokenAdapter);
  ok("convert " + quoted(fs::path(golden_path("wan_image/transformer"))) + " " + quoted(kTalk / "infinitetalk.safetensors") + " " +
     quoted(at("one/wan.safetensors")));
  EXPECT_THAT(ok("inspect " + quoted(at("one/wan.safetensors"))), HasSubstr("InfiniteTalk"));
  const auto model =
      wan_parts({at("one/wan.safetensors"), fs::path(golden_path("wan_image/image_encoder")), fs::path(golden_path("wav2vec2_base"))});
  EXPECT_EQ(trained("of_one", model + data() + kSpeaking + kSpokenAdapter), live);
}

TEST_F(WanTalk, AdaptersAreReadInTheNamesOfOthers) {
  auto theirs = io::TensorSource::open({kTalk / "lora.safetensors"});
  for (const char* format : {"diffusers", "kohya", "comfyui", "diffsynth"}) {
    const auto written = at(std::string(format) + ".safetensors"), back = at(std::string("back_") + format + ".safetensors");
    const auto beside = " " + option("model", golden_path("wan_image/transformer")) + option("model", kTalk / "infinitetalk.safetensors");
    ok("convert " + quoted(kTalk / "lora.safetensors") + " " + quoted(written) + " --lora_format " + format + beside);
    ok("convert " + quoted(written) + " " + quoted(back) + " --lora_format diffusers " + beside);
    auto again = io::TensorSource::open({back});
    for (const auto& name : theirs.names()) {
      if (!name.ends_with(".alpha")) {
        ASSERT_TRUE(again.contains(name)) << format << " " << name;
      }
    }
  }
}

TEST_F(WanTalk, RefusesWhatItCannotDo) {
  refused(2, "train " + wan_talk_model() + data() + "--lora_rank 4 --extra_inputs input_audio " + option("output_path", out()),
          {"InfiniteTalk goes on from a picture", "input_image"});
  refused(2, drawing_of(kTalk, wan_talk_model() + option("reference", kGolden / "pictures/0.png")),
          {"this model hears a sound", "--input_audio"});
  refused(2,
          "train " + wan_talk_model() + option("dataset_metadata_path", kTalk / "metadata.csv") +
              "--height 48 --width 64 --num_frames 1 --frame_rate 10 --lora_rank 4 --extra_inputs input_image " +
              option("output_path", out()),
          {"no other that could be predicted"});
  const fs::path of_image = golden_path("wan_image");
  const auto narrow = of_two_layers(golden_path("wav2vec2_base"), at("narrow"));
  refused(3,
          "train " + wan_parts({of_image / "transformer", kTalk / "infinitetalk.safetensors", of_image / "image_encoder", narrow}) +
              data() + kSpeaking + "--lora_rank 4 " + option("output_path", out()),
          {"2 states 16 wide behind its layers", "48 numbers"});
  refused(3,
          "train " + wan_parts({kWan / "model/transformer", kTalk / "infinitetalk.safetensors", fs::path(golden_path("wav2vec2_base"))}) +
              data() + "--lora_rank 4 " + option("output_path", out()),
          {"belong to different models"});
  refused(2, "train " + wan_model() + wan_clips() + "--lora_rank 4 --audio_cfg_scale 3 " + option("output_path", out()),
          {"audio_cfg_scale", "it is of InfiniteTalk"});
}
