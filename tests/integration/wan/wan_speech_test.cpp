// Wan-S2V in the whole program: beside DiffSynth-Studio's own code (tests/golden/make_wan_speech.py), and in all ways of running it.
#include <gmock/gmock.h>

#include "tests/integration/wan/wan_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kSpeech = golden_path("wan_speech"), kSpeechClips = golden_path("wan_image/clips");
const std::string kAllColumns = "--extra_inputs input_image,input_audio,s2v_pose_video ";

class WanSpeech : public WanRun {
 protected:
  static std::string model(const fs::path& encoder = golden_path("wav2vec2")) { return wan_parts({kSpeech / "transformer", encoder}); }
  static std::string data(const fs::path& metadata = kSpeech / "sounds/metadata.csv") {
    return option("dataset_metadata_path", metadata) + "--height 48 --width 64 --num_frames 5 --frame_rate 10 ";
  }
  /// Clips of the golden folder with these columns.
  fs::path metadata(const std::string& name, const std::string& columns, const std::vector<std::string>& rows) const {
    std::string text = columns + "\n";
    for (const auto& row : rows) text += row + "\n";
    return write(name, text);
  }
  void steps(const std::string& name, const std::string& more) const {
    expect_replayed(kSpeech, kSpeech / "replay.safetensors", name, model() + data() + kAllColumns + more);
  }
  std::string what(const std::string& more) const { return model() + option("reference", kGolden / "pictures/0.png") + more; }
  at::Tensor drawn(const std::string& more) const {
    const auto poses = faster(kSpeechClips / "1.gif", "poses.gif");
    return latents_of(kSpeech, what(option("input_audio", kSpeech / "sounds/0.wav") + option("s2v_pose_video", poses) + more));
  }
};

const std::string kAdapter = "--lora_base_model dit --lora_target_modules q,k,v,o,ffn.0,ffn.2 --lora_rank 4 ";

}  // namespace

TEST_F(WanSpeech, TrainsAnAdapterOfAllAttention) { steps("lora", option("lora_checkpoint", kSpeech / "lora.safetensors")); }

TEST_F(WanSpeech, TrainsWhatHearsAndWhatIsAdded) {
  const std::string parts = "--trainable_models dit.cond_encoder,dit.casual_audio_encoder,dit.audio_injector,dit.trainable_cond_mask ";
  steps("injector", parts);
  steps("injector", parts + "--use_gradient_checkpointing --overwrite ");
}

TEST_F(WanSpeech, DrawsAPictureThatSpeaks) {
  EXPECT_LE(relative_error(drawn(""), expected_in(kSpeech).tensor("plain")), tolerance(1e-5));
  EXPECT_LE(relative_error(drawn("--cfg_scale 2 --negative_prompt cat "), expected_in(kSpeech).tensor("guided")), tolerance(1e-5))
      << "away from what is silent";
  EXPECT_TRUE(fs::exists(at("drawn") / "0000.webp"));
}

TEST_F(WanSpeech, IsEqualLiveAndSplitAndPagedAndByAFolderOfItsOwn) {
  auto live = trained("live", model() + data() + kAllColumns + kAdapter);
  ok("train --task sft:data_process " + model() + data() + kAllColumns + option("output_path", at("cache")));
  EXPECT_EQ(trained("split", "--task sft:train --dtype fp32 " + option("model", kSpeech / "transformer") +
                                 option("dataset_base_path", at("cache")) + kAllColumns + kAdapter),
            live);
  EXPECT_EQ(trained("paged", model() + data() + kAllColumns + kAdapter + "--use_gradient_checkpointing_offload "), live);
  fs::create_directories(at("folder"));
  fs::copy(kSpeech / "transformer", at("folder"), fs::copy_options::recursive);
  fs::copy(golden_path("wav2vec2"), at("folder/wav2vec2-large-xlsr-53-english"), fs::copy_options::recursive);
  EXPECT_EQ(trained("of_folder", option("model", at("folder")) + option("model", kWan / "model/text_encoder") +
                                     option("model", kWan / "model/vae") + option("tokenizer_path", kWan / "model/tokenizer") +
                                     "--dtype fp32 " + data() + kAllColumns + kAdapter),
            live);
  EXPECT_THAT(ok("inspect " + quoted(at("folder"))), HasSubstr("wav2vec2 encoder"));
}

TEST_F(WanSpeech, HearsTheClipItselfWhereNoFileIsNamed) {
  auto sound = fs::path(golden_path("clips/sound.mp4")).string(), wav = fs::path(golden_path("clips/sound.wav")).string();
  const std::string size = "--height 32 --width 64 --num_frames 5 --extra_inputs input_image";
  auto run = [&](const std::string& name, const std::string& columns, const std::string& row, const std::string& more) {
    return trained(name, model() + option("dataset_metadata_path", metadata(name + ".csv", columns, {row})) + size + more + " " + kAdapter);
  };
  auto own = run("own", "video,prompt", sound + ",red apple", "");
  EXPECT_EQ(run("named", "video,input_audio,prompt", sound + "," + sound + ",red apple", ",input_audio"), own);
  EXPECT_NE(run("other", "video,input_audio,prompt", sound + "," + (kSpeech / "sounds/1.wav").string() + ",red apple", ",input_audio"),
            own);
}

TEST_F(WanSpeech, SettingsOfWhatHearsAreRead) {
  auto normalized = trained("normalized", model() + data() + kAllColumns + kAdapter);
  write("processor/preprocessor_config.json", R"({"do_normalize": true, "sampling_rate": 16000})");
  const auto processor = option("audio_processor_path", at("processor"));
  EXPECT_EQ(trained("same", model() + data() + kAllColumns + kAdapter + processor), normalized);
  write("processor/preprocessor_config.json", R"({"do_normalize": false, "sampling_rate": 16000})");
  EXPECT_NE(trained("as_it_is", model() + data() + kAllColumns + kAdapter + processor), normalized);
  write("processor/preprocessor_config.json", R"({"sampling_rate": 8000})");
  refused(3, "train " + model() + data() + kAllColumns + kAdapter + processor + option("output_path", out()), {"8000", "16000"});
  refused(
      3,
      "train " + model() + data() + kAllColumns + kAdapter + option("audio_processor_path", at("nowhere")) + option("output_path", out()),
      {"holds no preprocessor_config.json"});
  refused(2, "train " + wan_model() + wan_clips() + "--lora_rank 4 " + processor + option("output_path", out()), {"it is of Wan-S2V"});
}

TEST_F(WanSpeech, RefusesWhatItCannotDo) {
  refused(2, "train " + model() + data() + "--lora_rank 4 --extra_inputs input_audio " + option("output_path", out()),
          {"Wan-S2V goes on from a picture", "input_image"});
  refused(2, drawing_of(kSpeech, what("")), {"this model hears a sound", "--input_audio"});
  refused(2,
          "train " + model() + option("dataset_metadata_path", kSpeech / "sounds/metadata.csv") +
              "--height 48 --width 64 --num_frames 1 --frame_rate 10 --lora_rank 4 --extra_inputs input_image " +
              option("output_path", out()),
          {"no other that could be predicted"});
  write("processor/preprocessor_config.json", "{}");
  refused(3,
          "train " + model(of_two_layers(golden_path("wav2vec2"), at("narrow"))) + data() + kAllColumns + "--lora_rank 4 " +
              option("output_path", out()),
          {"3 states 16 wide, and the transformer reads 4 of 16"});
}
