#include "models/families/wan/camera.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <utility>

#include "base/input_error.h"

namespace burnish::models::wan {

namespace {

/// The published models' camera: focal lengths as shares of a picture of 1280 by 720 pixels, which a clip of another shape is cut from.
constexpr double kFocalX = 0.532139961, kFocalY = 0.946026558, kShape = 1280.0 / 720.0;

/// Focal lengths in pixels, along width and height.
std::pair<double, double> focal_lengths(int64_t height, int64_t width) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  if (kShape > w / h) return {kFocalX * h * kShape, kFocalY * h};
  return {kFocalX * w, kFocalY * w / kShape};
}

/// Moments and directions of the rays of each frame, three tensors each: [B, F, H, W].
std::vector<at::Tensor> plucker(const at::Tensor& movement_B3, int64_t frames, int64_t height, int64_t width) {
  const auto options = movement_B3.options();
  auto moved = movement_B3.unsqueeze(1) * at::arange(frames, options).view({1, -1, 1});  // [B, F, 3]
  auto of_frame = [&](int64_t i) { return moved.select(-1, i).unsqueeze(-1).unsqueeze(-1); };
  const auto [focal_x, focal_y] = focal_lengths(height, width);
  auto x = ((at::arange(width, options) + 0.5 - 0.5 * static_cast<double>(width)) / focal_x).view({1, 1, 1, -1});
  auto y = ((at::arange(height, options) + 0.5 - 0.5 * static_cast<double>(height)) / focal_y).view({1, 1, -1, 1});
  auto length = (x * x + y * y + 1).sqrt();
  const auto side = of_frame(0), up = of_frame(1), ahead = of_frame(2);
  // The camera is sheared by `side` and `up` rather than turned, as the models were taught.
  auto dx = x / length - side / length, dy = y / length - up / length, dz = 1 / length + side * 0;
  auto ox = side * ahead, oy = up * ahead, oz = -ahead;
  return {oy * dz - oz * dy, oz * dx - ox * dz, ox * dy - oy * dx, dx, dy, dz};
}

}  // namespace

at::Tensor camera_movement(const std::string& direction, const at::Tensor& speed) {
  static const std::pair<const char*, std::array<double, 3>> kWords[] = {{"Left", {1, 0, 0}},  {"Right", {-1, 0, 0}}, {"Up", {0, 1, 0}},
                                                                         {"Down", {0, -1, 0}}, {"In", {0, 0, -1}},    {"Out", {0, 0, 1}}};
  std::array<double, 3> moved{};
  std::string rest = direction;
  for (const auto& [word, by] : kWords) {
    auto at = rest.find(word);
    if (at == rest.npos) continue;
    rest.erase(at, std::string_view(word).size());
    for (size_t i = 0; i < moved.size(); ++i) moved[i] += by[i];
  }
  if (!rest.empty() || direction.empty())
    data_error("models",
               "camera_control_direction is '{}', and one of Left, Right, Up, Down, In and Out was expected, or two of them in one word "
               "(LeftUp)",
               direction);
  // The speed is a factor and no number that is read here: a plan has none.
  return at::tensor({moved[0], moved[1], moved[2]}, at::kFloat).unsqueeze(0).to(speed.device()) * speed.flatten()[0];
}

at::Tensor camera_rays(const at::Tensor& movement_B3, int64_t frames, int64_t height, int64_t width) {
  auto parts = plucker(movement_B3.to(at::kFloat), frames, height, width);
  auto rays = at::stack(parts, 1);  // [B, 6, F, H, W]
  auto first = rays.narrow(2, 0, 1);
  auto all = at::cat({first, first, first, rays}, 2);
  return all.unflatten(2, {-1, kFramesPerLatent}).transpose(2, 3).flatten(1, 2);
}

CameraAdapter::CameraAdapter(int64_t width, const at::TensorOptions& o)
    : in_(kRayChannels * kSide * kSide, width, 2, 2, 0, o), first_(width, width, 3, 1, 1, o), second_(width, width, 3, 1, 1, o) {
  own("conv", in_);
  own("residual_blocks.0.conv1", first_);
  own("residual_blocks.0.conv2", second_);
}

at::Tensor CameraAdapter::forward(const at::Tensor& rays) const {
  auto frames = rays.transpose(1, 2).flatten(0, 1).contiguous();
  auto x = in_.forward(at::pixel_unshuffle(frames, kSide));
  x = x + second_.forward(at::relu(first_.forward(x)));
  return x.unflatten(0, {rays.size(0), -1}).transpose(1, 2);
}

}  // namespace burnish::models::wan
