// Parity of the UNet with diffusers' UNet2DConditionModel on small random models, and the two layouts of its checkpoints.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "memory/recompute.h"
#include "models/families/stable_diffusion/keys.h"
#include "models/families/stable_diffusion/unet.h"
#include "models/text/clip.h"
#include "models/vae/autoencoder_kl.h"
#include "tests/allocations.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/single_file.h"

namespace burnish::stable_diffusion_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

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
  stable_diffusion::UNet::Inputs inputs{on_device(in.tensor("latents")),
                                        on_device(in.tensor("timestep")),
                                        on_device(in.tensor("text")).clone().set_requires_grad(true),
                                        {},
                                        {}};
  if (in.contains("pooled")) {
    inputs.pooled_BE = on_device(in.tensor("pooled"));
    inputs.time_ids_B6 = on_device(in.tensor("time_ids"));
  }
  return {std::move(model), inputs, file};
}

void expect_gradients(Loaded& l) {
  auto out = l.model->forward(l.inputs);
  EXPECT_LE(relative_error(out, l.file.tensor("out")), tolerance(1e-5));
  test::backward(out, l.file);
  auto expected = l.file.below("grad.");
  size_t compared = 0;
  for (auto& [path, slot] : l.model->parameters()) {
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(test::digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
    ++compared;
  }
  EXPECT_EQ(compared, expected.names().size());
  EXPECT_LE(relative_error(l.inputs.text_BTE.grad(), l.file.tensor("grad_text")), tolerance(1e-4));
}

/// The gradients of a golden file's case, computed in `dtype` from the same numbers.
std::map<std::string, at::Tensor> gradients_in(const char* name, at::ScalarType dtype) {
  auto l = load(name);
  auto leaf = [dtype](const at::Tensor& t) { return t.detach().to(dtype).set_requires_grad(true); };
  l.model->visit_parameters([&](const std::string&, at::Tensor& p) { p = leaf(p); });
  l.inputs.latents_BCHW = l.inputs.latents_BCHW.to(dtype);
  l.inputs.text_BTE = leaf(l.inputs.text_BTE);
  torch::autograd::backward({(l.model->forward(l.inputs) * on_device(l.file.tensor("out_weight")).to(dtype)).sum()}, {});
  std::map<std::string, at::Tensor> gradients;
  for (auto& [path, slot] : l.model->parameters()) gradients[path] = slot->grad().to(at::kDouble);
  return gradients;
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
  test::backward(plain.model->forward(plain.inputs), plain.file);
  test::expect_equal_gradients(*plain.model, *recomputed.model);
}

TEST_P(UNetParity, GradientsInFp32AreWithinTheirRoundingOfThoseInFp64) {
  auto found = gradients_in(GetParam(), at::kFloat), exact = gradients_in(GetParam(), at::kDouble);
  double difference = 0, size = 0;
  for (auto& [path, gradient] : exact) {
    difference += (found.at(path) - gradient).square().sum().item<double>();
    size += gradient.square().sum().item<double>();
  }
  EXPECT_GT(difference, 0);                                  // else both were computed in one precision
  EXPECT_LE(std::sqrt(difference / size), tolerance(1e-5));  // diffusers: 1.5e-6 and 6e-6
}

TEST_P(UNetParity, HalfPrecisionIsFiniteAndNear) {
  at::NoGradGuard no_grad;
  auto l = load(GetParam());
  for (auto [dtype, bound] : {std::pair(at::kBFloat16, 5e-2), std::pair(at::kHalf, 1e-2)}) {
    auto file = test::golden(GetParam());
    l.model->visit_parameters([&](const std::string& path, at::Tensor& p) { p = file.tensor("w." + path).to(test::device(), dtype); });
    auto in = l.inputs;  // time, pooled embedding and text stay fp32: the model brings them to the latents' dtype
    in.latents_BCHW = in.latents_BCHW.to(dtype);
    auto out = l.model->forward(in);
    EXPECT_EQ(out.scalar_type(), dtype);
    EXPECT_TRUE(out.isfinite().all().item<bool>());
    EXPECT_LE(relative_error(out, l.file.tensor("out")), tolerance(bound, dtype));
  }
}

TEST_P(UNetParity, RecomputingKeepsFewerActivations) {
  if (!test::device().is_cpu()) GTEST_SKIP() << "what is counted is main memory";
  auto l = load(GetParam());
  for (auto& [path, slot] : l.model->parameters()) slot->set_requires_grad(false);
  l.inputs.latents_BCHW = l.inputs.latents_BCHW.repeat({1, 1, 4, 4});
  int64_t kept[2];
  for (bool recomputed : {false, true}) {
    for (auto* block : l.model->blocks()) block->runner = recomputed ? memory::recompute() : nullptr;
    test::Allocations allocations;
    auto out = l.model->forward(l.inputs);  // the text requires a gradient
    kept[recomputed] = allocations.live();
  }
  EXPECT_LT(kept[1], kept[0] / 2);
}

INSTANTIATE_TEST_SUITE_P(Variants, UNetParity, testing::Values("unet_xl.safetensors", "unet_15.safetensors"),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

TEST(UNetConfig, PublishedSizesHaveThePublishedParameterCount) {
  auto count = [](const stable_diffusion::Config& c) {
    return stable_diffusion::UNet(c, at::TensorOptions().device(at::kMeta).dtype(at::kHalf)).num_bytes() / 2;
  };
  EXPECT_EQ(count({}), 2567463684);
  EXPECT_EQ(count(stable_diffusion::sd15()), 859520964);
  EXPECT_EQ(stable_diffusion::UNet({}, at::TensorOptions().device(at::kMeta)).parameters().size(), 1680u);
  EXPECT_EQ(stable_diffusion::UNet(stable_diffusion::sd15(), at::TensorOptions().device(at::kMeta)).parameters().size(), 686u);
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
  refused("norm_eps", 0);
  refused("freq_shift", 16);
  refused("addition_time_embed_dim", 0);
  refused("block_out_channels", "many");
  refused("transformer_layers_per_block", {1, 2, 2});
  refused("transformer_layers_per_block", nlohmann::json::array());
  refused("down_block_types", {"DownBlock2D", "KDownBlock2D", "DownBlock2D"});
  refused("class_embed_type", "timestep");
  refused("addition_embed_type", "image");
  refused("attention_head_dim", 3);
  refused("norm_num_groups", 0);
}

namespace {

using stable_diffusion::ComponentTensors;

/// Every tensor under our name, as load_named hands them out for a model of the part's own shapes.
std::map<std::string, at::Tensor> in_our_names(const ComponentTensors& part) {
  std::map<std::string, at::Tensor> tensors;
  io::load_named(
      part.tensors, part.keys, part.shapes(),
      [&](const std::string& name, const io::InFile& read) { tensors[name] = read.numbers.clone(); }, "golden file");
  return tensors;
}

void expect_same(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b, const std::string& what) {
  EXPECT_FALSE(a.empty()) << what;
  EXPECT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << what << " " << name;
    EXPECT_TRUE(at::equal(tensor.flatten(), b.at(name).flatten())) << what << " " << name;
  }
}

io::TensorSource single(const std::string& pipeline) { return io::TensorSource::open({test::single_file(pipeline)}); }

io::TensorSource component(const std::string& pipeline, const std::string& name) {
  return io::TensorSource::open_folder(test::golden_path(pipeline + "/model/" + name), {"diffusion_pytorch_model", "model"});
}

}  // namespace

TEST(SingleFile, HoldsTheSameTensorsAsTheFolder) {
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    auto file = single(pipeline);
    bool xl = pipeline == "sdxl_pipeline";
    expect_same(in_our_names(*stable_diffusion::unet_part(component(pipeline, "unet"))), in_our_names(*stable_diffusion::unet_part(file)),
                pipeline + " unet");
    expect_same(in_our_names(*stable_diffusion::vae_part(component(pipeline, "vae"))), in_our_names(*stable_diffusion::vae_part(file)),
                pipeline + " vae");
    expect_same(in_our_names(*stable_diffusion::text_encoder_part(component(pipeline, "text_encoder"))),
                in_our_names(*stable_diffusion::text_encoder_part(file)), pipeline + " text_encoder");
    EXPECT_EQ(stable_diffusion::text_encoder_2_part(file).has_value(), xl);
    EXPECT_FALSE(stable_diffusion::text_encoder_2_part(component(pipeline, "text_encoder")));
    if (!xl) continue;
    EXPECT_FALSE(stable_diffusion::text_encoder_part(component(pipeline, "text_encoder_2")));
    expect_same(in_our_names(*stable_diffusion::text_encoder_2_part(component(pipeline, "text_encoder_2"))),
                in_our_names(*stable_diffusion::text_encoder_2_part(file)), "text_encoder_2");
  }
}

