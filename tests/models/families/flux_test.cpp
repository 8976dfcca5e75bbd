// Parity of the FLUX.1 transformer with diffusers' FluxTransformer2DModel on small random models.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/flux/keys.h"
#include "models/families/flux/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"

namespace burnish::flux_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

struct Loaded {
  std::unique_ptr<flux::Transformer> model;
  flux::Transformer::Conditions conditions;
  flux::Transformer::Inputs inputs;
  io::TensorSource file;
  at::Tensor forward() {
    inputs.modulation_BM = model->modulate(conditions);
    return model->forward(inputs);
  }
};

/// "rows" and "columns" of the target, and "references": rows and columns of each.
flux::Grids grids_of(const std::map<std::string, std::string>& metadata) {
  flux::Grids grids{{std::stoll(metadata.at("rows")), std::stoll(metadata.at("columns"))}, {}};
  if (!metadata.contains("references")) return grids;
  for (const auto& sides : nlohmann::json::parse(metadata.at("references")))
    grids.references.push_back({sides.at(0).get<int64_t>(), sides.at(1).get<int64_t>()});
  return grids;
}

Loaded load(const std::string& name) {
  auto file = test::golden(name);
  auto config_json = nlohmann::json::parse(file.metadata().at("config"));
  auto weights = file.below("w.");
  auto config = flux::detect(&config_json, weights.shapes());
  auto model = std::make_unique<flux::Transformer>(config, at::TensorOptions().device(at::kMeta));
  auto slots = model->parameters();
  io::Shapes wanted;
  for (auto& [path, slot] : slots) wanted[path] = slot->sizes().vec();
  io::load_named(
      weights, {}, wanted,
      [&](const std::string& path, const io::InFile& read) {
        *slots.at(path) = on_device(read.numbers.to(at::kFloat)).clone().set_requires_grad(true);
      },
      name);
  auto in = file.below("in.");
  return {std::move(model),
          {on_device(in.tensor("pooled")), on_device(in.tensor("sigma")), on_device(in.tensor("guidance"))},
          {on_device(in.tensor("latents")), on_device(in.tensor("text")), {}, grids_of(file.metadata())},
          file};
}

