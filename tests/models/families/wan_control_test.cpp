// Wan's Fun models and the motion controller beside DiffSynth-Studio's own code (tests/golden/make_wan_control.py).
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/error.h"
#include "models/families/wan/camera.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/motion.h"
#include "models/families/wan/transformer.h"
#include "tests/models/load.h"

namespace burnish::wan_control_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

io::TensorSource expected() { return test::golden("wan_control.safetensors"); }

/// Numbers of a name, as the golden script has them.
at::Tensor sines(const std::string& name, at::IntArrayRef shape, double scale = 1) {
  double letters = 0;
  for (unsigned char c : name) letters += c;
  auto numbers = at::empty(shape);
  auto* values = numbers.mutable_data_ptr<float>();
  for (int64_t i = 0; i < numbers.numel(); ++i) values[i] = static_cast<float>(scale * std::sin(letters + 0.7 * static_cast<double>(i)));
  return numbers;
}

/// A module whose parameters are sines of their original names; `names` has these by path.
std::map<std::string, std::string> fill(nn::Module& module, const io::KeyMap& keys) {
  std::map<std::string, std::string> names;
  for (auto& [path, slot] : module.parameters()) {
    auto name = keys.to_file({{path, *slot}}).at(0).first;
    bool is_norm = name.find(".norm") != name.npos && name.ends_with("weight");
    auto fan = slot->dim() > 1 && !name.ends_with("modulation") ? slot->numel() / slot->size(0) : 100;
    auto numbers = is_norm ? 1 + sines(name, slot->sizes(), 0.1) : sines(name, slot->sizes(), 1 / std::sqrt(static_cast<double>(fan)));
    *slot = numbers.to(test::device()).set_requires_grad(true);
    names[path] = name;
  }
  return names;
}

void expect_outcome(const std::string& name, const at::Tensor& out, nn::Module& module, const std::map<std::string, std::string>& names) {
  auto golden = expected();
  EXPECT_LE(relative_error(out, golden.tensor(name + ".out")), tolerance(2e-6)) << name;
  torch::autograd::backward({(out * out).sum()}, {});
  for (auto& [path, slot] : module.parameters()) {
    ASSERT_TRUE(slot->grad().defined()) << path;
    auto digest = golden.tensor(name + ".grad." + names.at(path));
    // Attention to texts of sines is almost the same everywhere, so that what comes back through it is a small difference.
    const bool is_small = path.find("norm2") != path.npos;
    EXPECT_LE(relative_error(test::digest(slot->grad()), digest), tolerance(is_small ? 1e-3 : 1e-4)) << path;
  }
}

wan::Config config(int64_t channels, wan::Extras extras = {}) {
  return {.in_channels = channels,
          .num_layers = 2,
          .num_heads = 2,
          .head_dim = 12,
          .hidden = 32,
          .caption_width = 16,
          .time_channels = 32,
          .extras = extras};
}

wan::Transformer::Inputs inputs(const wan::Transformer& model) {
  return {.noisy_BCFHW = on_device(sines("latents", {1, 16, 2, 4, 6})),
          .text_BTE = on_device(sines("context", {1, 12, 16})),
          .counts_BT = at::ones({1, 12}, test::device()),
          .modulation_BM = model.modulate(on_device(at::full({1}, 0.3)))};
}

const auto kMeta = at::TensorOptions().device(at::kMeta);

}  // namespace

TEST(WanControl, AReferencePictureIsAFrameInFrontOfTheTokens) {
  wan::Transformer model(config(52, {.has_reference = true}), kMeta);
  auto names = fill(model, wan::original_keys());
  auto in = inputs(model);
  in.noisy_BCFHW = at::cat({in.noisy_BCFHW, on_device(sines("beside", {1, 36, 2, 4, 6}))}, 1);
  in.reference_BCHW = on_device(sines("reference", {1, 16, 1, 4, 6})).squeeze(2);
  expect_outcome("control", model.forward(in), model, names);
}

TEST(WanControl, RaysOfACameraAreAddedToTheTokens) {
  wan::Transformer model(config(36, {.has_camera = true}), kMeta);
  auto names = fill(model, wan::original_keys());
  auto in = inputs(model);
  in.noisy_BCFHW = at::cat({in.noisy_BCFHW, on_device(sines("beside", {1, 20, 2, 4, 6}))}, 1);
  in.rays_BKFHW = wan::camera_rays(on_device(wan::camera_movement("LeftUp", at::tensor({0.02}))), 5, 32, 48);
  expect_outcome("camera", model.forward(in), model, names);
}

TEST(WanControl, HowMuchMovesIsAddedToTheModulation) {
  wan::Transformer model(config(16), kMeta);
  fill(model, wan::original_keys());
  wan::MotionController motion({.channels = 32, .width = 24}, kMeta);
  auto names = fill(motion, {});
  auto in = inputs(model);
  in.modulation_BM = in.modulation_BM + at::constant_pad_nd(motion.forward(on_device(at::full({1, 1}, 40.0))), {0, 24});
  expect_outcome("motion", model.forward(in), motion, names);
}

TEST(WanControl, RaysAreThoseOfAnyShape) {
  auto rays = [](const std::string& direction, double speed, int64_t height, int64_t width) {
    return wan::camera_rays(wan::camera_movement(direction, at::tensor({speed})), 5, height, width);
  };
  EXPECT_LE(relative_error(rays("LeftUp", 0.02, 4, 8), expected().tensor("rays.wide")), 1e-6);
  EXPECT_LE(relative_error(rays("In", 0.3, 8, 4), expected().tensor("rays.tall")), 1e-6);
  EXPECT_TRUE(at::equal(rays("UpLeft", 0.02, 4, 8), rays("LeftUp", 0.02, 4, 8)));
  for (const char* wrong : {"", "Forwards", "Left Up", "left"}) EXPECT_THROW(wan::camera_movement(wrong, at::ones({1})), Error) << wrong;
}

}  // namespace burnish::wan_control_test
