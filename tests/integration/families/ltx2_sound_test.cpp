// The sound of LTX-2's clips in the whole program: what of a dataset's sounds is learned, and files that hold the parts of sound.
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/clip.h"
#include "data/sound.h"
#include "data/video_file.h"
#include "io/files.h"
#include "models/families/ltx2/autoencoder_keys.h"
#include "models/families/ltx2/halves.h"
#include "tests/integration/families/ltx2.h"
#include "tests/integration/model_run.h"

namespace burnish::ltx2_sound_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kClips = golden_path("ltx2_clips");
const std::string kHeard = "--extra_inputs input_audio ";

class Ltx2SoundRun : public BadInput {
 protected:
  std::string clips_data(const fs::path& metadata = kClips / "metadata.csv") const {
    return "--dataset_metadata_path " + quoted(metadata) + " " + kLtx2Size + "--num_frames 9 ";
  }
  std::string train_command(const std::string& name, const std::string& options) const {
    return "train " + ltx2_model() + clips_data() + "--lora_rank 4 --learning_rate 1e-3 --max_steps 4 " + options + " --output_path " +
           quoted(at(name));
  }
  std::vector<double> trained(const std::string& name, const std::string& options) const {
    run_ok(train_command(name, options));
    return losses(name);
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (auto& line : read_log(at(name))) all.push_back(line["loss"]);
    return all;
  }
  /// Writes samples [C, N] in [-1, 1] as a WAV of 16 bits.
  fs::path write_wav(const std::string& name, const at::Tensor& samples_CN, uint32_t rate) const {
    const auto numbers = (samples_CN.t() * 32767).round().to(at::kShort).contiguous();
    const auto channels = static_cast<uint16_t>(samples_CN.size(0));
    const auto num_bytes = static_cast<uint32_t>(numbers.nbytes());
    std::string file = "RIFF";
    auto put = [&](auto value) { file.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
    put(num_bytes + 36);
    file += "WAVEfmt ";
    put(uint32_t{16});
    put(uint16_t{1});
    put(channels);
    put(rate);
    put(rate * channels * 2);
    put(static_cast<uint16_t>(channels * 2));
    put(uint16_t{16});
    file += "data";
    put(num_bytes);
    file.append(static_cast<const char*>(numbers.data_ptr()), num_bytes);
    io::write_text_atomic(at(name), file);
    return at(name);
  }
};

at::Tensor tone(int64_t count, double step) { return (at::arange(count, at::kDouble) * step).sin() * 0.5; }

/// Writes the parts of frames and sound as a single file has them: original names, and settings in the metadata. The mean of latents of
/// sound is moved by `offset`.
void write_single_file(const fs::path& path, double offset) {
  const auto folder = kLtx2 / "model";
  auto weights = [&](const std::string& part) {
    io::NamedTensors all;
    const auto source = io::TensorSource::open({folder / part / "diffusion_pytorch_model.safetensors"});
    for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
    return all;
  };
  io::NamedTensors tensors;
  for (auto& [name, tensor] : models::ltx2::original_autoencoder_keys(4, 4).to_file(weights("vae")))
    tensors.emplace_back("vae." + name, tensor);
  for (auto& [name, tensor] : weights("audio_vae")) {
    const auto original = name == "latents_mean"  ? models::ltx2::kOriginalMean
                          : name == "latents_std" ? models::ltx2::kOriginalDeviation
                                                  : name;
    tensors.emplace_back("audio_vae." + original, name == "latents_mean" ? tensor + offset : tensor);
  }
  for (auto& [name, tensor] : weights("vocoder")) {
    auto original = "vocoder." + name;
    for (const auto& [ours, theirs] : {std::pair<std::string, std::string>{"conv_in", "conv_pre"},
                                       {"conv_out", "conv_post"},
                                       {"upsamplers", "ups"},
                                       {"resnets", "resblocks"},
                                       {"act_out", "act_post"},
                                       {"downsample.filter", "downsample.lowpass.filter"}}) {
      const auto place = original.find(ours);
      if (place != std::string::npos) original.replace(place, ours.size(), theirs);
    }
    tensors.emplace_back(original, tensor);
  }
  const nlohmann::json dilations{{1, 3}, {1, 3}};
  const nlohmann::json settings{
      {"vae", {{"decoder_spatial_padding_mode", "zeros"}}},
      {"audio_vae", {{"model", {{"params", {{"sampling_rate", 16000}}}}}}},
      {"vocoder",
       {{"vocoder", {{"upsample_rates", {5, 4, 4, 2}}, {"resblock_dilation_sizes", dilations}, {"apply_final_activation", false}}},
        {"bwe",
         {{"upsample_rates", {6, 5, 4, 2}},
          {"resblock_dilation_sizes", dilations},
          {"hop_length", 80},
          {"input_sampling_rate", 16000},
          {"output_sampling_rate", 48000}}}}}};
  io::save_safetensors(path, tensors, io::Metadata{{"config", settings.dump()}});
}

}  // namespace

