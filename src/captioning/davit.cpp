#include "captioning/davit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/model_values.h"
#include "nn/attention.h"
#include "nn/by_channel.h"
#include "nn/mlp.h"
#include "nn/windows.h"

namespace burnish::captioning {

namespace {

constexpr double kDavitEps = 1e-5;
constexpr int64_t kHeadWidth = 32, kMixKernel = 3;  // of published ones
constexpr const char* kEyeName = "Florence-2 eye";

at::Tensor to_tokens(const at::Tensor& x_BCHW) { return x_BCHW.flatten(2).transpose(1, 2); }
at::Tensor to_places(const at::Tensor& x_BNC, const at::Tensor& like_BCHW) { return x_BNC.transpose(1, 2).view_as(like_BCHW); }

/// Attention of places within squares of a window's side, those at the edges filled up with zeros.
struct WindowAttention : nn::Module {
  WindowAttention(const DavitStage& s, int64_t window, const at::TensorOptions& options)
      : num_heads(s.num_heads), side(window), qkv(s.width, 3 * s.width, options), proj(s.width, s.width, options) {
    own("qkv", qkv);
    own("proj", proj);
  }
  at::Tensor forward(const at::Tensor& x_BNC, int64_t height, int64_t width) const {
    const auto batch = x_BNC.size(0), channels = x_BNC.size(2);
    const auto below = (side - height % side) % side, right = (side - width % side) % side;
    const auto padded = at::constant_pad_nd(x_BNC.view({batch, height, width, channels}), {0, 0, 0, right, 0, below});
    const auto heads = qkv.forward(nn::windows_of(padded, side)).chunk(3, -1);
    auto split = [&](const at::Tensor& x) { return nn::split_heads(x, num_heads); };
    const auto seen = proj.forward(nn::merge_heads(nn::attention(split(heads[0]), split(heads[1]), split(heads[2]))));
    const auto joined = nn::out_of_windows(seen, side, padded.size(1), padded.size(2));
    return joined.narrow(1, 0, height).narrow(2, 0, width).reshape({batch, height * width, channels});
  }
  int64_t num_heads, side;
  nn::Linear qkv, proj;
};

/// Attention of channels within groups of them: what a token is elsewhere is a channel here, and its numbers are those of all places.
struct ChannelAttention : nn::Module {
  ChannelAttention(const DavitStage& s, int64_t /*window*/, const at::TensorOptions& options)
      : num_groups(s.num_groups), qkv(s.width, 3 * s.width, options), proj(s.width, s.width, options) {
    own("qkv", qkv);
    own("proj", proj);
  }
  at::Tensor forward(const at::Tensor& x_BNC, int64_t /*height*/, int64_t /*width*/) const {
    const auto heads = qkv.forward(x_BNC).chunk(3, -1);
    auto split = [&](const at::Tensor& x) { return nn::split_heads(x, num_groups).transpose(2, 3); };  // [B, groups, channels, N]
    const auto scale = 1.0 / std::sqrt(static_cast<double>(x_BNC.size(1)));
    const auto shares = at::softmax(at::matmul(split(heads[0]), split(heads[1]).transpose(2, 3)) * scale, -1);
    return proj.forward(nn::merge_heads(at::matmul(shares, split(heads[2])).transpose(2, 3)));
  }
  int64_t num_groups;
  nn::Linear qkv, proj;
};

/// {[B, C, H, W]} -> the same: attention and an MLP, each behind a norm, and before each what neighbours have in a channel.
template <class Attention>
class MixingBlock : public nn::Block {
 public:
  MixingBlock(const DavitStage& s, int64_t window, const char* name, const at::TensorOptions& options)
      : conv1_(s.width, kMixKernel, options),
        conv2_(s.width, kMixKernel, options),
        norm1_(s.width, kDavitEps, options),
        norm2_(s.width, kDavitEps, options),
        attention_(s, window, options),
        mlp_(s.width, s.hidden, options) {
    own("conv1", conv1_);
    own("norm1", norm1_);
    own(name, attention_);
    own("conv2", conv2_);
    own("norm2", norm2_);
    own("ffn", mlp_);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    const auto& given = in[0];
    auto tokens = to_tokens(conv1_.forward(given) + given);
    tokens = tokens + attention_.forward(norm1_.forward(tokens), given.size(2), given.size(3));
    const auto mid = to_places(tokens, given);
    tokens = to_tokens(conv2_.forward(mid) + mid);
    return {to_places(tokens + mlp_.forward(norm2_.forward(tokens)), given)};
  }

