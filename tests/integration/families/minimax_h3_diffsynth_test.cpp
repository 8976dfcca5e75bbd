// MiniMax-H3 beside DiffSynth-Studio's own units, transformer and loss (tests/golden/make_minimax_h3_diffsynth.py): stills, clips with
// sound, given frames and references, of recorded noise and times.
#include "tests/integration/families/minimax_h3.h"
#include "tests/integration/parity.h"

namespace burnish::minimax_h3_diffsynth_test {
using namespace burnish::test;

namespace {

const fs::path kClips = golden_path("minimax_h3_clips"), kReferenced = golden_path("minimax_h3_references");

struct Case {
  std::string name, options, metadata = "metadata.csv";
  bool is_whole = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::string data_of(const Case& c) {
  if (c.name == "still") return minimax_h3_data();
  const auto& folder = c.name == "references" ? kReferenced : kClips;
  return "--dataset_metadata_path '" + (folder / c.metadata).string() + "' " + kMiniMaxH3Size + "--num_frames 22 ";
}

class MiniMaxH3DiffSynthLosses : public testing::TestWithParam<Case> {
 protected:
  /// The model with DiffSynth-Studio's shift for frames and sound, by which the one is as noisy as the other.
  std::string of_one_shift() const {
    fs::copy(kMiniMaxH3 / "model", folder_ / "model", fs::copy_options::recursive);
    for (const char* scheduler : {"scheduler", "audio_scheduler"}) {
      const auto file = folder_ / "model" / scheduler / "scheduler_config.json";
      auto config = nlohmann::json::parse(read_file(file));
      config["shift"] = 2.22;
      io::write_text_atomic(file, config.dump());
    }
    return minimax_h3_model(folder_ / "model");
  }
  /// The noise and samples of the recorded run at the times of the golden one.
  fs::path replay(const fs::path& recorded, const std::vector<double>& sigmas) const {
    auto source = io::TensorSource::open({(recorded / "replay.safetensors").string()});
    io::NamedTensors tensors;
    for (const auto& name : source.names()) {
      if (!name.ends_with(".sigma")) tensors.emplace_back(name, source.tensor(name).clone());
    }
    for (size_t i = 0; i < sigmas.size(); ++i)
      tensors.emplace_back("step." + std::to_string(i) + ".sigma", at::scalar_tensor(sigmas[i], at::kFloat));
    io::save_safetensors(folder_ / "replay.safetensors", tensors);
    return folder_ / "replay.safetensors";
  }

  /// Clips that all sound: another stands in place of the one that does not.
  std::string sounding_data() const {
    std::string rows = "video,prompt,input_audio\n";
    for (const auto& [file, caption] :
         {std::pair("0", "red apple"), {"1", "\"a cat face, smiling\""}, {"0", "red apple"}, {"3", "red apple"}}) {
      const auto path = (kClips / file).string();
      rows += path + ".webp," + caption + "," + path + ".wav\n";
    }
    io::write_text_atomic(folder_ / "rows.csv", rows);
    return option("dataset_metadata_path", folder_ / "rows.csv") + kMiniMaxH3Size + "--num_frames 22 ";
  }

  Scratch folder_;
};

}  // namespace

TEST_P(MiniMaxH3DiffSynthLosses, AreThoseOfTenSteps) {
  const auto& c = GetParam();
  const auto expected = nlohmann::json::parse(read_file(golden_path("minimax_h3_diffsynth.json")))[c.name];
  const auto trained = c.is_whole ? "--trainable_models dit " : option("lora_checkpoint", kMiniMaxH3 / "lora.safetensors");
  auto out = run_burnish("train " + (c.name == "own" ? of_one_shift() : minimax_h3_model()) + (c.is_whole ? sounding_data() : data_of(c)) +
                         trained + c.options + "--max_steps 10 --learning_rate 1e-3 " +
                         option("replay", replay(c.name == "still" ? kMiniMaxH3 : kClips, expected["sigma"])) +
                         option("output_path", folder_ / "run"));
  ASSERT_EQ(out.exit_code, 0) << out.output;
  auto log = read_log(folder_ / "run");
  auto values = [&](const char* name) { return at::tensor(expected[name].get<std::vector<double>>(), at::kDouble); };
  expect_logged(log, "loss", values("loss"), 2e-6);
  expect_logged(log, "grad_norm", values("grad_norm"), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Of, MiniMaxH3DiffSynthLosses,
    testing::Values(Case{"still", ""}, Case{"sounding", "--extra_inputs input_audio "},
                    Case{"half", "--extra_inputs input_audio --sound_loss_weight 0.5 "}, Case{"silent", ""},
                    Case{"guided", "--extra_inputs input_audio --training_cfg_scale 4 "},
                    Case{"given", "--extra_inputs input_image,end_image ", "given.csv"},
                    Case{"references",
                         "--extra_inputs input_audio,references --data_file_keys video,input_audio,references --reference_pixels 2048 ",
                         "metadata.json"},
                    Case{"own", "--extra_inputs input_audio --loss_weighting diffsynth "},
                    Case{"whole", "--extra_inputs input_audio ", "", true}),
    [](const auto& info) { return info.param.name; });

}  // namespace burnish::minimax_h3_diffsynth_test
