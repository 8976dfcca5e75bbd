#include "data/buckets.h"

#include <algorithm>
#include <array>
#include <cfenv>
#include <cmath>
#include <set>
#include <utility>

#include "base/input_error.h"

namespace burnish::data {

namespace {

/// OneTrainer's shapes, longer side over shorter.
constexpr std::array kShapes{1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0};

double shape_of(Size size) { return static_cast<double>(size.width) / static_cast<double>(size.height); }

int64_t down(int64_t side, int64_t step) { return side / step * step; }

int64_t rounded(double side) { return static_cast<int64_t>(side + 0.5); }

/// The ends of sd-scripts' sides as whole steps.
std::pair<int64_t, int64_t> ends(const BucketRule& rule) {
  return {down(rule.least, rule.step), down(rule.most + rule.step - 1, rule.step)};
}

std::set<std::pair<int64_t, int64_t>> kohya_sizes(const BucketRule& rule) {
  auto [least, most] = ends(rule);
  auto area = rule.resolution.height * rule.resolution.width;
  auto side = down(static_cast<int64_t>(std::sqrt(static_cast<double>(area))), rule.step);
  std::set<std::pair<int64_t, int64_t>> sizes{{side, side}};
  for (auto width = least; width <= most; width += rule.step) {
    auto height = std::min(most, down(area / width, rule.step));
    if (height >= least) sizes.insert({{width, height}, {height, width}});
  }
  return sizes;
}

std::set<std::pair<int64_t, int64_t>> onetrainer_sizes(const BucketRule& rule) {
  auto side = std::sqrt(static_cast<double>(rule.resolution.height * rule.resolution.width));
  auto in_steps = [&](double length) { return static_cast<int64_t>(std::nearbyint(length / static_cast<double>(rule.step))) * rule.step; };
  std::set<std::pair<int64_t, int64_t>> sizes;
  for (auto shape : kShapes) {
    auto shorter = in_steps(1 / std::sqrt(shape) * side), longer = in_steps(shape / std::sqrt(shape) * side);
    if (shorter > 0) sizes.insert({{shorter, longer}, {longer, shorter}});
  }
  return sizes;
}

/// The picture's own size, scaled down to the area: of the two ways to round one side to steps that which keeps the shape better.
Size own_size(const BucketRule& rule, Size picture) {
  auto area = rule.resolution.height * rule.resolution.width;
  auto size = picture;
  if (picture.width * picture.height > area) {
    auto shape = shape_of(picture), width = std::sqrt(static_cast<double>(area) * shape), height = static_cast<double>(area) / width;
    auto in_steps = [&](double side) { return down(rounded(side), rule.step); };
    auto by_width = in_steps(width), by_height = in_steps(height);
    auto error = [&](int64_t w, int64_t h) { return h > 0 ? std::abs(shape_of({h, w}) - shape) : HUGE_VAL; };
    auto height_for = in_steps(static_cast<double>(by_width) / shape), width_for = in_steps(static_cast<double>(by_height) * shape);
    if (error(by_width, height_for) < error(width_for, by_height)) size = {rounded(static_cast<double>(by_width) / shape), by_width};
    else size = {by_height, rounded(static_cast<double>(by_height) * shape)};
  }
  return {down(size.height, rule.step), down(size.width, rule.step)};
}

/// OneTrainer compares height by width, sd-scripts width by height.
double distance(const BucketRule& rule, Size bucket, Size picture) {
  if (rule.kind == BucketRule::Kind::kohya) return std::abs(shape_of(bucket) - shape_of(picture));
  return std::abs(1 / shape_of(bucket) - 1 / shape_of(picture));
}

}  // namespace

void check_buckets(const BucketRule& rule, int64_t division) {
  if (rule.step < 1 || rule.step % division != 0)
    config_error("data", "bucket_reso_steps must be a multiple of {}, which this model's sides are, not {}", division, rule.step);
  if (rule.resolution.height < rule.step || rule.resolution.width < rule.step)
    config_error("data", "the resolution {}x{} is smaller than a step of {}", rule.resolution.width, rule.resolution.height, rule.step);
  if (rule.kind != BucketRule::Kind::kohya) return;
  auto [least, most] = ends(rule);
  auto shorter = std::min(rule.resolution.height, rule.resolution.width), longer = std::max(rule.resolution.height, rule.resolution.width);
  if (least < 1 || least > shorter)
    config_error("data", "min_bucket_reso must lie between a step of {} and the resolution's {}, not at {}", rule.step, shorter,
                 rule.least);
  if (most < longer) config_error("data", "max_bucket_reso {} is below the resolution's {}; raise it", rule.most, longer);
}

std::vector<Size> bucket_sizes(const BucketRule& rule) {
  std::vector<Size> sizes;
  for (auto [width, height] : rule.kind == BucketRule::Kind::kohya ? kohya_sizes(rule) : onetrainer_sizes(rule))
    sizes.push_back({height, width});
  return sizes;
}

Size bucket_of(const BucketRule& rule, Size picture) {
  if (rule.kind == BucketRule::Kind::kohya && !rule.upscale) return own_size(rule, picture);
  auto sizes = bucket_sizes(rule);
  if (rule.kind == BucketRule::Kind::kohya && std::ranges::find(sizes, picture) != sizes.end()) return picture;
  auto bucket = *std::ranges::min_element(sizes, {}, [&](Size size) { return distance(rule, size, picture); });
  bool fits = bucket.height <= picture.height && bucket.width <= picture.width;
  return rule.upscale || fits ? bucket : own_size(rule, picture);
}

}  // namespace burnish::data
