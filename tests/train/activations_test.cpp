// What blocks keep for backward.
#include <gmock/gmock.h>

#include "tests/train/small_run.h"

using namespace burnish;

namespace {

constexpr double kGiB = 0x1p30;

/// GiB of activations at the peak of a step of FLUX.1 at 1024x1024.
double activations(const std::string& flags) {
  auto words = split_list("--model flux-dev --dtype bf16 --height 1024 --width 1024 --device cuda --max_steps 100 " + flags, ' ');
  auto options = test::options_of({words.begin(), words.end()});
  options.model.is_plan = true;
  return static_cast<double>(train::plan_memory(options).step().profile.peak[memory::Kind::activations]) / kGiB;
}

}  // namespace

// What autograd keeps of the same blocks written out: of a double block 18 and of a single one 17 times the tokens' 4608 x 3072 bf16
// numbers, inputs of a norm, a product, an activation or an attention counted once each.
constexpr double kNaive = (19 * 18 + 38 * 17) * (4608.0 * 3072 * 2) / kGiB;

TEST(Activations, AreAtLeastFortyPercentFewerThanAutogradKeeps) {
  const std::string blocks_alone =
      "--lora_rank 16 --lora_target_modules to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,"
      "ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2,proj_mlp,proj_out --precompute_timesteps on";
  EXPECT_LE(activations(blocks_alone), 0.6 * kNaive);
}
