// Parity of Wan's transformer and Wan-Animate's module beside it with diffusers' WanAnimateTransformer3DModel
// (tests/golden/make_wan_animate.py).
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/wan/animate.h"
#include "models/families/wan/keys.h"
#include "tests/models/transformer_parity.h"

namespace burnish::wan_animate_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kFilledLength = 512;

bool of_module(const std::string& name) {
  return name.starts_with("pose_patch_embedding.") || name.starts_with("motion_encoder.") || name.starts_with("face_");
}

/// The two modules of the golden folder, in fp32 and all of them trained.
struct Both {
  Both() {
    auto json = io::read_json(test::golden_path("wan_animate/transformer/config.json"));
    auto file = test::golden("wan_animate/transformer/diffusion_pytorch_model.safetensors");
    config = wan::detect(&json, file.shapes());
    module_config = wan::detect_animate(json, file.shapes(), config);
    const auto meta = at::TensorOptions().device(at::kMeta);
    dit = std::make_unique<wan::Transformer>(config, meta);
    animate = std::make_unique<wan::Animate>(config, module_config, meta);
    for (nn::Module* module : modules()) {
      for (auto& [path, slot] : module->parameters()) *slot = file.tensor(path).to(test::device(), at::kFloat).set_requires_grad(true);
    }
  }
  std::vector<nn::Module*> modules() { return {dit.get(), animate.get()}; }

  at::Tensor run(const io::TensorSource& file) {
    test::Captions captions(file);
    const auto longest = captions.mask_BT.size(1);
    auto text = at::constant_pad_nd(captions.text_BTE, {0, 0, 0, 1});
    auto counts = at::constant_pad_nd(captions.mask_BT, {0, 1});
    counts.select(1, longest).copy_(kFilledLength - captions.mask_BT.sum(1));
    auto faces = animate->face_tokens(on_device(file.tensor("in.faces").to(at::kFloat)));
    return dit->forward({.noisy_BCFHW = on_device(file.tensor("in.noisy")),
                         .text_BTE = text,
                         .counts_BT = counts,
                         .modulation_BM = dit->modulate(on_device(file.tensor("in.sigma"))),
                         .image_BNW = on_device(file.tensor("in.states")),
                         .hints = animate->hints(faces),
                         .added_BDFHW = animate->pose_patches(on_device(file.tensor("in.poses")))});
  }

  void expect_gradients(const io::TensorSource& file) {
    test::backward(run(file), file);
    auto digests = file.below("grad.");
    test::expect_digests(*animate, digests.renamed([&](const std::string& name) { return of_module(name) ? name : ""; }));
    auto slots = dit->parameters();
    int64_t num_compared = 0;
    for (const auto& name : digests.names()) {
      if (of_module(name)) continue;
      EXPECT_LE(relative_error(test::digest(slots.at(name)->grad()), digests.tensor(name)), tolerance(1e-4)) << name;
      ++num_compared;
    }
    EXPECT_EQ(num_compared, 12);
  }

  wan::Config config;
  wan::AnimateConfig module_config;
  std::unique_ptr<wan::Transformer> dit;
  std::unique_ptr<wan::Animate> animate;
};

}  // namespace

TEST(WanAnimate, ABatchAndItsGradientsAreThoseOfDiffusers) {
  Both both;
  auto file = test::golden("wan_animate/transformer.safetensors");
  EXPECT_LE(relative_error(both.run(file), file.tensor("out")), tolerance(5e-6));
  both.expect_gradients(file);
}

TEST(WanAnimate, RecomputedBlocksGiveTheSameGradients) {
  Both both;
  for (nn::Module* module : both.modules()) test::recompute_blocks(*module);
  both.expect_gradients(test::golden("wan_animate/transformer.safetensors"));
}

TEST(WanAnimate, SizesAreThoseOfShapesAndOfConfig) {
  auto c = Both().module_config;
  EXPECT_EQ(c.channels, (std::vector<int64_t>{4, 5, 6}));
  EXPECT_EQ(c.face_side(), 16);
  EXPECT_EQ(c.num_tokens, 2);
  EXPECT_EQ(c.num_fusers, 2);
  EXPECT_EQ(c.step, 2);
  EXPECT_EQ(wan::AnimateConfig{}.face_side(), 512) << "as all that is published";
  auto file = test::golden("wan_animate/transformer/diffusion_pytorch_model.safetensors");
  auto config = Both().config;
  EXPECT_EQ(wan::detect_animate(nullptr, file.shapes(), config).step, 2) << "of four blocks behind two";
  EXPECT_THROW(wan::detect_animate({{"inject_face_latents_blocks", 4}}, file.shapes(), config), Error);
  config.num_heads = 3;
  EXPECT_THROW(wan::detect_animate(nullptr, file.shapes(), config), Error) << "of another width";
}

TEST(WanAnimate, OriginalNamesAreOurs) {
  Both both;
  io::NamedTensors ours;
  for (auto& [path, slot] : both.animate->parameters()) ours.emplace_back(path, *slot);
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, tensor] : wan::animate_keys(2).to_file(ours)) shapes[name] = tensor.sizes().vec();
  const std::string app = "motion_encoder.enc.net_app.convs.";
  for (const auto& name :
       {app + "0.0.weight", app + "1.conv1.0.weight", app + "2.conv2.1.weight", app + "2.skip.1.weight", app + "3.weight",
        std::string("motion_encoder.enc.fc.4.bias"), std::string("motion_encoder.dec.direction.weight"),
        std::string("face_encoder.conv1_local.conv.bias"), std::string("face_encoder.padding_tokens"),
        std::string("face_adapter.fuser_blocks.1.linear1_q.weight"), std::string("face_adapter.fuser_blocks.0.q_norm.weight")})
    EXPECT_TRUE(shapes.contains(name)) << name;
  EXPECT_EQ(shapes.at(app + "1.conv1.1.bias"), (std::vector<int64_t>{1, 4, 1, 1}));
  EXPECT_EQ(shapes.at("face_adapter.fuser_blocks.0.linear1_kv.weight"), (std::vector<int64_t>{24, 12}));
}

}  // namespace burnish::wan_animate_test
