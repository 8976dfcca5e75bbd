#pragma once
#include <memory>
#include <vector>

#include "diffusion/process.h"

namespace burnish::diffusion {

/// Makes a sampler of flows by UniPC (Zhao et al. 2023, arXiv 2302.04867) of order 1 or 2, with B(h) = e^h - 1, which diffusers calls bh2:
/// it predicts the latents of the next step with the pictures that were seen at the last `order` ones, and corrects them once the next is
/// seen. `sigmas` end with 0. The denoiser is told whole thousandths, as diffusers' UniPCMultistepScheduler rounds them down.
std::unique_ptr<Sampler> unipc_sampler(int64_t order, std::vector<double> sigmas);

}  // namespace burnish::diffusion
