#include "models/families/wan/animate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/families/wan/frame_tokens.h"
#include "models/families/wan/keys.h"
#include "models/files/config_values.h"
#include "models/parts/find_components.h"
#include "nn/attention.h"
#include "nn/layers.h"

namespace burnish::models::wan {

namespace {

constexpr const char* kOfAnimate = "module of Wan-Animate";
constexpr const char *kAnimateMark = "face_adapter.0.to_q.weight", *kOriginalAnimateMark = "face_adapter.fuser_blocks.0.linear1_q.weight";
constexpr double kAnimateEps = 1e-6, kSlope = 0.2;
/// Faces whose convolutions are in memory together.
constexpr int64_t kFacesAtOnce = 8;

/// Counts them in a file of the original names.
int64_t count_halvings(const io::TensorSource& tensors) {
  int64_t count = 0;
  while (tensors.contains("motion_encoder.enc.net_app.convs." + std::to_string(count + 1) + ".conv1.0.weight")) ++count;
  return count;
}

at::Tensor normed(const at::Tensor& x) { return at::layer_norm(x, {x.size(-1)}, {}, {}, kAnimateEps); }

/// Blurs pictures [N, C, H, W] by the binomial kernel of four, with zeros around them.
at::Tensor blurred(const at::Tensor& x, int64_t padding) {
  auto line = (at::tensor({1.0, 3.0, 3.0, 1.0}) / 8).to(x.options());
  auto kernel = (line.unsqueeze(1) * line).expand({x.size(1), 1, 4, 4});
  return at::conv2d(x, kernel, {}, at::IntArrayRef{1, 1}, at::IntArrayRef{padding, padding}, at::IntArrayRef{1, 1}, x.size(1));
}

enum class Sides { kept, halved };
enum class Ends { linear, bent };

/// A convolution whose weights are of variance 1 and scaled as it runs (StyleGAN 2, arXiv 1912.04958), then a bias and a bend.
class ScaledConv : public nn::Conv2d {
 public:
  ScaledConv(int64_t in, int64_t out, int64_t kernel, Sides sides, Ends ends, const at::TensorOptions& o)
      : Conv2d(in, out, kernel, sides == Sides::halved ? 2 : 1, sides == Sides::halved || kernel == 4 ? 0 : kernel / 2, o, false),
        sides_(sides),
        kernel_(kernel),
        scale_(1 / std::sqrt(static_cast<double>(in * kernel * kernel))) {
    if (ends == Ends::linear) return;
    bend_ = at::empty({out}, o);
    own("act_fn.bias", bend_);
  }
  at::Tensor run(const at::Tensor& x) const {
    auto y = forward(sides_ == Sides::halved ? blurred(x, (kernel_ + 1) / 2) : x) * scale_;
    return bend_.defined() ? at::leaky_relu(y + bend_.view({-1, 1, 1}), kSlope) * std::numbers::sqrt2 : y;
  }

 private:
  Sides sides_;
  int64_t kernel_;
  double scale_;
  at::Tensor bend_;
};

/// Halves the sides of pictures.
class Halving : public nn::Module {
 public:
  Halving(int64_t in, int64_t out, const at::TensorOptions& o)
      : first_(in, in, 3, Sides::kept, Ends::bent, o),
        second_(in, out, 3, Sides::halved, Ends::bent, o),
        skip_(in, out, 1, Sides::halved, Ends::linear, o) {
    own("conv1", first_);
    own("conv2", second_);
    own("conv_skip", skip_);
  }
  at::Tensor run(const at::Tensor& x) const { return (second_.run(first_.run(x)) + skip_.run(x)) / std::numbers::sqrt2; }

