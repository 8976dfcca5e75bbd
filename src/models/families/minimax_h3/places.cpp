#include "models/families/minimax_h3/places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace burnish::models::minimax_h3 {

namespace {

constexpr double kUnitsOfFrame = 5.0 / 3.0, kUnitsOfSide = 32;
constexpr int64_t kLatentsOfClip = 5, kFramesOfLatent = 4;

/// Places along a side of so many latents, of which every other one begins a token, in a picture of this area.
at::Tensor along_side(int64_t num_latents, double root_of_area, const at::TensorOptions& options) {
  const auto share = static_cast<double>(num_latents) / root_of_area, first = (1 - share) / 2;
  const auto num_tokens = num_latents / 2;
  return (at::arange(num_tokens, options) * (share / static_cast<double>(num_tokens)) + first) * kUnitsOfSide;
}

/// Places of the rows and columns of tokens of a grid.
std::pair<at::Tensor, at::Tensor> sides_of(const Grid& grid, const at::TensorOptions& options) {
  const auto root = std::sqrt(static_cast<double>(grid.rows) * static_cast<double>(grid.columns));
  return {along_side(grid.rows, root, options), along_side(grid.columns, root, options)};
}

/// The grid of latents of frames of these sizes, [B, C, h, w] or [B, C, F, h, w].
Grid grid_of(at::IntArrayRef sizes) { return {sizes.size() == 5 ? sizes[2] : 1, sizes[sizes.size() - 2], sizes.back()}; }

/// Places [3, L] of all tokens in time, row and column; times of what is no text are counted from its end.
at::Tensor places_of(const Layout& l, const at::TensorOptions& options) {
  const auto no_place = at::zeros({l.num_text + l.num_seen}, options);
  std::vector<at::Tensor> times{at::arange(l.num_text + l.num_seen, options)}, all_rows{no_place}, all_columns{no_place};
  auto add_frames = [&](const Grid& grid, double start) {
    const auto [rows, columns] = sides_of(grid, options);
    const auto times_F = times_of_frames(grid.num_frames, options) + start;
    const std::vector<int64_t> sizes{grid.num_frames, rows.size(0), columns.size(0)};
    times.push_back(times_F.view({-1, 1, 1}).expand(sizes).flatten());
    all_rows.push_back(rows.view({1, -1, 1}).expand(sizes).flatten());
    all_columns.push_back(columns.view({1, 1, -1}).expand(sizes).flatten());
  };
  auto add_sound = [&](const Grid& grid, double start, int64_t num_sound) {
    const auto columns = sides_of(grid, options).second;
    for (auto column : {int64_t{0}, columns.size(0) - 1}) {
      times.push_back(at::arange(num_sound, options) + start);
      all_rows.push_back(at::zeros({num_sound}, options));
      all_columns.push_back(columns.narrow(0, column, 1).expand({num_sound}));
    }
  };
  for (const auto& run : l.given) {
    if (run.is_sound()) add_sound(run.grid, run.start, run.num_sound);
    else add_frames(run.grid, run.start);
  }
  add_sound(l.grid, l.start, l.num_sound);
  add_frames(l.grid, l.start);
  return at::stack({at::cat(times), at::cat(all_rows), at::cat(all_columns)});
}

}  // namespace

int64_t frames_of_latents(int64_t num_latents) {
  return num_latents * kFramesOfLatent - (num_latents + kLatentsOfClip - 1) / kLatentsOfClip * (kFramesOfLatent - 1);
}

double time_of_last(int64_t num_frames) { return static_cast<double>(frames_of_latents(num_frames) - 1) * kUnitsOfFrame; }

at::Tensor times_of_frames(int64_t num_frames, const at::TensorOptions& options) {
  const auto number = at::arange(num_frames, options);
  const auto num_clips = (number / static_cast<double>(kLatentsOfClip)).floor(), in_clip = number - num_clips * kLatentsOfClip;
  const auto frames_of_clip = static_cast<double>((kLatentsOfClip - 1) * kFramesOfLatent + 1);
  // Before a latent that is not the first of its clip lie one frame and four for each latent between.
  const auto frames = num_clips * frames_of_clip + (in_clip * kFramesOfLatent - (kFramesOfLatent - 1)).clamp_min(0);
  return frames * kUnitsOfFrame;
}

int64_t Layout::num_given_tokens() const {
  int64_t count = 0;
  for (const auto& run : given) count += run.num_tokens();
  return count;
}

void add_given_frames(Layout& layout, const std::vector<at::IntArrayRef>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i)
    layout.given.push_back({.number = i, .start = i == 0 ? 0 : time_of_last(layout.grid.num_frames), .grid = grid_of(sizes[i])});
}

void add_references(Layout& layout, const std::vector<at::IntArrayRef>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto& own = sizes[i];
    if (own.size() == 3) {
      const auto num_sound = own.back() / 2;
      layout.given.push_back({.number = i, .start = layout.start, .grid = layout.grid, .num_sound = num_sound});
      layout.start += static_cast<double>(num_sound);
      continue;
    }
    const GivenRun frames{.number = i, .start = layout.start, .grid = grid_of(own)};
    double lasts = 1;
    if (own.size() == 5) {
      ++i;
      const auto num_sound = sizes.at(i).back() / 2;
      if (num_sound > 0) layout.given.push_back({.number = i, .start = layout.start, .grid = frames.grid, .num_sound = num_sound});
      lasts = std::max(static_cast<double>(num_sound), static_cast<double>(frames_of_latents(frames.grid.num_frames)) * kUnitsOfFrame);
    }
    layout.given.push_back(frames);
    layout.start += lasts;
  }
}

std::pair<at::Tensor, at::Tensor> rotary_tables_of(const Config& c, const Layout& layout, const TextPlaces& text,
                                                   const at::TensorOptions& options) {
  const auto opts = options.dtype(at::kDouble);
  const auto num_before = layout.num_text + layout.num_seen;
  const auto num_behind = layout.num_given_tokens() + layout.num_sound_tokens() + layout.grid.num_tokens();
  const auto is_behind_L = at::cat({at::zeros({num_before}, opts), at::ones({num_behind}, opts)});
  const auto places_3L = places_of(layout, opts);
  auto times = places_3L[0] + is_behind_L * static_cast<double>(num_before);
  // One sample alone has nothing that is masked.
  if (text.mask_BT.size(0) > 1) {
    const auto length_B1 = text.mask_BT.to(at::kDouble).sum(1, /*keepdim=*/true) + static_cast<double>(layout.num_seen);
    times = places_3L[0] + length_B1 * is_behind_L;
  }
  if (text.places_BL.defined()) {
    const auto of_text = text.places_BL.to(opts);
    if (times.dim() == 1) times = times.expand({of_text.size(0), -1});
    times = at::cat({of_text, times.narrow(1, num_before, num_behind)}, 1);
  }
  const auto frequencies =
      (at::arange(c.heads.num_frequencies, opts) * (-std::log(c.heads.rope_theta) / static_cast<double>(c.heads.num_frequencies)))
          .exp()
          .to(at::kFloat);
  auto angles_of = [&](const at::Tensor& places) { return places.to(at::kFloat).unsqueeze(-1) * frequencies; };
  auto of_plane = at::cat({angles_of(places_3L[1]), angles_of(places_3L[2])}, -1), of_time = angles_of(times);
  if (of_time.dim() == 3) of_plane = of_plane.expand({of_time.size(0), -1, -1});
  const auto angles = at::cat({of_time, of_plane}, -1);
  return {angles.cos(), angles.sin()};
}

}  // namespace burnish::models::minimax_h3
