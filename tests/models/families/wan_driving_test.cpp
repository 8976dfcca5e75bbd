// Parity of Wan-Animate-2's transformer with diffusers' WanAnimate2Transformer3DModel (tests/golden/make_wan_animate2.py).
#include <ATen/ops/ones_like.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/transformer.h"
#include "tests/models/transformer_parity.h"

namespace burnish::wan_driving_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kFilledLength = 512;

/// Two texts with the rows of zeros that they were filled up with, and how many of these there are.
struct Texts {
  Texts(const io::TensorSource& file, const std::string& name) {
    nn::Tensors texts;
    int64_t longest = 0;
    for (const char* number : {"0", "1"}) {
      texts.push_back(on_device(file.tensor(name + "." + number).to(at::kFloat)));
      longest = std::max(longest, texts.back().size(0));
    }
    nn::Tensors filled, counts;
    for (const auto& text : texts) {
      const auto missing = longest + 1 - text.size(0);
      filled.push_back(at::constant_pad_nd(text, {0, 0, 0, missing}));
      auto count = at::zeros({longest + 1}, text.options());
      count.narrow(0, 0, text.size(0)).fill_(1);
      count[longest] = kFilledLength - text.size(0);
      counts.push_back(count);
    }
    text_BTE = at::stack(filled);
    counts_BT = at::stack(counts);
  }
  at::Tensor text_BTE, counts_BT;
};

/// The transformer of the golden folder, in fp32 and all of it trained.
struct Driven {
  Driven() : file(test::golden("wan_animate2/transformer.safetensors")) {
    auto json = io::read_json(test::golden_path("wan_animate2/transformer/config.json"));
    auto weights = test::golden("wan_animate2/transformer/diffusion_pytorch_model.safetensors");
    const auto keys = wan::diffusers_driven_keys();
    config = wan::detect_driven(&json, io::shapes_in_our_names(weights, keys));
    dit = std::make_unique<wan::Transformer>(config, at::TensorOptions().device(at::kMeta));
    auto slots = dit->parameters();
    for (const auto& name : weights.names())
      *slots.at(keys.to_ours(name).ours.at(0)) = weights.tensor(name).to(test::device(), at::kFloat).set_requires_grad(true);
  }

  at::Tensor run(bool is_negative = false) {
    auto in = [&](const std::string& name) { return on_device(file.tensor("in." + name).to(at::kFloat)); };
    const Texts own(file, "in.caption"), of_clip(file, "in.clip_caption");
    const auto clip = in("clip"), sigma = in("sigma");
    wan::Transformer::Inputs inputs{.noisy_BCFHW = in("noisy"),
                                    .text_BTE = own.text_BTE,
                                    .counts_BT = own.counts_BT,
                                    .modulation_BM = dit->modulate(sigma),
                                    .image_BNW = in("states")};
    inputs.clip = {.latents_BCFHW = at::cat({clip, at::ones_like(clip.narrow(1, 0, 4)), clip}, 1),
                   .text_BTE = of_clip.text_BTE,
                   .counts_BT = of_clip.counts_BT,
                   .modulation_BM = dit->modulate(at::full_like(sigma, 0.001)),
                   .image_BNW = in("clip_states")};
    inputs.is_negative_B = at::full_like(sigma, is_negative ? 1 : 0);
    return dit->forward(inputs);
  }

  void expect_gradients() {
    test::backward(run(), file);
    const auto digests = file.below("grad.");
    const auto keys = wan::diffusers_driven_keys();
    auto slots = dit->parameters();
    int64_t num_compared = 0;
    for (const auto& name : digests.names()) {
      const auto ours = keys.to_ours(name).ours.at(0);
      EXPECT_LE(relative_error(test::digest(slots.at(ours)->grad()), digests.tensor(name)), tolerance(1e-4)) << name;
      ++num_compared;
    }
    EXPECT_EQ(num_compared, 14);
  }

  io::TensorSource file;
  wan::Config config;
  std::unique_ptr<wan::Transformer> dit;
};

}  // namespace

TEST(WanDriving, ABatchAndItsGradientsAreThoseOfDiffusers) {
  Driven driven;
  EXPECT_LE(relative_error(driven.run(), driven.file.tensor("out")), tolerance(5e-6));
  driven.expect_gradients();
}

TEST(WanDriving, WhereGuidanceLeadsAwayABlockIsLeftOut) {
  Driven driven;
  EXPECT_LE(relative_error(driven.run(/*is_negative=*/true), driven.file.tensor("skipped")), tolerance(5e-6));
}

TEST(WanDriving, RecomputedBlocksGiveTheSameGradients) {
  Driven driven;
  test::recompute_blocks(*driven.dit);
  driven.expect_gradients();
}

TEST(WanDriving, SettingsAreThoseOfConfig) {
  nlohmann::json json{{"refer_offset_t", 3}, {"refer_offset_h", -1}, {"refer_stride", 2}};
  auto shapes =
      io::shapes_in_our_names(test::golden("wan_animate2/transformer/diffusion_pytorch_model.safetensors"), wan::diffusers_driven_keys());
  auto c = wan::detect_driven(&json, shapes);
  EXPECT_TRUE(c.extras.driving.is_read);
  EXPECT_EQ(c.extras.driving.offsets, (std::vector<int64_t>{3, -1, -1}));
  EXPECT_EQ(c.extras.driving.stride, 2);
  EXPECT_EQ(wan::detect_driven(nullptr, shapes).extras.driving.offsets, (std::vector<int64_t>{1, 0, -1})) << "as all that is published";
  json["refer_stride"] = 0;
  EXPECT_THROW(wan::detect_driven(&json, shapes), Error);
}

TEST(WanDriving, NamesOfLayersAreThoseOfTwoPrograms) {
  EXPECT_EQ(wan::driven_target_names("blocks.3.attn1.to_q"),
            (std::vector<std::string>{"blocks.3.attn1.to_q", "blocks.3.block.self_attn.q", "blocks.3.self_attn.to_q"}));
  EXPECT_EQ(wan::driven_target_names("proj_out"), (std::vector<std::string>{"proj_out", "head.head"}));
  auto config = Driven().config;
  auto foreign = wan::foreign_layers(config, "transformer_1.");
  const std::vector<std::string> path{"blocks.0.attn2.add_k_proj"};
  for (const char* name : {"blocks.0.block.cross_attn.k_img", "diffusion_model.blocks.0.cross_attn.k_img",
                           "transformer.blocks.0.cross_attn.add_k_proj", "lora_unet_blocks_0_block_cross_attn_k_img"})
    EXPECT_EQ(foreign.at(name), path) << name;
  auto written = wan::written_layers(config);
  EXPECT_EQ(written.at("diffusers").at("transformer.blocks.0.cross_attn.add_k_proj"), path);
  EXPECT_EQ(written.at("diffsynth").at("blocks.0.block.cross_attn.k_img"), path);
}

}  // namespace burnish::wan_driving_test