TEST(SingleFile, SaysWhatConfigJsonSays) {
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    auto file = single(pipeline);
    std::ifstream stream(test::golden_path(pipeline + "/model/unet/config.json"));
    auto json = nlohmann::json::parse(stream);
    auto with = stable_diffusion::detect(&json, stable_diffusion::unet_part(component(pipeline, "unet"))->shapes());
    auto alone = stable_diffusion::detect(nullptr, stable_diffusion::unet_part(file)->shapes());
    EXPECT_EQ(alone.down_depths, with.down_depths);
    EXPECT_EQ(alone.up_depths, with.up_depths);
    EXPECT_EQ(alone.num_heads, with.num_heads);
    EXPECT_EQ(alone.pooled_dim, with.pooled_dim);
    EXPECT_EQ(alone.addition_time_embed_dim, with.addition_time_embed_dim);
    EXPECT_EQ(alone.num_groups, with.num_groups);
    EXPECT_EQ(alone.use_linear_projection, with.use_linear_projection);
  }
}

TEST(SingleFile, IsWrittenAsItWasRead) {
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    auto part = *stable_diffusion::unet_part(single(pipeline));
    io::NamedTensors ours;
    for (const auto& [name, tensor] : in_our_names(part)) ours.emplace_back(name, tensor);
    auto written = stable_diffusion::ldm_keys(stable_diffusion::detect(nullptr, part.shapes())).to_file(ours);
    EXPECT_EQ(written.size(), part.tensors.names().size());
    for (const auto& [name, tensor] : written) EXPECT_TRUE(at::equal(tensor, part.tensors.tensor(name))) << name;
  }
}

