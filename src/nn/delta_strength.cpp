#include "nn/delta_strength.h"

#include <utility>

namespace burnish::nn {

static thread_local double strength = 1;

DeltaStrength::DeltaStrength(double given) : before_(std::exchange(strength, given)) {}
DeltaStrength::~DeltaStrength() { strength = before_; }
double DeltaStrength::current() { return strength; }

}  // namespace burnish::nn
