#include "train/run/at_strength.h"

namespace burnish::train {

AtStrength::AtStrength(const Attached& attached, const Strength& strength)
    : attached_(&attached), has_factors_(strength.layers.is_given()), whole_(strength.whole) {
  if (has_factors_) attached.set_factors(strength.layers);
}

AtStrength::~AtStrength() {
  if (has_factors_) attached_->set_factors({});
}

}  // namespace burnish::train