 private:
  nn::ByChannel conv1_, conv2_;
  nn::LayerNorm norm1_, norm2_;
  Attention attention_;
  nn::Mlp mlp_;
};
using SpatialBlock = MixingBlock<WindowAttention>;
using ChannelBlock = MixingBlock<ChannelAttention>;

std::vector<int64_t> numbers_of(const nlohmann::json& json, const char* key, std::vector<int64_t> otherwise) {
  const auto count = otherwise.size();
  io::take(json, key, otherwise, kEyeName);
  if (otherwise.size() != count)
    data_error("captioning", "the config.json of the {} has {} numbers of {}, and its weights have {} stages", kEyeName, otherwise.size(),
               key, count);
  return otherwise;
}

void check_stage(const DavitStage& s, int64_t number) {
  if (s.depth < 1 || s.stride < 1 || s.padding < 0 || s.num_heads < 1 || s.num_groups < 1 || s.width % s.num_heads != 0 ||
      s.width % s.num_groups != 0)
    data_error(
        "captioning",
        "stage {} of the {} has {} blocks {} wide with {} heads and {} groups, and convolves with stride {} and padding {}; at least "
        "one block, and heads and groups that divide the width, were expected",
        number, kEyeName, s.depth, s.width, s.num_heads, s.num_groups, s.stride, s.padding);
}

}  // namespace

DavitConfig davit_config(const nlohmann::json& json, const io::Shapes& shapes) {
  DavitConfig c;
  const auto count = io::count_of(shapes, "vision_tower.convs.{}.conv.weight");
  if (count < 1) data_error("captioning", "the weights of the {} have no stages", kEyeName);
  std::vector<int64_t> strides(static_cast<size_t>(count), 2), paddings(static_cast<size_t>(count), 1), heads;
  strides.front() = 4;
  paddings.front() = 3;
  for (int64_t i = 0; i < count; ++i) {
    const auto conv = fmt::format("vision_tower.convs.{}.", i), blocks = fmt::format("vision_tower.blocks.{}.", i);
    const auto width = io::side_of(shapes, conv + "conv.weight", 0, kEyeName),
               before = io::side_of(shapes, conv + "conv.weight", 1, kEyeName);
    c.stages.push_back({.width = width,
                        .depth = io::count_of(shapes, blocks + "{}.spatial_block.norm1.weight"),
                        .hidden = io::side_of(shapes, blocks + "0.spatial_block.ffn.fc1.weight", 0, kEyeName),
                        .kernel = io::side_of(shapes, conv + "conv.weight", 2, kEyeName),
                        .norm_first = io::side_of(shapes, conv + "norm.weight", 0, kEyeName) == before});
    heads.push_back(std::max<int64_t>(width / kHeadWidth, 1));
  }
  strides = numbers_of(json, "patch_stride", strides);
  paddings = numbers_of(json, "patch_padding", paddings);
  const auto groups = numbers_of(json, "num_groups", heads);
  heads = numbers_of(json, "num_heads", heads);
  for (size_t i = 0; i < c.stages.size(); ++i) {
    auto& s = c.stages[i];
    s.stride = strides[i];
    s.padding = paddings[i];
    s.num_heads = heads[i];
    s.num_groups = groups[i];
    check_stage(s, static_cast<int64_t>(i));
  }
  io::take(json, "window_size", c.window, kEyeName);
  if (c.window < 1)
    data_error("captioning", "the config.json of the {} has window_size {}, and at least 1 was expected", kEyeName, c.window);
  c.num_places = io::side_of(shapes, "multi_modal_projector.image_position_embed.row_embeddings.weight", 0, kEyeName);
  c.projected = io::side_of(shapes, "multi_modal_projector.image_projection.weight", 0, kEyeName);
  return c;
}

struct DavitEye::Stage {
  Stage(const DavitConfig& c, size_t number, const at::TensorOptions& options)
      : s(c.stages[number]),
        before(number > 0 ? c.stages[number - 1].width : 3),
        conv(before, s.width, s.kernel, s.stride, s.padding, options),
        norm(s.norm_first ? before : s.width, kDavitEps, options) {
    for (int64_t i = 0; i < s.depth; ++i) {
      spatial.push_back(std::make_unique<SpatialBlock>(s, c.window, "window_attn", options));
      by_channel.push_back(std::make_unique<ChannelBlock>(s, c.window, "channel_attn", options));
    }
  }
  at::Tensor normed(const at::Tensor& x) const { return norm.forward(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}); }
  at::Tensor forward(at::Tensor x) {
    x = s.norm_first ? conv.forward(normed(x)) : normed(conv.forward(x));
    x = x.contiguous();
    for (size_t i = 0; i < spatial.size(); ++i) x = by_channel[i]->run(spatial[i]->run({x}))[0];
    return x;
  }
  DavitStage s;
  int64_t before;
  nn::Conv2d conv;
  nn::LayerNorm norm;
  std::vector<std::unique_ptr<SpatialBlock>> spatial;
  std::vector<std::unique_ptr<ChannelBlock>> by_channel;
};

