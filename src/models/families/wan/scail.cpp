#include "models/families/wan/scail.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "models/blocks/mmdit.h"
#include "models/families/wan/camera.h"
#include "models/families/wan/frames.h"

namespace burnish::models::wan {

namespace {

/// How far the driving clip lies beside the one that is denoised, along its rows, and pictures below it where they replace, in tokens.
constexpr int64_t kAside = 120;
/// Pixels from this number on are on (of 0 to 255).
constexpr double kOn = 225;

/// Behind latents without noise, what tells them from noisy ones.
at::Tensor as_known(const at::Tensor& latents) { return at::cat({latents, at::ones_like(latents.narrow(1, 0, kMaskChannels))}, 1); }

at::Tensor as_unknown(const at::Tensor& noisy) { return at::cat({noisy, at::zeros_like(noisy.narrow(1, 0, kMaskChannels))}, 1); }

kernels::Window squares() { return {{1, kPatch, kPatch}, {1, kPatch, kPatch}, {0, 0, 0}, {1, 1, 1}}; }

using Tables = std::pair<at::Tensor, at::Tensor>;

/// Tables [frames, rows, columns, P] from first places on, which are numbers without dimensions: they are made of a batch, so that a
/// recorded step reads those of its own.
Tables grid(const Config& c, at::IntArrayRef sizes, const std::vector<at::Tensor>& from) {
  std::vector<at::Tensor> places;
  for (size_t axis = 0; axis < 3; ++axis) {
    std::vector<int64_t> shape{1, 1, 1};
    shape[axis] = sizes[axis];
    places.push_back((at::arange(sizes[axis], from[axis].options()) + from[axis]).view(shape).expand(sizes).reshape({-1}));
  }
  auto [cos, sin] = mmdit::rotary_tables(places, c.axes_dims(), kRopeTheta);
  auto apart = [&](const at::Tensor& table) { return table.view({sizes[0], sizes[1], sizes[2], -1}); };
  return {apart(cos), apart(sin)};
}

at::Tensor means_of_four(const at::Tensor& table) { return table.unflatten(2, {-1, 2}).unflatten(1, {-1, 2}).mean({2, 4}); }

at::Tensor means_of_squares(const at::Tensor& x_BCFHW, int64_t side) {
  return x_BCFHW.unflatten(4, {-1, side}).unflatten(3, {-1, side}).mean({4, 6});
}

}  // namespace

Scail::Scail(const Config& c, const at::TensorOptions& o)
    : driving_in_(c.in_channels, c.width(), squares(), o), areas_in_(c.extras.area_channels, c.width(), squares(), o) {
  own("patch_embedding_pose", driving_in_);
  own("patch_embedding_mask", areas_in_);
}

at::Tensor Scail::tokens(const Cast& cast, const at::Tensor& noisy, const nn::Conv& patch_in, at::ScalarType dtype) const {
  // What is denoised has no areas, and the bias of what reads them.
  const auto areas = at::constant_pad_nd(cast.picture_areas_BMRHW, {0, 0, 0, 0, 0, noisy.size(2)});
  const auto frames = at::cat({as_known(cast.pictures_BCRHW), as_unknown(noisy)}, 2);
  const auto patches = patch_in.forward(frames.to(dtype)) + areas_in_.forward(areas.to(dtype));
  const auto driving = driving_in_.forward(as_known(cast.driving_BCFHW).to(dtype)) + areas_in_.forward(cast.driving_areas_BMFHW.to(dtype));
  return at::cat({patches.flatten(2), driving.flatten(2)}, 2).transpose(1, 2).contiguous();
}

std::pair<at::Tensor, at::Tensor> Scail::tables(const Config& c, const Cast& cast, int64_t rows, int64_t columns) {
  const auto num_pictures = cast.pictures_BCRHW.size(2), num_frames = cast.driving_BCFHW.size(2);
  const auto replaces = cast.replaces_B1.view(-1)[0].to(at::kDouble);
  const auto zero = at::zeros_like(replaces), aside = zero + kAside;
  // Pictures that replace stand at the time of the first frame, and below it.
  const auto first_frame = num_pictures - replaces;
  const auto of_pictures = grid(c, {num_pictures, rows, columns}, {zero, kAside * replaces, zero});
  const auto of_clip = grid(c, {num_frames, rows, columns}, {first_frame, zero, zero});
  const auto of_driving = grid(c, {num_frames, rows, columns}, {first_frame, zero, aside});
  auto joined = [](const at::Tensor& pictures, const at::Tensor& clip, const at::Tensor& driving) {
    return at::cat({pictures.flatten(0, 2), clip.flatten(0, 2), means_of_four(driving).flatten(0, 2)});
  };
  return {joined(of_pictures.first, of_clip.first, of_driving.first), joined(of_pictures.second, of_clip.second, of_driving.second)};
}

at::Tensor coloured_areas(const at::Tensor& masks) {
  const auto on = (masks.to(at::kFloat) > (kOn - 127.5) / 127.5).to(at::kFloat), off = 1 - on;
  auto colour = [&](bool red, bool green, bool blue) {
    return (red ? on : off).select(1, 0) * (green ? on : off).select(1, 1) * (blue ? on : off).select(1, 2);
  };
  const auto colours =
      at::stack({colour(true, true, true), colour(true, false, false), colour(false, true, false), colour(false, false, true),
                 colour(true, true, false), colour(true, false, true), colour(false, true, true)},
                1);  // [B, 7, F, H, W]
  const auto shares = means_of_squares(colours, kSide);
  const auto first = shares.narrow(2, 0, 1).expand({-1, -1, kFramesPerLatent - 1, -1, -1});
  const auto frames = at::cat({first, shares}, 2).unflatten(2, {-1, kFramesPerLatent});  // [B, 7, f, 4, h, w]
  return frames.permute({0, 3, 1, 2, 4, 5}).flatten(1, 2).contiguous();
}

at::Tensor of_half_size(const at::Tensor& clip) { return means_of_squares(clip, 2); }

}  // namespace burnish::models::wan
