#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "base/number.h"
#include "io/model_values.h"
#include "nn/attention.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/mlp.h"
#include "nn/windows.h"
#include "tagging/network.h"
#include "tagging/stages.h"

namespace burnish::tagging {

namespace {

constexpr const char* kSwin = "Swin V2 tagger";
constexpr double kSwinEps = 1e-5;    // of its norms
constexpr double kHottest = 100;     // that a head's temperature may be
constexpr double kMostBias = 16;     // of a pair of places
constexpr double kFarthest = 8;      // of places in the table of offsets, before the logarithm
constexpr double kOtherPart = -100;  // added to pairs of tokens that are neighbours only since the picture was shifted

/// Numbers of a stage.
struct SwinStage {
  int64_t width = 128, depth = 2, num_heads = 4;
  int64_t grid = 112;    ///< rows and columns of its tokens
  int64_t window = 8;    ///< of a window's side
  int64_t trained = 0;   ///< the window's side by which offsets are told; 0: its own
  int64_t hidden = 512;  ///< width between the layers of the MLP
  int64_t offset_hidden = 512;
  int64_t shift() const { return grid > window ? window / 2 : 0; }
};
struct SwinConfig {
  int64_t side = 448, patch = 4, num_tags = 0;
  std::vector<SwinStage> stages = {};
};

/// Tells how far places lie apart, along one side, in logarithms: [2 · side - 1].
at::Tensor offsets_of(int64_t side, int64_t trained) {
  const auto farthest = std::max<int64_t>((trained > 0 ? trained : side) - 1, 1);
  const auto x = at::arange(1 - side, side, at::kDouble) * (kFarthest / static_cast<double>(farthest));
  return at::sign(x) * at::log2(at::abs(x) + 1) / std::log2(kFarthest);
}

/// Returns the row of the table of offsets for each pair of places of a window: [side² · side²].
at::Tensor pairs_of(int64_t side) {
  const auto one = at::arange(side, at::kLong);
  const auto rows = one.unsqueeze(1).expand({side, side}).reshape({-1}), columns = one.unsqueeze(0).expand({side, side}).reshape({-1});
  const auto apart = [&](const at::Tensor& of) { return of.unsqueeze(1) - of.unsqueeze(0) + side - 1; };
  return (apart(rows) * (2 * side - 1) + apart(columns)).flatten();
}

/// Computes what is added to pairs of tokens in the windows of a picture that was shifted: [windows, 1, side², side²].
at::Tensor shifted_apart(const SwinStage& s) {
  auto part = at::zeros({s.grid}, at::kDouble);
  part.narrow(0, s.grid - s.window, s.window - s.shift()).fill_(1);
  part.narrow(0, s.grid - s.shift(), s.shift()).fill_(2);
  const auto parts = (part.unsqueeze(1) * 3 + part.unsqueeze(0)).reshape({1, s.grid, s.grid, 1});
  const auto windows = nn::windows_of(parts, s.window).squeeze(-1);
  return ((windows.unsqueeze(1) != windows.unsqueeze(2)).to(at::kFloat) * kOtherPart).unsqueeze(1);
}

/// Attention within windows by cosines, with a bias that a small network makes of how far places lie apart.
struct WindowAttention : nn::Module {
  WindowAttention(const SwinStage& s, const at::TensorOptions& options)
      : stage(s),
        temperature_H11(at::empty({s.num_heads, 1, 1}, options)),
        q_bias(at::empty({s.width}, options)),
        v_bias(at::empty({s.width}, options)),
        qkv(s.width, 3 * s.width, options, /*with_bias=*/false),
        proj(s.width, s.width, options),
        offsets1(2, s.offset_hidden, options),
        offsets2(s.offset_hidden, s.num_heads, options, /*with_bias=*/false) {
    own("logit_scale", temperature_H11);
    own("q_bias", q_bias);
    own("v_bias", v_bias);
    own("qkv", qkv);
    own("proj", proj);
    own("cpb_mlp.0", offsets1);
    own("cpb_mlp.2", offsets2);
  }
  /// Computes the bias of pairs of places, [1, H, side², side²].
  at::Tensor bias() const {
    const auto along = offsets_of(stage.window, stage.trained);
    const auto count = along.size(0), places = stage.window * stage.window;
    const auto table = at::stack({along.unsqueeze(1).expand({count, count}), along.unsqueeze(0).expand({count, count})}, -1).flatten(0, 1);
    const auto said = offsets2.forward(at::relu(offsets1.forward(table.to(qkv.weight.device(), qkv.weight.scalar_type()))));
    const auto of_pairs = said.index_select(0, pairs_of(stage.window).to(said.device()));
    return (at::sigmoid(of_pairs) * kMostBias).view({places, places, -1}).permute({2, 0, 1}).unsqueeze(0);
  }
  /// `apart` [windows, 1, L, L] is added to the bias; undefined for none.
  at::Tensor forward(const at::Tensor& windows_NLC, const at::Tensor& apart) const {
    auto parts = qkv.forward(windows_NLC).chunk(3, -1);
    auto heads = [&](const at::Tensor& x) { return nn::split_heads(x, stage.num_heads); };
    auto unit = [](const at::Tensor& x) { return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12); };
    const auto scale = temperature_H11.clamp_max(std::log(kHottest)).exp();
    auto added = bias();
    if (apart.defined()) {
      const auto num_pictures = windows_NLC.size(0) / apart.size(0);
      added = (added + apart.to(added.device(), added.scalar_type())).repeat({num_pictures, 1, 1, 1});
    }
    const auto seen = nn::attention(unit(heads(parts[0] + q_bias)) * scale, unit(heads(parts[1])), heads(parts[2] + v_bias), added,
                                    /*causal=*/false, /*scale=*/1);
    return proj.forward(nn::merge_heads(seen));
  }
  SwinStage stage;
  at::Tensor temperature_H11, q_bias, v_bias;
  nn::Linear qkv, proj, offsets1, offsets2;
};

/// Attention and MLP, each before a layer norm: {[B, H, W, C]} -> the same. Every second block shifts its windows.
class SwinBlock : public nn::Block {
 public:
  SwinBlock(const SwinStage& s, bool shifts, const at::TensorOptions& options)
      : stage_(s),
        shift_(shifts ? s.shift() : 0),
        apart_(shift_ > 0 ? shifted_apart(s) : at::Tensor()),
        attention_(s, options),
        norm1_(s.width, kSwinEps, options),
        norm2_(s.width, kSwinEps, options),
        mlp_(s.width, s.hidden, options) {
    own("attn", attention_);
    own("norm1", norm1_);
    own("norm2", norm2_);
    own("mlp", mlp_);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    const auto shifted = shift_ > 0 ? at::roll(in[0], {-shift_, -shift_}, {1, 2}) : in[0];
    auto seen =
        nn::out_of_windows(attention_.forward(nn::windows_of(shifted, stage_.window), apart_), stage_.window, stage_.grid, stage_.grid);
    if (shift_ > 0) seen = at::roll(seen, {shift_, shift_}, {1, 2});
    const auto mid = in[0] + norm1_.forward(seen);
    return {mid + norm2_.forward(mlp_.forward(mid))};
  }