 private:
  ScaledConv first_, second_, skip_;
};

/// Makes of faces {[N, 3, S, S]} how far each has moved in which directions: {[N, M]} (LIA, arXiv 2203.09043).
class MotionEncoder : public nn::Block {
 public:
  MotionEncoder(const AnimateConfig& c, const at::TensorOptions& o)
      : in_(3, c.channels.front(), 1, Sides::kept, Ends::bent, o),
        out_(c.channels.back(), c.style_width, 4, Sides::kept, Ends::linear, o),
        scale_(1 / std::sqrt(static_cast<double>(c.style_width))),
        directions_(at::empty({c.motion_width, c.num_motions}, o.dtype(at::kFloat))) {
    own("conv_in", in_);
    for (size_t i = 1; i < c.channels.size(); ++i) {
      halvings_.push_back(std::make_unique<Halving>(c.channels[i - 1], c.channels[i], o));
      own("res_blocks." + std::to_string(i - 1), *halvings_.back());
    }
    own("conv_out", out_);
    for (int64_t i = 0; i < c.num_linears; ++i) {
      linears_.push_back(std::make_unique<nn::Linear>(c.style_width, i + 1 < c.num_linears ? c.style_width : c.num_motions, o));
      own("motion_network." + std::to_string(i), *linears_.back());
    }
    own("motion_synthesis_weight", directions_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    auto x = in_.run(in[0]);
    for (const auto& halving : halvings_) x = halving->run(x);
    x = out_.run(x).flatten(1);
    for (const auto& linear : linears_) x = linear->forward(x * scale_);
    auto directions = std::get<0>(at::linalg_qr(directions_ + 1e-8));
    return {at::matmul(x.to(at::kFloat), directions.t()).to(x.scalar_type())};
  }

 private:
  ScaledConv in_, out_;
  std::vector<std::unique_ptr<Halving>> halvings_;
  std::vector<std::unique_ptr<nn::Linear>> linears_;
  double scale_;
  at::Tensor directions_;  ///< [motion width, M], in fp32; those that are used are made orthogonal of it
};

/// Tokens of a face's motion.
FrameTokens::Sizes face_sizes(const AnimateConfig& c, int64_t width) {
  return {.in = c.motion_width,
          .first = c.face_width,
          .second = c.face_width,
          .third = c.face_width,
          .num_tokens = c.num_tokens,
          .projected = width};
}

}  // namespace

/// Has the tokens of each frame {[B, L, D]} attend to those of the face in it, {.., [B, F, N, D]} -> {what is added to them}.
class Animate::Fuser : public nn::Block {
 public:
  Fuser(const Config& c, const at::TensorOptions& o)
      : num_heads_(c.num_heads),
        q_(c.width(), c.width(), o),
        k_(c.width(), c.width(), o),
        v_(c.width(), c.width(), o),
        out_(c.width(), c.width(), o),
        norm_q_(c.head_dim, kAnimateEps, o),
        norm_k_(c.head_dim, kAnimateEps, o) {
    own("to_q", q_);
    own("to_k", k_);
    own("to_v", v_);
    own("to_out", out_);
    own("norm_q", norm_q_);
    own("norm_k", norm_k_);
  }

