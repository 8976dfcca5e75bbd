// Latents of video [B,C,F,h,w] are noised, judged and walked like those of pictures [B,C,h,w].
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "diffusion/discrete_process.h"
#include "diffusion/flow_match.h"
#include "diffusion/flow_process.h"

using namespace burnish;
using namespace burnish::diffusion;

TEST(VideoLatents, AreNoisedJudgedAndWalkedAsPicturesSideBySide) {
  const FlowProcess flow{{}};
  const DiscreteProcess discrete{{}};
  auto video = normal_noise(1, {2, 4, 3, 2, 5}), noise = normal_noise(2, {2, 4, 3, 2, 5});
  auto flat = [](const at::Tensor& t) { return t.flatten(2, 3); };  // frames above each other
  for (const Process* process : {static_cast<const Process*>(&flow), static_cast<const Process*>(&discrete)}) {
    auto time_B = at::tensor({static_cast<float>(process->time_at(0.25)), static_cast<float>(process->time_at(0.75))});
    auto noisy = process->add_noise(video, noise, time_B), target = process->target(video, noise, time_B);
    EXPECT_TRUE(at::equal(flat(noisy), process->add_noise(flat(video), flat(noise), time_B)));
    EXPECT_TRUE(at::equal(flat(target), process->target(flat(video), flat(noise), time_B)));

    SamplerOptions options;
    options.num_steps = 3;
    auto sampler = process->sampler(options), flat_sampler = process->sampler(options);
    auto latents = sampler->start(noise), flat_latents = flat_sampler->start(flat(noise));
    for (int64_t step = 0; step < sampler->num_steps(); ++step) {
      latents = sampler->update(latents, sampler->model_input(latents, step), step, {});
      flat_latents = flat_sampler->update(flat_latents, flat_sampler->model_input(flat_latents, step), step, {});
    }
    EXPECT_EQ(latents.sizes(), video.sizes());
    EXPECT_TRUE(at::equal(flat(latents), flat_latents));
  }
}
