#pragma once
#include <ATen/core/Tensor.h>

#include "base/random_key.h"
#include "data/sampler.h"
#include "models/model/latent_space.h"

namespace burnish::train {

/// Returns the key of what a visit draws for a purpose: in a resumed or re-batched run the visit draws equal numbers.
uint64_t key_of(const data::Visit& visit, uint64_t seed, Purpose purpose);

/// Draws standard normal numbers [B, ...] of `shape` for every visit, fp32 on the CPU; a further stream of latents has its own.
at::Tensor normal_noise(const data::Visits& visits, at::IntArrayRef shape, uint64_t seed, Purpose purpose,
                        const std::string& stream = models::kLatents);

}  // namespace burnish::train
