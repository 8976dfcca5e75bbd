// Parity of the UNet with diffusers' UNet2DConditionModel on small random models.
#include <torch/csrc/autograd/autograd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "memory/recompute.h"
#include "models/stable_diffusion/unet.h"
#include "tests/golden.h"

using namespace burnish;
using namespace burnish::models;
using test::relative_error;

namespace {

struct Loaded {
  std::unique_ptr<stable_diffusion::UNet> model;
  stable_diffusion::UNet::Inputs inputs;
  io::TensorSource file;
};

stable_diffusion::Config config_of(const io::TensorSource& file) {
  auto json = nlohmann::json::parse(file.metadata().at("config"));
  return stable_diffusion::detect(&json, file.below("w.").shapes());
}

Loaded load(const std::string& name) {
  auto file = test::golden(name);
  auto model = std::make_unique<stable_diffusion::UNet>(config_of(file), at::TensorOptions().device(at::kMeta));
  test::load_weights(*model, file.below("w."), {});
  for (auto& [path, slot] : model->parameters()) slot->set_requires_grad(true);
  auto in = file.below("in.");
  stable_diffusion::UNet::Inputs inputs{
      in.tensor("latents"), in.tensor("timestep"), in.tensor("text").clone().set_requires_grad(true), {}, {}};
  if (in.contains("pooled")) {
    inputs.pooled_BE = in.tensor("pooled");
    inputs.time_ids_B6 = in.tensor("time_ids");
  }
  return {std::move(model), inputs, file};
}

void expect_gradients(Loaded& l) {
  auto out = l.model->forward(l.inputs);
  EXPECT_LE(relative_error(out, l.file.tensor("out")), 1e-5);
  torch::autograd::backward({(out * l.file.tensor("out_weight")).sum()}, {});
  auto expected = l.file.below("grad.");
  size_t compared = 0;
  for (auto& [path, slot] : l.model->parameters()) {
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(slot->grad(), expected.tensor(path)), 1e-4) << path;
    ++compared;
  }
  EXPECT_EQ(compared, expected.names().size());
  EXPECT_LE(relative_error(l.inputs.text_BTE.grad(), l.file.tensor("grad_text")), 1e-4);
}

}  // namespace

class UNetParity : public testing::TestWithParam<const char*> {};

TEST_P(UNetParity, ForwardAndAllGradients) {
  auto l = load(GetParam());
  expect_gradients(l);
}

TEST_P(UNetParity, RecomputedGradientsAreTheSame) {
  auto plain = load(GetParam()), recomputed = load(GetParam());
  for (auto* block : recomputed.model->blocks()) block->runner = memory::recompute();
  expect_gradients(recomputed);
  torch::autograd::backward({(plain.model->forward(plain.inputs) * plain.file.tensor("out_weight")).sum()}, {});
  auto other = recomputed.model->parameters();
  for (auto& [path, slot] : plain.model->parameters()) EXPECT_LE(relative_error(slot->grad(), other.at(path)->grad()), 2e-6) << path;
}

INSTANTIATE_TEST_SUITE_P(Variants, UNetParity, testing::Values("unet_xl.safetensors", "unet_15.safetensors"),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

TEST(UNetConfig, PublishedSizesHaveThePublishedParameterCount) {
  auto count = [](const stable_diffusion::Config& c) {
    return stable_diffusion::UNet(c, at::TensorOptions().device(at::kMeta).dtype(at::kHalf)).num_bytes() / 2;
  };
  EXPECT_EQ(count({}), 2567463684);
  EXPECT_EQ(count(stable_diffusion::sd15()), 859520964);
}

TEST(UNetConfig, PublishedSizesAreToldFromShapesAlone) {
  for (const auto& config : {stable_diffusion::Config{}, stable_diffusion::sd15()}) {
    stable_diffusion::UNet model(config, at::TensorOptions().device(at::kMeta));
    stable_diffusion::Shapes shapes;
    for (auto& [path, slot] : model.parameters()) shapes[path] = slot->sizes().vec();
    auto found = stable_diffusion::detect(nullptr, shapes);
    EXPECT_EQ(found.block_out_channels, config.block_out_channels);
    EXPECT_EQ(found.down_depths, config.down_depths);
    EXPECT_EQ(found.up_depths, config.up_depths);
    EXPECT_EQ(found.mid_depth, config.mid_depth);
    EXPECT_EQ(found.num_heads, config.num_heads);
    EXPECT_EQ(found.cross_attention_dim, config.cross_attention_dim);
    EXPECT_EQ(found.use_linear_projection, config.use_linear_projection);
    EXPECT_EQ(found.pooled_dim, config.pooled_dim);
    EXPECT_EQ(found.num_groups, 32);
  }
}

TEST(UNetConfig, ConfigAloneSaysTheSameAsTheTensors) {
  for (const char* name : {"unet_xl.safetensors", "unet_15.safetensors"}) {
    auto file = test::golden(name);
    auto json = nlohmann::json::parse(file.metadata().at("config"));
    auto with = config_of(file), without = stable_diffusion::detect(&json, {});
    EXPECT_EQ(without.down_depths, with.down_depths);
    EXPECT_EQ(without.up_depths, with.up_depths);
    EXPECT_EQ(without.mid_depth, with.mid_depth);
    EXPECT_EQ(without.pooled_dim, with.pooled_dim);
    EXPECT_EQ(without.num_heads, with.num_heads);
    EXPECT_EQ(without.use_linear_projection, with.use_linear_projection);
  }
}

TEST(UNetConfig, WhatDoesNotFitIsRefused) {
  auto file = test::golden("unet_xl.safetensors");
  auto good = nlohmann::json::parse(file.metadata().at("config"));
  auto refused = [&](const char* key, const nlohmann::json& value) {
    auto json = good;
    json[key] = value;
    EXPECT_THROW(stable_diffusion::detect(&json, file.below("w.").shapes()), Error) << key;
  };
  EXPECT_NO_THROW(stable_diffusion::detect(&good, file.below("w.").shapes()));
  refused("cross_attention_dim", 7);
  refused("block_out_channels", "many");
  refused("transformer_layers_per_block", {1, 2, 2});
  refused("transformer_layers_per_block", nlohmann::json::array());
  refused("down_block_types", {"DownBlock2D", "KDownBlock2D", "DownBlock2D"});
  refused("class_embed_type", "timestep");
  refused("addition_embed_type", "image");
  refused("attention_head_dim", 3);
  refused("norm_num_groups", 0);
}
