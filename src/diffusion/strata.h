#pragma once
#include "diffusion/process.h"

namespace burnish::diffusion {

/// Draws that are spread evenly over a distribution: [0, 1) is cut into `count` strata of one width, and each draw has one of them.
struct Strata {
  uint64_t key = 0;  ///< names the order in which draws have them
  int64_t count = 1;

  /// The share u of draw `number`, from 0 on: (π(number) + v) / count, where π is an order of the strata and v, in [0, 1), the draw's own.
  double share(int64_t number, double v) const;
};

/// The time of the share u of what Process::draw_time draws, of those that lie in the stretch: as u goes from 0 to 1 the times go from one
/// end of it to the other, each as often as it is drawn. A config Error where the distribution hardly ever comes into the stretch.
double time_of_draws(const Stretch& stretch, const Process& process, const TimestepOptions& options, double u, int64_t num_image_tokens);

}  // namespace burnish::diffusion