DavitEye::DavitEye(const DavitConfig& c, const at::TensorOptions& options)
    : config_(c),
      rows_(c.num_places, c.stages.back().width / 2, options),
      columns_(c.num_places, c.stages.back().width - c.stages.back().width / 2, options),
      projection_(c.stages.back().width, c.projected, options, false),
      norm_(c.projected, kDavitEps, options) {
  for (size_t i = 0; i < c.stages.size(); ++i) {
    auto& stage = *stages_.emplace_back(std::make_unique<Stage>(c, i, options));
    own(fmt::format("vision_tower.convs.{}.conv", i), stage.conv);
    own(fmt::format("vision_tower.convs.{}.norm", i), stage.norm);
    for (size_t k = 0; k < stage.spatial.size(); ++k) {
      own(fmt::format("vision_tower.blocks.{}.{}.spatial_block", i, k), *stage.spatial[k]);
      own(fmt::format("vision_tower.blocks.{}.{}.channel_block", i, k), *stage.by_channel[k]);
    }
  }
  own("multi_modal_projector.image_position_embed.row_embeddings", rows_);
  own("multi_modal_projector.image_position_embed.column_embeddings", columns_);
  own("multi_modal_projector.image_projection", projection_);
  own("multi_modal_projector.image_proj_norm", norm_);
}

DavitEye::~DavitEye() = default;

int64_t DavitEye::places_of(const DavitConfig& config, int64_t side) {
  for (const auto& s : config.stages) side = (side + 2 * s.padding - s.kernel) / s.stride + 1;
  return side;
}

/// Adds where each place lies, and that the picture is the first of a clip: the sines and cosines of time 0, which are 0 and 1 in turn.
at::Tensor DavitEye::placed(const at::Tensor& x_BCHW) const {
  const auto height = x_BCHW.size(2), width = x_BCHW.size(3);
  const auto row_HC = rows_.forward(at::arange(height, x_BCHW.options().dtype(at::kLong)));
  const auto column_WC = columns_.forward(at::arange(width, x_BCHW.options().dtype(at::kLong)));
  const auto place_HWC = at::cat({column_WC.unsqueeze(0).expand({height, -1, -1}), row_HC.unsqueeze(1).expand({-1, width, -1})}, -1);
  const auto time_C = at::arange(x_BCHW.size(1), x_BCHW.options().dtype(at::kLong)).remainder(2);  // bf16 counts no further than 256
  return to_tokens(x_BCHW + place_HWC.permute({2, 0, 1})) + time_C;
}

at::Tensor DavitEye::forward(const at::Tensor& image_B3SS) {
  auto x = image_B3SS;
  for (auto& stage : stages_) x = stage->forward(x);
  const auto tokens = placed(x);
  return norm_.forward(projection_.forward(at::cat({tokens.mean(1, true), tokens}, 1)));
}

}  // namespace burnish::captioning
