#include "nn/body_stand_in.h"

#include <utility>

namespace burnish::nn {

static BodyStandIn*& stand_in() {
  thread_local BodyStandIn* current = nullptr;
  return current;
}

BodyStandIn::BodyStandIn() : before_(std::exchange(stand_in(), this)) {}
BodyStandIn::~BodyStandIn() { stand_in() = before_; }
BodyStandIn* BodyStandIn::current() { return stand_in(); }

}  // namespace burnish::nn