  nn::Tensors body(const nn::Tensors& in) override {
    const auto &tokens = in[0], &face = in[1];
    const auto batch = tokens.size(0), frames = face.size(1);
    auto heads = [&](const at::Tensor& x) { return x.unflatten(-1, {num_heads_, -1}); };
    auto query = norm_q_.forward(heads(q_.forward(normed(tokens)))).reshape({batch * frames, -1, num_heads_, tokens.size(2) / num_heads_});
    auto of_face = nn::forward_all({&k_, &v_}, normed(face).flatten(0, 1));
    auto attended =
        nn::attention(query.transpose(1, 2), norm_k_.forward(heads(of_face[0])).transpose(1, 2), heads(of_face[1]).transpose(1, 2));
    return {out_.forward(nn::merge_heads(attended).reshape(tokens.sizes()))};
  }

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

struct Animate::Face {
  Face(const Config& dit, const AnimateConfig& c, const at::TensorOptions& o) : motion(c, o), encoder(face_sizes(c, dit.width()), o) {}
  MotionEncoder motion;
  FrameTokens encoder;
};

struct Animate::Body {
  Body(const Config& dit, const AnimateConfig& c, const at::TensorOptions& o)
      : pose_in(c.pose_channels, dit.width(), kernels::Window{{1, kPatch, kPatch}, {1, kPatch, kPatch}, {0, 0, 0}, {1, 1, 1}}, o),
        fusers(mmdit::several<Fuser>(c.num_fusers, dit, o)) {}
  nn::Conv pose_in;
  std::vector<std::unique_ptr<Fuser>> fusers;
};

Animate::Animate(const Config& dit, const AnimateConfig& config, const at::TensorOptions& options, AnimatePart part) : config_(config) {
  if (part.face) {
    face_ = std::make_unique<Face>(dit, config, options);
    own("motion_encoder", face_->motion);
    own("face_encoder", face_->encoder);
  }
  if (!part.body) return;
  body_ = std::make_unique<Body>(dit, config, options);
  own("pose_patch_embedding", body_->pose_in);
  for (size_t i = 0; i < body_->fusers.size(); ++i) own("face_adapter." + std::to_string(i), *body_->fusers[i]);
}

Animate::~Animate() = default;

at::Tensor Animate::face_tokens(const at::Tensor& faces) {
  nn::Tensors motions;
  for (const auto& some : faces.transpose(1, 2).flatten(0, 1).split(kFacesAtOnce)) motions.push_back(face_->motion.run({some})[0]);
  auto tokens = face_->encoder.forward(at::cat(motions).unflatten(0, {faces.size(0), -1})).tokens_BFND;
  return at::constant_pad_nd(tokens, {0, 0, 0, 0, 1, 0});
}

at::Tensor Animate::pose_patches(const at::Tensor& poses) const {
  return at::constant_pad_nd(body_->pose_in.forward(poses), {0, 0, 0, 0, 1, 0});
}

Hints Animate::hints(const at::Tensor& face) {
  return [this, face](const nn::Tensors& of_block) {
    const auto frames = frames_here(shares(), face.size(1), of_block[kCosOfBlock].size(0));
    return [this, frames, of_frames = face.narrow(1, frames.first, frames.count)](int64_t block, const at::Tensor& tokens) -> at::Tensor {
      const auto place = block / config_.step;
      if (block % config_.step != 0 || place >= config_.num_fusers) return {};
      auto& fuser = *body_->fusers[static_cast<size_t>(place)];
      return frames.whole(tokens, [&](const at::Tensor& whole) { return fuser.run({whole, of_frames})[0]; });
    };
  };
}

AnimateConfig detect_animate(const nlohmann::json& json, const io::Shapes& shapes, const Config& dit) {
  AnimateConfig c;
  if (!shapes.empty()) {
    auto side = [&](const char* name, size_t dim) { return io::side_of(shapes, name, dim, kOfAnimate); };
    if (auto width = side(kAnimateMark, 0); width != dit.width())
      data_error("models", "the module of Wan-Animate is {} wide and the transformer {}; they belong to different models", width,
                 dit.width());
    c.pose_channels = side("pose_patch_embedding.weight", 1);
    c.channels = {side("motion_encoder.conv_in.weight", 0)};
    for (int64_t i = 0; i < io::count_of(shapes, "motion_encoder.res_blocks.{}.conv_skip.weight"); ++i)
      c.channels.push_back(side(("motion_encoder.res_blocks." + std::to_string(i) + ".conv_skip.weight").c_str(), 0));
    c.style_width = side("motion_encoder.conv_out.weight", 0);
    c.num_linears = io::count_of(shapes, "motion_encoder.motion_network.{}.weight");
    c.motion_width = side("motion_encoder.motion_synthesis_weight", 0);
    c.num_motions = side("motion_encoder.motion_synthesis_weight", 1);
    c.face_width = side("face_encoder.conv2.weight", 0);
    c.num_tokens = side("face_encoder.conv1_local.weight", 0) / std::max<int64_t>(1, c.face_width);
    c.num_fusers = io::count_of(shapes, "face_adapter.{}.to_q.weight");
  }
  c.step = std::max<int64_t>(1, dit.num_layers / std::max<int64_t>(1, c.num_fusers));
  if (json.is_object()) io::take(json, "inject_face_latents_blocks", c.step, kOfAnimate);
  check_sizes({c.pose_channels, c.style_width, c.num_linears, c.num_motions, c.motion_width, c.face_width, c.num_tokens, c.num_fusers});
  if (c.step < 1 || (c.num_fusers - 1) * c.step >= dit.num_layers)
    data_error("models", "the module of Wan-Animate adds to every {}th of {} blocks {} times; it belongs to another transformer", c.step,
               dit.num_layers, c.num_fusers);
  if (c.num_motions > c.motion_width)
    data_error("models", "the module of Wan-Animate has {} directions {} wide; at most as many as they are wide were expected",
               c.num_motions, c.motion_width);
  return c;
}

Source find_animate(const ModelEntry& entry) {
  for (const char* mark : {kAnimateMark, kOriginalAnimateMark}) {
    auto tensors = find_below(entry, kDenoiserPrefixes, mark);
    if (!tensors) continue;
    auto alone = tensors->renamed([](const std::string& name) {
      const bool is_fixed = name.ends_with(".kernel");  // the blur's, which is the same in all files
      const bool is_own = name.starts_with("pose_patch_embedding.") || name.starts_with("motion_encoder.") ||
                          name.starts_with("face_encoder.") || name.starts_with("face_adapter.");
      return is_own && !is_fixed ? name : "";
    });
    return {&entry, alone, mark == kOriginalAnimateMark ? animate_keys(count_halvings(*tensors)) : io::KeyMap{}};
  }
  return {};
}

}  // namespace burnish::models::wan
