// Sliders and erased concepts beside plain torch with peft, which passes as ai-toolkit and LECO do (tests/golden/make_concepts.py).
#include <ATen/ATen.h>
#include <fmt/core.h>

#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/moved.h"

using namespace burnish;
using namespace burnish::test;

namespace {

struct Peer {
  std::string name, model, size;
  fs::path lora;
  double drawing_scale = 1;
  double bound = 2e-6;  ///< of losses: where predictions come near what they are compared with, differences have fewer digits

  friend void PrintTo(const Peer& peer, std::ostream* out) { *out << peer.name; }
};

class ConceptParity : public testing::TestWithParam<Peer> {
 protected:
  /// A run of the replay with these options has the golden numbers of the case.
  void expect_equal(const std::string& name, int num_steps, const std::string& options) {
    const auto& peer = GetParam();
    const auto golden = peer.name + "_concepts.safetensors";
    auto out =
        run_burnish(fmt::format("train {} {} {} --max_steps {} --learning_rate 1e-2 --optimizer_args eps=1e-3 ", peer.model, peer.size,
                                options, num_steps) +
                    option("replay", golden_path(golden)) + option("lora_checkpoint", peer.lora) + option("output_path", folder / name));
    ASSERT_EQ(out.exit_code, 0) << out.output;
    expect_case(folder / name, test::golden(golden), name, peer.lora, peer.bound);
  }
  /// Two pictures, each a dataset of its own at a strength.
  std::string pairs() const {
    std::ofstream sets(folder / "sets.toml");
    for (const auto& [row, strength] : {std::pair{0, 1.5}, {1, -1.5}}) {
      std::ifstream all(kGolden / "pictures/metadata.csv");
      std::string line;
      std::ofstream one(folder / fmt::format("{}.csv", row));
      std::getline(all, line);
      one << line << "\n";
      for (int i = 0; i <= row; ++i) std::getline(all, line);
      one << (kGolden / "pictures").string() << "/" << line << "\n";
      sets << fmt::format("[[datasets]]\nmetadata_file = \"{}.csv\"\nslider_strength = {}\n", row, strength);
    }
    return option("dataset_config", folder / "sets.toml");
  }
  Scratch folder;
};

const std::string kSlider =
    "--task slider --target_class 'a person' --positive_prompt 'an old person' --negative_prompt 'a young person' --guidance_strength 2.5 ";

std::string drawn(const Peer& peer) { return fmt::format("--max_denoising_steps 6 --denoising_cfg_scale {} ", peer.drawing_scale); }

}  // namespace

TEST_P(ConceptParity, ASlider) {
  const auto data = option("dataset_metadata_path", kGolden / "pictures/metadata.csv");
  expect_equal("slider", 4, kSlider + "--anchor_class 'a dog' --anchor_strength 0.7 --concept_latents pictures " + data);
}

TEST_P(ConceptParity, SlidersInTurnAtDrawnLatents) {
  std::ofstream(folder / "two.toml") << "[[concepts]]\n"
                                        "[[concepts]]\ntarget_class = \"\"\npositive_prompt = \"a cat face, smiling\"\n"
                                        "negative_prompt = \"tree\"\n";
  expect_equal("drawn_slider", 4, kSlider + drawn(GetParam()) + option("concept_config", folder / "two.toml"));
}

TEST_P(ConceptParity, ErasedAndStrengthenedInTurn) {
  std::ofstream(folder / "two.toml") << "[[concepts]]\nerase_prompt = \"a red apple\"\nneutral_prompt = \"a fruit\"\nerase_strength = 1.5\n"
                                        "[[concepts]]\ntarget_class = \"a girl\"\nerase_prompt = \"cat ears\"\n"
                                        "neutral_prompt = \"a girl\"\nerase_strength = -0.5\n";
  expect_equal("erase", 6, "--task erase " + drawn(GetParam()) + option("concept_config", folder / "two.toml"));
}

TEST_P(ConceptParity, PairsOfPictures) { expect_equal("pairs", 4, "--loss_weighting uniform --gradient_accumulation_steps 2 " + pairs()); }

INSTANTIATE_TEST_SUITE_P(Families, ConceptParity,
                         testing::Values(Peer{"flux", golden_model(), "--height 48 --width 64", kGolden / "lora.safetensors", 1, 4e-6},
                                         Peer{"sd15", sd_model("sd15_pipeline"), sd_size("sd15_pipeline"),
                                              golden_path("sd15_pipeline/lora.safetensors"), 3, 1e-5}),
                         [](const auto& info) { return info.param.name; });
