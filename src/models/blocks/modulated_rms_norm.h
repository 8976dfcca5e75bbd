#pragma once
#include "nn/recomputed_values.h"

namespace burnish::models {

/// Computes {x [B, L, D], weight of an RMS norm [D], scale, shift [B, D]} -> {the norm of x, scaled by 1 + scale and shifted in fp32}; of
/// several such runs of tokens the results, one behind the other.
nn::Compute modulated_rms_norm(double eps);

}  // namespace burnish::models
