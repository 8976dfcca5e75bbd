#pragma once
#include "nn/delta_strength.h"
#include "train/subject/attached.h"

namespace burnish::train {

/// The adapters of a model act at a strength on this thread for as long as this lives; without factors for layers what else is attached
/// does too.
class AtStrength {
 public:
  /// A config Error for layers that the adapters do not have; `attached` must outlive it.
  AtStrength(const Attached& attached, const Strength& strength);
  ~AtStrength();
  AtStrength(const AtStrength&) = delete;
  AtStrength& operator=(const AtStrength&) = delete;

 private:
  const Attached* attached_;
  bool has_factors_;
  nn::DeltaStrength whole_;
};

}  // namespace burnish::train
