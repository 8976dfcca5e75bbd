#pragma once
#include <cstdint>

namespace burnish::optim {

/// The factor on a loss whose gradients pass through fp16, which knows no numbers below 6e-8: a power of two, so that it changes nothing
/// but what would have been rounded away. Halved when a gradient overflows, doubled after 2,000 steps without (Micikevicius et al. 2018,
/// arXiv 1710.03740). A factor of 1 that stays 1 means none.
struct LossScale {
  double factor = 1;
  int64_t good_steps = 0;

  static LossScale for_fp16() { return {65536.0, 0}; }
  bool in_use() const { return factor != 1; }
  /// Tells whether a step whose gradients came out not finite is worth another try, at half the factor.
  bool retreat() {
    if (factor <= 2) return false;
    factor /= 2, good_steps = 0;
    return true;
  }
  void succeeded() {
    if (!in_use() || ++good_steps < 2000) return;
    factor *= 2, good_steps = 0;
  }
};

}  // namespace burnish::optim