 private:
  SwinStage stage_;
  int64_t shift_;
  at::Tensor apart_;
  WindowAttention attention_;
  nn::LayerNorm norm1_, norm2_;
  nn::Mlp mlp_;
};

/// Makes one token of each square of four.
struct Merging : nn::Module {
  Merging(int64_t width, int64_t out, const at::TensorOptions& options)
      : reduction(4 * width, out, options, /*with_bias=*/false), norm(out, kSwinEps, options) {
    own("reduction", reduction);
    own("norm", norm);
  }
  at::Tensor forward(const at::Tensor& x_BHWC) const {
    const auto half = x_BHWC.size(1) / 2;
    const auto squares = x_BHWC.reshape({-1, half, 2, half, 2, x_BHWC.size(3)}).permute({0, 1, 3, 4, 2, 5}).flatten(3);
    return norm.forward(reduction.forward(squares));
  }
  nn::Linear reduction;
  nn::LayerNorm norm;
};

class SwinV2 : public Network {
 public:
  SwinV2(const SwinConfig& c, const at::TensorOptions& options)
      : patches_(3, c.stages[0].width, c.patch, c.patch, 0, options),
        patch_norm_(c.stages[0].width, kSwinEps, options),
        norm_(c.stages.back().width, kSwinEps, options),
        head_(c.stages.back().width, c.num_tags, options) {
    own("patch_embed.proj", patches_);
    own("patch_embed.norm", patch_norm_);
    for (size_t i = 0; i < c.stages.size(); ++i) {
      if (i > 0) stages_.add_reduction(std::make_unique<Merging>(c.stages[i - 1].width, c.stages[i].width, options));
      std::vector<std::unique_ptr<SwinBlock>> blocks;
      for (int64_t k = 0; k < c.stages[i].depth; ++k) blocks.push_back(std::make_unique<SwinBlock>(c.stages[i], k % 2 == 1, options));
      stages_.add_blocks(std::move(blocks));
    }
    own("layers", stages_);
    own("norm", norm_);
    own("head.fc", head_);
  }
  at::Tensor logits(const at::Tensor& image_B3SS) override {
    auto x = patch_norm_.forward(patches_.forward(image_B3SS).permute({0, 2, 3, 1}));
    x = stages_.forward(x);
    return head_.forward(norm_.forward(x).mean({1, 2}));
  }