TEST(SingleFile, SecondTextEncoderIsWrittenAsItWasRead) {
  auto part = *stable_diffusion::text_encoder_2_part(single("sdxl_pipeline"));
  io::NamedTensors ours;
  for (const auto& [name, tensor] : in_our_names(part)) ours.emplace_back(name, tensor);
  auto written = part.keys.to_file(ours);
  EXPECT_EQ(written.size(), part.tensors.names().size());
  for (const auto& [name, tensor] : written) EXPECT_TRUE(at::equal(tensor, part.tensors.tensor(name))) << name;
}

TEST(ForeignLayers, EveryProgramsNamesMeanOurs) {
  auto unet = stable_diffusion::foreign_unet_layers({});
  using Paths = std::vector<std::string>;
  EXPECT_EQ(unet.at("lora_unet_input_blocks_4_1_transformer_blocks_1_attn2_to_out_0"),
            Paths{"down_blocks.1.attentions.0.transformer_blocks.1.attn2.to_out.0"});
  EXPECT_EQ(unet.at("lora_unet_output_blocks_2_1_transformer_blocks_9_ff_net_0_proj"),
            Paths{"up_blocks.0.attentions.2.transformer_blocks.9.ff.net.0.proj"});
  EXPECT_EQ(unet.at("lora_unet_middle_block_2_in_layers_2"), Paths{"mid_block.resnets.1.conv1"});
  EXPECT_EQ(unet.at("lora_unet_output_blocks_5_2_conv"), Paths{"up_blocks.1.upsamplers.0.conv"});
  EXPECT_EQ(unet.at("lora_unet_input_blocks_3_0_op"), Paths{"down_blocks.0.downsamplers.0.conv"});
  EXPECT_EQ(unet.at("unet.down_blocks.1.attentions.0.proj_in"), Paths{"down_blocks.1.attentions.0.proj_in"});
  auto old = stable_diffusion::foreign_unet_layers(stable_diffusion::sd15());
  EXPECT_EQ(old.at("lora_unet_up_blocks_3_attentions_2_transformer_blocks_0_attn1_to_q"),
            Paths{"up_blocks.3.attentions.2.transformer_blocks.0.attn1.to_q"});
  auto first = stable_diffusion::foreign_text_layers(12, false), second = stable_diffusion::foreign_text_layers(32, true);
  EXPECT_EQ(first.at("lora_te1_text_model_encoder_layers_11_mlp_fc2"), Paths{"encoder.layers.11.mlp.fc2"});
  EXPECT_EQ(first.at("lora_te_text_model_encoder_layers_0_self_attn_q_proj"), Paths{"encoder.layers.0.self_attn.q_proj"});
  EXPECT_EQ(second.at("text_encoder_2.text_model.encoder.layers.31.self_attn.out_proj"), Paths{"encoder.layers.31.self_attn.out_proj"});
  EXPECT_FALSE(first.contains("lora_te1_text_model_encoder_layers_12_mlp_fc2"));
}

TEST(ForeignLayers, CoverEveryLayer) {
  for (const auto& config : {stable_diffusion::Config{}, stable_diffusion::sd15()}) {
    auto table = stable_diffusion::foreign_unet_layers(config);
    stable_diffusion::UNet model(config, at::TensorOptions().device(at::kMeta));
    for (auto& [path, slot] : model.parameters()) {
      auto layer = path.substr(0, path.rfind('.'));
      EXPECT_TRUE(table.contains("unet." + layer)) << layer;
    }
  }
}

}  // namespace burnish::stable_diffusion_test
