#pragma once
#include <functional>

#include "optim/ema.h"
#include "optim/optimizer.h"

namespace burnish::optim {

/// Functions that let other processes compute with an owner's present values, where processes own parameters.
struct Sharing {
  std::function<void()> bring;   ///< has the values come to the others; all processes have to come to it
  std::function<void()> forget;  ///< has none of the others use what was brought before, each by itself
};

/// Puts the values that a model is judged, shown and saved by in the parameters' place for as long as it lives: moving averages where there
/// are any, else what the optimizer averages to (Optimizer::average), else nothing is moved. They are rounded to nearest as each parameter
/// is kept; the parameters' own values are kept aside bit for bit and put back. No step may be taken and no state saved meanwhile.
class Averaged {
 public:
  /// `ema` may be null; it averages the optimizer's parameters. With `sharing` all processes have to come here.
  Averaged(const Optimizer& optimizer, const Ema* ema, Sharing sharing = {});
  ~Averaged();
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  struct Kept {
    const NamedParameter* parameter;
    StateList values;  ///< copies of what its store is made of
  };
  std::vector<Kept> kept_;
  Sharing sharing_;
};

}  // namespace burnish::optim
