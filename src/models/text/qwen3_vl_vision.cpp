#include "models/text/qwen3_vl_vision.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/text/qwen_vision.h"
#include "models/text/shape_reading.h"
#include "models/text/vision_layer.h"
#include "nn/linear.h"

namespace burnish::models::text {

namespace {

constexpr double kEps = 1e-6;
constexpr const char* kPositions = "pos_embed.weight";

class Qwen3VlVisionLayer final : public VisionLayer<nn::LayerNorm> {
 public:
  Qwen3VlVisionLayer(const Qwen3VlVisionConfig& c, const at::TensorOptions& options)
      : VisionLayer(c.width, c.num_heads, options), first_(c.width, c.hidden, options), last_(c.hidden, c.width, options) {
    own("mlp.linear_fc1", first_);
    own("mlp.linear_fc2", last_);
  }

 private:
  at::Tensor feed_forward(const at::Tensor& normed_1ND) override { return last_.forward(at::gelu(first_.forward(normed_1ND), "tanh")); }
  nn::Linear first_, last_;
};

/// Returns the layers whose states go into the text encoder, for the published sizes of 24 and 27 layers.
std::vector<int64_t> published_deepstack(int64_t num_layers) {
  if (num_layers == 24) return {5, 11, 17};
  if (num_layers == 27) return {8, 16, 24};
  data_error("models",
             "the vision tower of Qwen3-VL has {} layers, and no config.json says behind which of them deepstack_visual_indexes are; name "
             "its folder with the config.json",
             num_layers);
}

/// Refuses a config.json that says otherwise than the shapes.
void check_shapes(const Qwen3VlVisionConfig& c, const nlohmann::json& json, const io::Shapes& shapes) {
  agree(json, "hidden_size", c.width);
  agree(json, "intermediate_size", c.hidden);
  agree(json, "depth", c.num_layers);
  agree(json, "patch_size", c.patch);
  agree(json, "temporal_patch_size", c.num_frames);
  agree(json, "out_hidden_size", c.out_width);
  agree(json, "spatial_merge_size", c.merge);
  agree(json, "num_position_embeddings", dim_of(shapes, kPositions, 0));
  agree(json, "in_channels", dim_of(shapes, kVisionMark, 1));
}

void check_vision(const Qwen3VlVisionConfig& c, const io::Shapes& shapes) {
  constexpr int64_t kMostMerged = 64;
  bool fits = c.num_heads > 0 && c.width % (4 * c.num_heads) == 0 && c.merge > 0 && c.merge <= kMostMerged && c.num_layers > 0 &&
              c.side > 0 && c.side * c.side == dim_of(shapes, kPositions, 0);
  if (!fits)
    data_error("models",
               "the vision tower's {} heads in a width of {}, patches of {} pixels, cells of {} patches and {} positions do not fit "
               "together; its files are damaged",
               c.num_heads, c.width, c.patch, c.merge, dim_of(shapes, kPositions, 0));
  auto is_layer = [&](int64_t layer) { return layer >= 0 && layer < c.num_layers; };
  const bool ascend = std::ranges::adjacent_find(c.deepstack, std::greater_equal<>()) == c.deepstack.end();
  if (const auto found = io::count_of(shapes, "deepstack_merger_list.{}.");
      !ascend || !std::ranges::all_of(c.deepstack, is_layer) || std::ssize(c.deepstack) != found)
    data_error("models", "the vision tower has {} layers and {} of deepstack, and its config.json has deepstack_visual_indexes {}",
               c.num_layers, found, nlohmann::json(c.deepstack).dump());
}

/// The positions before and behind each row of patches along a side, and how far the row is from the first to the second.
struct Taps {
  at::Tensor before_N, behind_N, share_N;
};
Taps taps_of(const at::Tensor& place_N, int64_t num_places, int64_t side) {
  auto exact = place_N * static_cast<double>(side - 1) / static_cast<double>(std::max<int64_t>(num_places - 1, 1));
  auto floor = at::floor(exact);
  auto before = floor.to(at::kLong);
  return {before, (before + 1).clamp_max(side - 1), exact - floor};
}

}  // namespace

Qwen3VlVisionConfig qwen3_vl_vision_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  Qwen3VlVisionConfig c;
  c.width = dim_of(shapes, kVisionMark, 0);
  c.num_frames = dim_of(shapes, kVisionMark, 2);
  c.patch = dim_of(shapes, kVisionMark, 3);
  c.num_layers = io::count_of(shapes, "blocks.{}.");
  c.hidden = dim_of(shapes, "blocks.0.mlp.linear_fc1.weight", 0);
  c.out_width = dim_of(shapes, "merger.linear_fc2.weight", 0);
  auto root = [](int64_t square) { return static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(square)))); };
  c.side = root(dim_of(shapes, kPositions, 0));
  c.merge = root(dim_of(shapes, "merger.linear_fc1.weight", 1) / std::max<int64_t>(c.width, 1));
  const bool has_config = config_json.is_object() && config_json.contains("vision_config");
  const auto json = has_config ? config_json["vision_config"] : nlohmann::json();
  take(json, "num_heads", c.num_heads);
  if (json.is_object() && json.contains("deepstack_visual_indexes")) take(json, "deepstack_visual_indexes", c.deepstack);
  else if (io::count_of(shapes, "deepstack_merger_list.{}.") == 0) c.deepstack.clear();
  else c.deepstack = published_deepstack(c.num_layers);
  check_shapes(c, json, shapes);
  check_vision(c, shapes);
  return c;
}