 private:
  nn::Conv2d patches_;
  nn::LayerNorm patch_norm_, norm_;
  Stages<SwinBlock, Merging> stages_;
  nn::Linear head_;
};

/// Reads the window's side in the name of an architecture: of "swinv2_base_window12to24_192to384" 24; 0 for none.
int64_t window_in(const std::string& architecture) {
  const auto place = architecture.find("window");
  if (place == architecture.npos) return 0;
  auto numbers = architecture.substr(place + 6, architecture.find('_', place) - place - 6);
  if (const auto to = numbers.find("to"); to != numbers.npos) numbers.erase(0, to + 2);
  return parse_number<int64_t>(numbers).value_or(0);
}

SwinStage swin_stage(const io::Shapes& shapes, int64_t number) {
  const auto name = "layers." + std::to_string(number) + ".";
  SwinStage s;
  s.width = io::side_of(shapes, name + "blocks.0.norm1.weight", 0, kSwin);
  s.depth = io::count_of(shapes, name + "blocks.{}.norm1.weight");
  s.num_heads = io::side_of(shapes, name + "blocks.0.attn.logit_scale", 0, kSwin);
  s.hidden = io::side_of(shapes, name + "blocks.0.mlp.fc1.weight", 0, kSwin);
  s.offset_hidden = io::side_of(shapes, name + "blocks.0.attn.cpb_mlp.0.weight", 0, kSwin);
  if (s.width % s.num_heads != 0)
    data_error("tagging", "stage {} of the {} is {} wide, which does not divide into {} heads", number, kSwin, s.width, s.num_heads);
  return s;
}

SwinConfig swin_config(const nlohmann::json& json, const io::Shapes& shapes) {
  SwinConfig c;
  const auto arguments = arguments_of(json);
  c.patch = io::side_of(shapes, "patch_embed.proj.weight", 2, kSwin);
  c.num_tags = io::side_of(shapes, "head.fc.weight", 0, kSwin);
  c.side = side_of_pictures(json, c.side, kSwin);
  std::string architecture;
  io::take(json, "architecture", architecture, kSwin);
  auto window = window_in(architecture);
  io::take(arguments, "window_size", window, kSwin);
  std::vector<int64_t> trained;
  io::take(arguments, "pretrained_window_sizes", trained, kSwin);
  const auto num_stages = io::count_of(shapes, "layers.{}.blocks.0.norm1.weight");
  auto grid = c.side / c.patch;
  for (int64_t i = 0; i < num_stages; ++i) {
    auto s = swin_stage(shapes, i);
    s.grid = i == 0 ? grid : grid /= 2;
    s.window = std::min(window, grid);
    if (i < std::ssize(trained)) s.trained = trained[static_cast<size_t>(i)];
    const bool is_even = i + 1 == num_stages || grid % 2 == 0;
    if (s.window < 1 || grid < 1 || grid % s.window != 0 || !is_even)
      data_error("tagging",
                 "stage {} of the {} has {} by {} tokens and windows of {}; config.json has to name a window_size that divides them, "
                 "and an img_size of which four tokens become one without rest",
                 i, kSwin, grid, grid, s.window);
    c.stages.push_back(s);
  }
  if (c.stages.empty()) data_error("tagging", "the weights of the {} have no stages", kSwin);
  return c;
}

}  // namespace

Plan swin_v2_plan(const nlohmann::json& json, const io::Shapes& shapes) {
  const auto c = swin_config(json, shapes);
  return {c.side, c.num_tags, [c](const at::TensorOptions& options) { return std::make_unique<SwinV2>(c, options); }};
}

}  // namespace burnish::tagging
