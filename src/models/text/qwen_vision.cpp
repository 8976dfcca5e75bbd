#include "models/text/qwen_vision.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/text/shape_reading.h"
#include "models/text/vision_layer.h"

namespace burnish::models::text {

namespace {

constexpr double kVisionEps = 1e-6;

/// Attends within windows where its inputs have, behind those of every layer: patches of each window [W,S], bias [W,1,1,S], where each
/// patch is among them [N].
class QwenVisionLayer final : public VisionLayer<nn::RMSNorm> {
 public:
  QwenVisionLayer(const VisionConfig& c, const at::TensorOptions& options)
      : VisionLayer(c.width, c.num_heads, options),
        gate_(c.width, c.hidden, options),
        up_(c.width, c.hidden, options),
        down_(c.hidden, c.width, options) {
    own("mlp.gate_proj", gate_);
    own("mlp.up_proj", up_);
    own("mlp.down_proj", down_);
  }

 private:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const nn::Tensors& in) const override {
    if (in.size() <= 3) return nn::attention(q, k, v);
    const auto &patches_WS = in[3], &bias = in[4], &places_N = in[5];
    auto windows = [&](const at::Tensor& x_1HNd) {
      return x_1HNd[0].index_select(1, patches_WS.flatten()).unflatten(1, patches_WS.sizes()).transpose(0, 1);
    };
    auto attended_WHSd = nn::attention(windows(q), windows(k), windows(v), bias);
    return attended_WHSd.transpose(0, 1).flatten(1, 2).index_select(1, places_N).unsqueeze(0);
  }
  at::Tensor feed_forward(const at::Tensor& normed_1ND) override {
    return down_.forward(at::silu(gate_.forward(normed_1ND)) * up_.forward(normed_1ND));
  }
  nn::Linear gate_, up_, down_;
};

/// The last three inputs of a layer that attends within windows; those at the right and the bottom may be smaller, and are filled up with
/// patches that are not seen.
nn::Tensors windows_of(const VisionConfig& c, int64_t rows, int64_t columns, c10::Device device) {
  const auto side = c.window / c.cell(), cell = c.merge * c.merge;
  const auto most = std::min(side, rows) * std::min(side, columns) * cell;
  std::vector<int64_t> patches, places(static_cast<size_t>(rows * columns * cell));
  std::vector<float> bias;
  for (int64_t top = 0; top < rows; top += side) {
    for (int64_t left = 0; left < columns; left += side) {
      auto begin = patches.size();
      for (auto row = top; row < std::min(top + side, rows); ++row) {
        for (auto column = left; column < std::min(left + side, columns); ++column) {
          for (auto patch = (row * columns + column) * cell, end = patch + cell; patch < end; ++patch) {
            places[static_cast<size_t>(patch)] = std::ssize(patches);
            patches.push_back(patch);
          }
        }
      }
      bias.resize(patches.size(), 0);
      patches.resize(begin + static_cast<size_t>(most), 0);
      bias.resize(patches.size(), -std::numeric_limits<float>::infinity());
    }
  }
  return {at::tensor(patches).view({-1, most}).to(device), at::tensor(bias).view({-1, 1, 1, most}).to(device),
          at::tensor(places).to(device)};
}

/// Refuses a config.json that says otherwise than the shapes.
void check_vision_shapes(const VisionConfig& c, const nlohmann::json& json, const io::Shapes& shapes) {
  agree(json, "hidden_size", c.width);
  agree(json, "intermediate_size", c.hidden);
  agree(json, "depth", c.num_layers);
  agree(json, "patch_size", c.patch);
  agree(json, "temporal_patch_size", c.num_frames);
  agree(json, "out_hidden_size", c.out_width);
  for (const char* key : {"in_channels", "in_chans"}) agree(json, key, dim_of(shapes, kVisionMark, 1));
  auto merged = dim_of(shapes, "merger.mlp.0.weight", 1) / c.width;
  agree(json, "spatial_merge_size", static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(merged)))));
}

