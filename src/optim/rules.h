#pragma once
#include <memory>

#include "optim/update_rule.h"

namespace burnish::optim {

/// AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101), equal to torch.optim.AdamW on fp32 parameters.
struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};
std::shared_ptr<UpdateRule> adamw(const AdamWOptions& options);

}  // namespace burnish::optim
