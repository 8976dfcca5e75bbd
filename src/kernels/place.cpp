#include "kernels/place.h"

#include <utility>

#include "kernels/shapes_only.h"

namespace burnish::kernels {

namespace {

/// Read from the autograd engine's threads too, which a dry run does not start before or leave running behind its StandIn.
c10::Device& stood_for() {
  static c10::Device device(c10::kMeta);
  return device;
}

}  // namespace

c10::Device place_of(c10::Device device) { return device.is_meta() ? stood_for() : device; }

StandIn::StandIn(c10::Device device) { stood_for() = device; }

ShapesOnly::ShapesOnly() : before_(std::exchange(stood_for(), c10::Device(c10::kMeta))) {}

ShapesOnly::~ShapesOnly() { stood_for() = before_; }

StandIn::~StandIn() { stood_for() = c10::Device(c10::kMeta); }

}  // namespace burnish::kernels