void check_vision(const VisionConfig& c) {
  constexpr int64_t kMostMerged = 64, kMostWindow = 1 << 20;
  bool fits = c.num_heads > 0 && c.width % (4 * c.num_heads) == 0 && c.merge > 0 && c.merge <= kMostMerged && c.window >= c.cell() &&
              c.window <= kMostWindow && c.num_layers > 0;
  if (!fits)
    data_error(
        "models",
        "the vision tower's {} heads in a width of {}, patches of {} pixels, cells of {} patches and windows of {} pixels do not fit "
        "together; its files are damaged",
        c.num_heads, c.width, c.patch, c.merge, c.window);
}

}  // namespace

VisionConfig vision_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  VisionConfig c;
  c.width = dim_of(shapes, kVisionMark, 0);
  c.num_frames = dim_of(shapes, kVisionMark, 2);
  c.patch = dim_of(shapes, kVisionMark, 3);
  c.num_layers = io::count_of(shapes, "blocks.{}.");
  c.hidden = dim_of(shapes, "blocks.0.mlp.gate_proj.weight", 0);
  c.out_width = dim_of(shapes, "merger.mlp.2.weight", 0);
  if (config_json.is_object() && config_json.contains("vision_config")) {
    const auto& json = config_json["vision_config"];
    take(json, "num_heads", c.num_heads);
    take(json, "spatial_merge_size", c.merge);
    take(json, "window_size", c.window);
    take(json, "tokens_per_second", c.places_per_second);
    std::vector<int64_t> full(c.full_attention.begin(), c.full_attention.end());
    take(json, "fullatt_block_indexes", full);
    c.full_attention = {full.begin(), full.end()};
    check_vision_shapes(c, json, shapes);
  }
  check_vision(c);
  return c;
}

/// A cell's patches, normed and side by side, become a token of the text.
struct QwenVision::Merger {
  Merger(const VisionConfig& c, const at::TensorOptions& o)
      : norm(c.width, kVisionEps, o),
        first(c.width * c.merge * c.merge, c.width * c.merge * c.merge, o),
        last(c.width * c.merge * c.merge, c.out_width, o) {}
  at::Tensor forward(const at::Tensor& x_ND) const {
    return last.forward(at::gelu(first.forward(norm.forward(x_ND).reshape({-1, first.in_features()}))));
  }
  nn::RMSNorm norm;
  nn::Linear first, last;
};

QwenVision::QwenVision(const VisionConfig& c, const at::TensorOptions& options)
    : config_(c),
      patch_weight_(at::empty({c.width, 3, c.num_frames, c.patch, c.patch}, options)),
      merger_(std::make_unique<Merger>(c, options)) {
  own("patch_embed.proj.weight", patch_weight_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<QwenVisionLayer>(c, options));
    own("blocks." + std::to_string(i), *layers_.back());
  }
  own("merger.ln_q", merger_->norm);
  own("merger.mlp.0", merger_->first);
  own("merger.mlp.2", merger_->last);
}

QwenVision::~QwenVision() = default;

at::Tensor QwenVision::forward(const Patches& patches) {
  const auto device = patch_weight_.device();
  auto rotary = rotary_of_patches(config_, config_.width / config_.num_heads, patches.rows, patches.columns, device);
  auto windows = windows_of(config_, patches.rows, patches.columns, device);
  auto x = at::linear(patches.pixels_NF.to(device, patch_weight_.scalar_type()), patch_weight_.flatten(1)).unsqueeze(0);
  for (size_t i = 0; i < layers_.size(); ++i) {
    nn::Tensors inputs{x, rotary[0], rotary[1]};
    if (!config_.full_attention.contains(static_cast<int64_t>(i))) inputs.insert(inputs.end(), windows.begin(), windows.end());
    x = layers_[i]->run(inputs)[0];
  }
  return merger_->forward(x[0]).view({patches.rows, patches.columns, -1});
}

}  // namespace burnish::models::text