void expect_gradients(Loaded& l) {
  auto out = l.forward();
  EXPECT_LE(relative_error(out, l.file.tensor("out")), tolerance(1e-5));
  test::backward(out, l.file);
  auto expected = l.file.below("grad.");
  size_t compared = 0;
  for (auto& [path, slot] : l.model->parameters()) {
    if (!expected.contains(path)) continue;
    ASSERT_TRUE(slot->grad().defined()) << path;
    EXPECT_LE(relative_error(test::digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
    ++compared;
  }
  EXPECT_EQ(compared, expected.names().size());
}

}  // namespace

class FluxParity : public testing::TestWithParam<const char*> {};

TEST_P(FluxParity, ForwardAndAllGradients) {
  auto l = load(GetParam());
  expect_gradients(l);
}

TEST_P(FluxParity, RecomputedGradientsAreTheSame) {
  auto plain = load(GetParam()), recomputed = load(GetParam());
  test::recompute_blocks(*recomputed.model);
  expect_gradients(recomputed);
  test::backward(plain.forward(), plain.file);
  auto other = recomputed.model->parameters();
  for (auto& [path, slot] : plain.model->parameters()) {
    if (!slot->grad().defined()) continue;
    EXPECT_TRUE(at::equal(slot->grad(), other.at(path)->grad())) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, FluxParity,
                         testing::Values("flux_dev.safetensors", "flux_schnell.safetensors", "flux_references.safetensors"),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

TEST(FluxKeys, OriginalNamesRoundTrip) {
  auto l = load("flux_dev.safetensors");
  io::NamedTensors ours;
  for (auto& [path, slot] : l.model->parameters()) ours.emplace_back(path, slot->detach());
  auto file = (std::filesystem::temp_directory_path() / "burnish_flux_keys.safetensors").string();
  auto theirs = flux::bfl_keys().to_file(ours);
  io::save_safetensors(file, theirs);
  auto source = io::TensorSource::open({file});
  EXPECT_TRUE(source.contains("double_blocks.1.img_attn.qkv.weight"));
  EXPECT_TRUE(source.contains("final_layer.adaLN_modulation.1.bias"));
  for (const auto& name : source.names())
    EXPECT_FALSE(name.starts_with("transformer_blocks") || name.starts_with("single_transformer_blocks")) << name;
  io::Shapes wanted;
  std::map<std::string, at::Tensor> back;
  for (auto& [path, tensor] : ours) wanted[path] = tensor.sizes().vec();
  io::load_named(
      source, flux::bfl_keys(), wanted, [&](const std::string& path, const io::InFile& read) { back[path] = read.numbers; }, file);
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(back.at(path), tensor)) << path;
  EXPECT_EQ(flux::detect(nullptr, io::shapes_in_our_names(source, flux::bfl_keys())).num_single_blocks, 2);
  std::filesystem::remove(file);
}

TEST(FluxConfig, PublishedSizesHaveThePublishedParameterCount) {
  flux::Transformer model(flux::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  EXPECT_EQ(model.num_bytes() / 2, 11901408320);
}

TEST(FluxConfig, DisagreementWithTensorsIsAnError) {
  auto file = test::golden("flux_dev.safetensors");
  auto json = nlohmann::json::parse(file.metadata().at("config"));
  json["num_layers"] = 7;
  EXPECT_THROW(flux::detect(&json, file.below("w.").shapes()), Error);
}

TEST(FluxParts, TogetherAreTheWholeAndGiveTheSameVelocity) {
  auto whole = load("flux_dev.safetensors");
  auto config = whole.model->config();
  auto slots = whole.model->parameters();
  auto part = [&](mmdit::HeldLayers which) {
    auto made = std::make_unique<flux::Transformer>(config, at::TensorOptions().device(at::kMeta), which);
    for (auto& [path, slot] : made->parameters()) *slot = *slots.at(path);
    return made;
  };
  auto modulation = part({.body = false}), body = part({.modulation = false});
  EXPECT_EQ(modulation->parameters().size() + body->parameters().size(), slots.size());
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole.model->num_bytes());
  EXPECT_EQ(nn::blocks_below(*body).size(), nn::blocks_below(*whole.model).size());
  auto inputs = whole.inputs;
  inputs.modulation_BM = modulation->modulate(whole.conditions);
  EXPECT_TRUE(at::equal(body->forward(inputs), whole.forward()));
}

TEST(FluxParts, BlocksInTwoPartsGiveTheSameVelocityWhereverTheyAreSplit) {
  auto whole = load("flux_dev.safetensors");
  auto config = whole.model->config();
  auto slots = whole.model->parameters();
  auto expected = whole.forward();
  auto num_blocks = config.num_double_blocks + config.num_single_blocks;
  ASSERT_GE(config.num_double_blocks, 2) << "the two streams are handed over";
  for (int64_t split = 1; split <= num_blocks; ++split) {
    auto part = [&](mmdit::HeldLayers which) {
      auto made = std::make_unique<flux::Transformer>(config, at::TensorOptions().device(at::kMeta), which);
      for (auto& [path, slot] : made->parameters()) *slot = *slots.at(path);
      return made;
    };
    auto first = part({.end = split}), last = part({.begin = split});
    EXPECT_EQ(std::ssize(nn::blocks_below(*first)), split);
    EXPECT_EQ(first->num_bytes() + last->num_bytes(), whole.model->num_bytes());
    auto conditioning = first->condition(whole.conditions);
    auto inputs = whole.inputs;
    inputs.modulation_BM = first->modulate(conditioning);
    flux::Transformer::Inputs rest;
    rest.hidden_BLD = first->forward(inputs);
    rest.modulation_BM = last->modulate(conditioning);
    rest.grids = inputs.grids;
    EXPECT_TRUE(at::equal(last->forward(rest), expected)) << "after " << split;
  }
}

TEST(FluxParts, ModulationOfThePublishedModelIsAboutAQuarter) {
  auto bytes = [](mmdit::HeldLayers part) {
    return flux::Transformer(flux::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16), part).num_bytes();
  };
  EXPECT_NEAR(static_cast<double>(bytes({.body = false})) / static_cast<double>(bytes({})), 0.275, 0.005);
}

}  // namespace burnish::flux_test
