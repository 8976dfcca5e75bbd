#include "models/text/patches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/text/resample.h"
#include "models/text/shape_reading.h"

namespace burnish::models::text {

PixelRule qwen3_vl_pixels() { return {.least = 256 * 256, .most = 4096 * 4096, .mean = {0.5, 0.5, 0.5}, .deviation = {0.5, 0.5, 0.5}}; }

PixelRule imagenet_pixels() {
  PixelRule rule;
  rule.mean = {0.485, 0.456, 0.406};
  rule.deviation = {0.229, 0.224, 0.225};
  return rule;
}

/// Three numbers, one for each colour.
static void take_colours(const nlohmann::json& json, const char* key, std::array<double, 3>& value) {
  std::vector<double> stated{value.begin(), value.end()};
  take(json, key, stated);
  if (stated.size() != 3)
    data_error("models", "the preprocessor_config.json has {} numbers of {}, and three were expected", stated.size(), key);
  std::ranges::copy(stated, value.begin());
}

PixelRule pixel_rule(const nlohmann::json& json) {
  PixelRule rule;
  if (json.is_object() && json.contains("size")) {
    take(json["size"], "shortest_edge", rule.least);
    take(json["size"], "longest_edge", rule.most);
  }
  take(json, "min_pixels", rule.least);
  take(json, "max_pixels", rule.most);
  take_colours(json, "image_mean", rule.mean);
  take_colours(json, "image_std", rule.deviation);
  constexpr int64_t kMostPixels = 1 << 28;
  if (rule.least < 1 || rule.most < rule.least || rule.most > kMostPixels)
    data_error("models", "the preprocessor_config.json shows the vision tower from {} to {} pixels; its file is damaged", rule.least,
               rule.most);
  if (std::ranges::any_of(rule.deviation, [](double d) { return !(d > 0); }))
    data_error("models", "the preprocessor_config.json divides colours by the image_std {}, which is above 0; its file is damaged",
               nlohmann::json(rule.deviation).dump());
  return rule;
}

at::Tensor normalised(const at::Tensor& levels_3HW, const PixelRule& rule) {
  constexpr double kWhite = 255;
  auto of_colours = [&](const std::array<double, 3>& numbers) { return at::tensor(numbers, levels_3HW.options()).view({3, 1, 1}); };
  return (levels_3HW / kWhite - of_colours(rule.mean)) / of_colours(rule.deviation);
}

std::string settings_of(const PixelRule& rule) {
  auto settings = fmt::format("shown {} to {} pixels", rule.least, rule.most);
  const PixelRule usual;
  if (rule.mean == usual.mean && rule.deviation == usual.deviation) return settings;
  return fmt::format("{}, colours by {} {}", settings, nlohmann::json(rule.mean).dump(), nlohmann::json(rule.deviation).dump());
}

std::pair<int64_t, int64_t> shown_size(int64_t height, int64_t width, const Patching& p, const PixelRule& rule) {
  constexpr int64_t kMostLong = 200;
  if (std::max(height, width) > kMostLong * std::min(height, width))
    data_error("models", "a picture is {} by {} pixels, and the vision tower sees none that is more than {} times as long as wide", width,
               height, kMostLong);
  const auto cell = static_cast<double>(p.cell());
  auto cells = [&](double side, double (*round)(double)) { return static_cast<int64_t>(round(side / cell)) * p.cell(); };
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  auto even = [](double x) { return std::nearbyint(x); };
  auto rows = cells(h, even), columns = cells(w, even);
  if (rows * columns > rule.most) {
    auto beta = std::sqrt(h * w / static_cast<double>(rule.most));
    auto down = [](double x) { return std::max(std::floor(x), 1.0); };
    return {cells(h / beta, down), cells(w / beta, down)};
  }
  if (rows * columns < rule.least) {
    auto beta = std::sqrt(static_cast<double>(rule.least) / (h * w));
    auto up = [](double x) { return std::ceil(x); };
    return {cells(h * beta, up), cells(w * beta, up)};
  }
  return {rows, columns};
}

Patches patches_of(const at::Tensor& levels_3HW, const Patching& p, const PixelRule& rule) {
  auto [height, width] = shown_size(levels_3HW.size(1), levels_3HW.size(2), p, rule);
  return patches_of_frames(resampled(levels_3HW, height, width, Filter::bicubic).unsqueeze(0), p, rule);
}

Patches patches_of_frames(const at::Tensor& levels_F3HW, const Patching& p, const PixelRule& rule) {
  auto rows = levels_F3HW.size(2) / p.cell(), columns = levels_F3HW.size(3) / p.cell();
  auto pixels = normalised(levels_F3HW, rule).view({-1, 3, rows, p.merge, p.patch, columns, p.merge, p.patch});
  auto patches = pixels.permute({2, 5, 3, 6, 1, 0, 4, 7});
  auto shape = patches.sizes().vec();
  shape[5] = p.num_frames;
  return {patches.expand(shape).flatten(4).flatten(0, 3).to(at::kFloat), rows, columns};
}

std::pair<at::Tensor, at::Tensor> places_of_patches(const Patching& p, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  auto shape = std::vector<int64_t>{rows, columns, p.merge, p.merge};
  return {at::arange(rows * p.merge, options).view({rows, 1, p.merge, 1}).expand(shape).flatten(),
          at::arange(columns * p.merge, options).view({1, columns, 1, p.merge}).expand(shape).flatten()};
}

nn::Tensors rotary_of_patches(const Patching& p, int64_t head_dim, int64_t rows, int64_t columns, c10::Device device) {
  constexpr double kTheta = 10000;
  auto opts = at::TensorOptions().dtype(at::kDouble).device(device);
  auto half = head_dim / 2;
  auto frequencies = (at::arange(0, half, 2, opts) * (-std::log(kTheta) / static_cast<double>(half))).exp();
  auto [row, column] = places_of_patches(p, rows, columns, opts);
  auto angles_NP = at::cat({row.unsqueeze(1) * frequencies, column.unsqueeze(1) * frequencies}, 1);
  return {angles_NP.cos().to(at::kFloat), angles_NP.sin().to(at::kFloat)};
}

}  // namespace burnish::models::text
