#include "models/families/wan/motion.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/blocks/waves.h"
#include "models/families/wan/config.h"

namespace burnish::models::wan {

namespace {

constexpr const char* kController = "motion controller";

}  // namespace

MotionController::Config MotionController::detect(const io::Shapes& shapes) {
  Config c{.channels = io::side_of(shapes, "linear.0.weight", 1, kController),
           .width = io::side_of(shapes, "linear.0.weight", 0, kController)};
  const auto made = io::side_of(shapes, "linear.4.weight", 0, kController);
  if (made != kModulations * c.width)
    data_error("models", "the motion controller makes {} numbers of a width of {}; {} were expected", made, c.width,
               kModulations * c.width);
  return c;
}

MotionController::MotionController(const Config& c, const at::TensorOptions& options)
    : channels_(c.channels),
      first_(c.channels, c.width, options.dtype(at::kFloat)),
      second_(c.width, c.width, options.dtype(at::kFloat)),
      third_(c.width, kModulations * c.width, options.dtype(at::kFloat)) {
  own("linear.0", first_);
  own("linear.2", second_);
  own("linear.4", third_);
}

at::Tensor MotionController::forward(const at::Tensor& number_B1) const {
  auto x = waves(number_B1.flatten() * 10, channels_);
  return third_.forward(at::silu(second_.forward(at::silu(first_.forward(x)))));
}

Source find_motion(const ModelFiles& files) {
  for (const auto& entry : files.entries) {
    if (!entry.tensors || !entry.tensors->contains("linear.4.weight") || !entry.tensors->contains("linear.0.weight")) continue;
    if (entry.tensors->names().size() == 6) return {&entry, *entry.tensors, {}};
  }
  return {};
}

}  // namespace burnish::models::wan