Qwen3VlVisionConfig qwen3_vl_2b_vision() {
  Qwen3VlVisionConfig c;
  c.out_width = 2048;
  return c;
}

Qwen3VlVisionConfig qwen3_vl_8b_vision() {
  Qwen3VlVisionConfig c;
  c.width = 1152;
  c.hidden = 4304;
  c.num_layers = 27;
  c.out_width = 4096;
  c.deepstack = published_deepstack(c.num_layers);
  return c;
}

/// A cell's patches side by side become a token of the text. The norm is of each patch, or of all of them together.
struct Qwen3VlVision::Merger : nn::Module {
  Merger(const Qwen3VlVisionConfig& c, bool norms_together, const at::TensorOptions& o)
      : norm(norms_together ? c.width * c.merge * c.merge : c.width, kEps, o),
        first(c.width * c.merge * c.merge, c.width * c.merge * c.merge, o),
        last(c.width * c.merge * c.merge, c.out_width, o),
        is_together(norms_together) {
    own("norm", norm);
    own("linear_fc1", first);
    own("linear_fc2", last);
  }
  at::Tensor forward(const at::Tensor& x_ND) const {
    auto joined = [&](const at::Tensor& x) { return x.reshape({-1, first.in_features()}); };
    return last.forward(at::gelu(first.forward(is_together ? norm.forward(joined(x_ND)) : joined(norm.forward(x_ND)))));
  }
  nn::LayerNorm norm;
  nn::Linear first, last;
  bool is_together;
};

Qwen3VlVision::Qwen3VlVision(const Qwen3VlVisionConfig& c, const at::TensorOptions& options)
    : config_(c),
      patch_weight_(at::empty({c.width, 3, c.num_frames, c.patch, c.patch}, options)),
      patch_bias_(at::empty({c.width}, options)),
      positions_(c.side * c.side, c.width, options),
      merger_(std::make_unique<Merger>(c, false, options)) {
  own("patch_embed.proj.weight", patch_weight_);
  own("patch_embed.proj.bias", patch_bias_);
  own("pos_embed", positions_);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    layers_.push_back(std::make_unique<Qwen3VlVisionLayer>(c, options));
    own("blocks." + std::to_string(i), *layers_.back());
  }
  own("merger", *merger_);
  for (size_t i = 0; i < c.deepstack.size(); ++i) {
    deepstack_.push_back(std::make_unique<Merger>(c, true, options));
    own("deepstack_merger_list." + std::to_string(i), *deepstack_.back());
  }
}

Qwen3VlVision::~Qwen3VlVision() = default;

/// The learned positions of a grid [N, D], between those of the trained one, whose corners are the corners.
at::Tensor Qwen3VlVision::places(int64_t rows, int64_t columns) const {
  auto [row_N, column_N] =
      places_of_patches(config_, rows, columns, at::TensorOptions().dtype(at::kFloat).device(positions_.weight.device()));
  const auto [top, bottom, down] = taps_of(row_N, rows * config_.merge, config_.side);
  const auto [left, right, across] = taps_of(column_N, columns * config_.merge, config_.side);
  auto at = [&](const at::Tensor& row, const at::Tensor& column, const at::Tensor& weight) {
    return positions_.forward(row * config_.side + column) * weight.unsqueeze(1);
  };
  return at(top, left, (1 - down) * (1 - across)) + at(top, right, (1 - down) * across) + at(bottom, left, down * (1 - across)) +
         at(bottom, right, down * across);
}

at::Tensor Qwen3VlVision::forward(const Patches& patches) {
  const auto device = patch_weight_.device();
  auto rotary = rotary_of_patches(config_, config_.width / config_.num_heads, patches.rows, patches.columns, device);
  auto x = at::linear(patches.pixels_NF.to(device, patch_weight_.scalar_type()), patch_weight_.flatten(1), patch_bias_);
  x = (x + places(patches.rows, patches.columns).to(x.scalar_type())).unsqueeze(0);
  nn::Tensors added;
  for (size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i]->run({x, rotary[0], rotary[1]})[0];
    if (std::ranges::find(config_.deepstack, static_cast<int64_t>(i)) != config_.deepstack.end())
      added.push_back(deepstack_[added.size()]->forward(x[0]));
  }
  added.insert(added.begin(), merger_->forward(x[0]));
  return at::stack(added).unflatten(1, {patches.rows, patches.columns});
}

}  // namespace burnish::models::text