// The first step has seen nothing of the others, so that losses of one draw add up.
TEST_F(Ltx2SoundRun, LossesOfFramesAndSoundAddUp) {
  const auto both = trained("both", kHeard + "--batch_size 4"), frames = trained("frames", kHeard + "--batch_size 4 --sound_loss_weight 0"),
             sound = trained("sound", kHeard + "--batch_size 4 --frames_loss_weight 0"), silent = trained("silent", "--batch_size 4");
  EXPECT_NEAR(both[0], frames[0] + sound[0], tolerance(1e-5) * both[0]);
  EXPECT_GT(sound[0], 0.1);
  EXPECT_NE(frames[0], silent[0]) << "a sound that is not judged is seen";
  auto refused = run_burnish(train_command("nothing", "--frames_loss_weight 0"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("nothing is learned but sound"));
}

TEST_F(Ltx2SoundRun, TrainsFromACacheAsFromClips) {
  const auto live = trained("live", kHeard);
  run_ok("cache " + ltx2_model() + clips_data() + kHeard + "--cache_path " + quoted(at("cache")));
  run_ok("train " + ltx2_model() + kHeard + "--dataset_base_path " + quoted(at("cache")) +
         " --task sft:train --lora_rank 4 --learning_rate 1e-3 --max_steps 4 --output_path " + quoted(at("cached")));
  EXPECT_EQ(live, losses("cached"));
}

TEST_F(Ltx2SoundRun, ASideIsHeardOnBothAndAnyRateIsRead) {
  const auto side = tone(48000, 0.06);
  std::map<std::string, std::vector<double>> of;
  for (const auto& [name, samples, rate] :
       {std::tuple("one", side.unsqueeze(0), 48000u), std::tuple("two", at::stack({side, side}), 48000u),
        std::tuple("own_rate", at::stack({tone(16000, 0.18), tone(16000, 0.18)}), 16000u)}) {
    const auto wav = write_wav(std::string(name) + ".wav", samples, rate);
    const auto rows =
        write(std::string(name) + ".csv", "video,prompt,input_audio\n" + (kClips / "0.webp").string() + ",cat," + wav.string() + "\n");
    of[name] = trained(name, clips_data(rows) + kHeard + "--frames_loss_weight 0 --overwrite");
  }
  EXPECT_EQ(of["one"], of["two"]);
  EXPECT_NEAR(of["one"][0], of["own_rate"][0], 1e-3 * of["own_rate"][0]);
}

TEST_F(Ltx2SoundRun, TheSoundOfAClipIsThatOfItsFile) {
  const auto samples = at::stack({tone(48000, 0.06), tone(48000, 0.09)});
  data::write_video(at("clip.mp4"), at::zeros({3, 9, 32, 64}, at::kByte), {24, 1}, {}, {}, {samples.to(at::kFloat), 48000});
  const auto own = write("own.csv", "video,prompt\nclip.mp4,cat\n"),
             lacking = write("lacking.csv", "video,prompt\n" + (kClips / "0.webp").string() + ",cat\n");
  EXPECT_GT(trained("own", clips_data(own) + kHeard + "--frames_loss_weight 0")[0], 0.1);
  EXPECT_EQ(trained("lacking", clips_data(lacking) + kHeard + "--frames_loss_weight 0")[0], 0)
      << "of a clip without a track there is nothing to learn";
  EXPECT_GT(trained("silence", clips_data(lacking) + kHeard + "--frames_loss_weight 0 --silent_on_missing_audio")[0], 0.1);
}

TEST_F(Ltx2SoundRun, PartsMayLieInASingleFileOfOriginalNames) {
  write_single_file(at("single.safetensors"), 0);
  write_single_file(at("moved.safetensors"), 1);
  auto model_of = [&](const std::string& file) { return "--model " + quoted(at(file)) + " " + ltx2_model(); };
  const auto model = model_of("single.safetensors");
  const auto command = [&](const std::string& name, const std::string& of) {
    return "train " + of + clips_data() + kHeard + "--lora_rank 4 --learning_rate 1e-3 --max_steps 4 --output_path " + quoted(at(name));
  };
  run_ok(command("folder", ltx2_model()));
  run_ok(command("single", model));
  run_ok(command("moved", model_of("moved.safetensors")));
  EXPECT_EQ(losses("folder"), losses("single"));
  EXPECT_NE(losses("folder"), losses("moved")) << "the single file is read before the folder";
  auto draw = [&](const std::string& name, const std::string& of) {
    run_ok("sample " + of + kLtx2Size + "--num_frames 9 --prompt 'red apple' --seed 3 --num_inference_steps 2 --output_path " +
           quoted(at(name)));
    return data::decode_sound(at(name) / "0000.mp4", {}, 48000, 2);
  };
  const auto of_folder = draw("drawn_folder", ltx2_model()), of_single = draw("drawn_single", model);
  EXPECT_GT(of_folder.abs().max().item<double>(), 0);
  EXPECT_TRUE(at::equal(of_folder, of_single));
}

TEST_F(Ltx2SoundRun, ClipsOfOtherLengthsAndSizesAreRefused) {
  for (const auto& [options, expected] : {std::pair("--num_frames 10", "9"), std::pair("--height 48", "32")}) {
    auto refused = run_burnish(train_command("refused", kHeard + options));
    EXPECT_EQ(refused.exit_code, 2) << options;
    EXPECT_THAT(refused.output, HasSubstr(expected)) << options;
  }
}

}  // namespace burnish::ltx2_sound_test
