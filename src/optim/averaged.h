#pragma once
#include <functional>

#include "optim/ema.h"
#include "optim/optimizer.h"

namespace burnish::optim {

/// Puts the values that a model is judged, shown and saved by in the parameters' place for as long as it lives: moving averages where there
/// are any, else what the optimizer averages to (Optimizer::average), else nothing is moved. They are rounded to nearest as each parameter
/// is kept; the parameters' own values are kept aside bit for bit and put back. No step may be taken and no state saved meanwhile.
class Averaged {
 public:
  /// `ema` may be null; it averages the optimizer's parameters. `share` brings the weights of parameters from the processes that own them
  /// to the others, where there are such: then all of them have to come here.
  Averaged(const Optimizer& optimizer, const Ema* ema, const std::function<void()>& share = {});
  ~Averaged();
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  struct Kept {
    const NamedParameter* parameter;
    StateList values;  ///< copies of what its store is made of
  };
  std::vector<Kept> kept_;
};

}  // namespace burnish::optim
