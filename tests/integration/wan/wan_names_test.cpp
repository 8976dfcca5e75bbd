// What names of parts mean in models of two experts, and models of clips that get no input that they were made for.
#include <gmock/gmock.h>

#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_experts.h"

using namespace burnish;
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class WanNames : public BadInput {
 protected:
  WanNames() { make_wan_experts(at("model")); }

  /// The files that a step with these options writes.
  std::vector<std::string> weights(const std::string& more) {
    fs::remove_all(out());
    said_ = run_burnish("train " + wan_model(at("model")) + option("tokenizer_path", kWan / "model/tokenizer") + wan_clips() +
                        "--device cpu --num_threads 1 --max_steps 1 --output_path " + quoted(out()) + " " + more);
    EXPECT_EQ(said_.exit_code, 0) << said_.output;
    std::vector<std::string> files;
    for (const auto& file : files_below(out())) {
      if (file.ends_with(".safetensors") && file.find('/') == file.npos) files.push_back(file);
    }
    return files;
  }

  const std::string high_ = "step-1.high_noise.safetensors", low_ = "step-1.low_noise.safetensors";
  Outcome said_;
};

}  // namespace

TEST_F(WanNames, TheFirstStandsForAllExpertsOfTheRun) {
  using Files = std::vector<std::string>;
  EXPECT_EQ(weights("--lora_rank 2 --lora_base_model dit"), (Files{high_, low_}));
  EXPECT_EQ(weights("--lora_rank 2 --lora_base_model dit --experts low_noise"), Files{low_});
  EXPECT_EQ(weights("--lora_rank 2 --lora_base_model dit --experts high_noise"), Files{high_});
  EXPECT_EQ(weights("--lora_rank 2 --lora_base_model dit_2"), Files{low_});
  EXPECT_EQ(weights("--trainable_models dit").size(), 2u);
  EXPECT_EQ(weights("--trainable_models dit.blocks.0").size(), 2u);
  EXPECT_EQ(weights("--lora_base_model dit --lora_rank_groups dit=3 --lr_groups dit=1e-3 --text_encoder_lr dit=1e-3"),
            (Files{high_, low_}));
  EXPECT_THAT(said_.output, HasSubstr("rank 3"));
}

TEST_F(WanNames, ModelsInCodesAreAllExperts) {
  weights("--lora_rank 2 --fp8_models dit");
  for (const char* part : {"/transformer (", "/transformer_2 ("}) {
    const auto line = said_.output.substr(said_.output.find(part), 80);
    EXPECT_THAT(line, HasSubstr("in FP8")) << said_.output;
  }
}

TEST_F(WanNames, AnInputThatAModelWasMadeForIsMissed) {
  const auto data = wan_clips() + "--lora_rank 2 --max_steps 1 --device cpu --num_threads 1 --output_path ";
  auto frames = wan_from_frame("i2v");
  const auto without = frames.substr(0, frames.find("--extra_inputs"));
  const std::string missed = "and this run has none; name their column with --extra_inputs input_image";
  EXPECT_THAT(run_burnish("train " + without + data + quoted(at("a"))).output, HasSubstr(missed));
  EXPECT_THAT(run_burnish("train " + frames + data + quoted(at("b"))).output, Not(HasSubstr("and this run has none")));
}
