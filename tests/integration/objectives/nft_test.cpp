// Learning by scores beside plain torch with peft (tests/golden/make_nft.py), resumed in the middle of a round, and what fails.
#include <gmock/gmock.h>

#include "tests/integration/families/stable_diffusion.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class Nft : public testing::Test {
 protected:
  Nft() {
    std::ofstream(folder / "score.py") << "import json, os, sys\n"
                                          "pictures = json.loads(sys.stdin.readline())\n"
                                          "print(json.dumps([os.path.getsize(p['picture']) / 1000 for p in pictures]))\n";
  }
  std::string command(const std::string& run, const std::string& options) const {
    return "train --task nft " + golden_model() + golden_data() + "--learning_rate 1e-3 " + options + option("output_path", folder / run);
  }
  std::string scored() const {
    return "--lora_rank 2 --batch_size 4 --nft_round_steps 4 --nft_num_inference_steps 2 " +
           option("reward_program", "python3 " + (folder / "score.py").string());
  }
  std::vector<nlohmann::json> train(const std::string& run, const std::string& options) const {
    auto out = run_burnish(command(run, options));
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return read_log(folder / run);
  }
  Scratch folder;
};

}  // namespace

TEST_F(Nft, EqualsPlainTorch) {
  auto expected = golden("nft.safetensors");
  auto log = train("replayed", "--max_steps 10 --nft_round_steps 4 --nft_beta 0.5 --nft_kl_weight 0.01 --nft_old_decay_rise 0.1 " +
                                   option("replay", golden_path("nft.safetensors")) +
                                   option("lora_checkpoint", golden_path("pipeline/lora.safetensors")));
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    for (const char* name : {"loss", "grad_norm", "policy_loss", "kl_loss", "drift"}) {
      const auto theirs = expected.tensor(name)[static_cast<int64_t>(i)].item<double>();
      EXPECT_NEAR(log[i][name].get<double>(), theirs, 1e-5 * theirs) << name << " of step " << i;
    }
  }
}

TEST_F(Nft, GoesOnInTheMiddleOfARound) {
  train("whole", "--max_steps 10 " + scored());
  train("resumed", "--max_steps 6 " + scored());
  train("resumed", "--resume --max_steps 10 " + scored());
  EXPECT_EQ(read_file(folder / "resumed/step-10.safetensors"), read_file(folder / "whole/step-10.safetensors"));
}

TEST_F(Nft, AProgramThatFailsLosesNothing) {
  const auto fails = [&](const std::string& program, const char* text) {
    auto out = run_burnish(command("bad", "--overwrite --lora_rank 2 --max_steps 2 --nft_num_inference_steps 1 --reward_timeout 2 " +
                                              option("reward_program", program)));
    EXPECT_EQ(out.exit_code, 3) << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  };
  fails("exit 3", "ended with exit code 3");
  fails("echo hello", "was to print a JSON list of 16 numbers");
  fails("sleep 9", "did not answer in 2 seconds");
}
