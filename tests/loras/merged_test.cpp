// LoRA files that are a part of a model's weights: merged whenever these are read, and taken out again.
#include "loras/merged.h"

#include <gmock/gmock.h>

#include "adapters/adapter_file.h"
#include "adapters/adapter_tensors.h"
#include "base/error.h"
#include "loras/loader.h"
#include "loras/lora_file.h"
#include "tests/allocations.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using test::error_of;
using test::relative_error;
using testing::HasSubstr;

namespace {

const char* const kLayer = "blocks.0.to_q";

class MergedTest : public testing::Test {
 protected:
  MergedTest() {
    test::save_skeleton(folder / "model.safetensors", /*num_experts=*/1);
    model = test::open_skeleton(folder / "model.safetensors");
  }
  /// The weights of a component's layers as they are loaded now.
  at::Tensor weight(const std::string& component = "dit", const std::string& layer = kLayer) const {
    bool was_loaded = model->components().is_loaded(component);
    if (!was_loaded) model->components().load(component);
    auto found = model->components().module(component).parameters().at(layer + ".weight")->clone();
    if (!was_loaded) model->components().unload(component);
    return found;
  }
  /// A file that adds `update` times the strength to every number of a layer's weight.
  std::string lora(const std::string& layer, double update, int64_t in = 16) const {
    auto file = folder / ("lora" + std::to_string(num_files++) + ".safetensors");
    io::save_safetensors(file, {{layer + ".lora_A.weight", at::ones({1, in})}, {layer + ".lora_B.weight", at::full({16, 1}, update)}});
    return file.string();
  }
  /// A file with an adapter of that type on the layer, all of whose numbers are drawn; the weight under it.
  std::string adapter(const std::string& type, at::Tensor& under) const {
    model->components().load("dit");
    auto& root = model->components().module("dit");
    auto adapted = adapters::attach(root, {.type = type, .rank = 2}, {kLayer}, 1);
    at::NoGradGuard no_grad;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
    for (auto& [name, value] : adapted[0].adapter->parameters()) value.add_(at::empty_like(value).normal_(0, 0.3, generator).abs_());
    auto file = folder / (type + ".safetensors");
    io::save_safetensors(file, adapters::adapter_tensors(adapted, loras::layer_prefixes(*model, "dit"), at::kFloat));
    adapters::merge_into(*adapted[0].layer, {{adapted[0].adapter}});
    under = adapted[0].layer->weight.clone();
    model->components().unload("dit");
    return file.string();
  }

  test::Scratch folder;
  std::unique_ptr<models::Model> model;
  mutable int num_files = 0;
};

}  // namespace

TEST(LoraFile, IsAFileAndItsStrength) {
  auto parsed = [](const std::string& text) {
    auto file = loras::parse_lora_file(text);
    return file.path + " at " + std::to_string(file.strength).substr(0, 4);
  };
  EXPECT_EQ(parsed("cat.safetensors"), "cat.safetensors at 1.00");
  EXPECT_EQ(parsed("cat.safetensors:0.8"), "cat.safetensors at 0.80");
  EXPECT_EQ(parsed("cat.safetensors:-2"), "cat.safetensors at -2.0");
  EXPECT_EQ(parsed("C:cat.safetensors"), "C:cat.safetensors at 1.00");
  EXPECT_EQ(parsed("cat.safetensors:0.8:.*attn.*=0,blocks.1=2"), "cat.safetensors at 0.80");
  EXPECT_EQ(parsed("cat.safetensors:1,0,1"), "cat.safetensors at 1.00");
  for (const char* text : {"cat.safetensors", "cat.safetensors:0.8", "cat.safetensors:0.8:blocks.1=2", "cat.safetensors:1,0,1"})
    EXPECT_EQ(loras::text_of(loras::parse_lora_file(text)), text);
  test::Scratch folder;
  auto there = folder.write("cat:3", "").string();
  EXPECT_EQ(parsed(there), there + " at 1.00");
}

TEST_F(MergedTest, EveryLoadHasTheFilesInTheirOrder) {
  auto plain = weight();
  loras::merge(*model, {{lora("dit.blocks.0.to_q", 0.25), 2}, {lora("dit.blocks.0.to_q", 0.5), -0.5}});
  for (int i = 0; i < 2; ++i) EXPECT_LE(relative_error(weight(), plain + 0.25), 1e-6);
}

TEST_F(MergedTest, StrengthsChangeWhileTheModelIsLoaded) {
  auto plain = weight();
  const std::vector<loras::LoraFile> files{{lora("dit.blocks.0.to_q", 0.25), 2}, {lora("dit.blocks.0.to_q", 0.3), -0.5}};
  auto at_once = [&](double first, double second) {
    auto other = test::open_skeleton(folder / "model.safetensors");
    std::swap(model, other);
    loras::merge(*model, {{files[0].path, first}, {files[1].path, second}});
    auto found = weight();
    std::swap(model, other);
    return found;
  };
  loras::Merged merged(*model, files);
  EXPECT_EQ(merged.strengths(), (std::vector<double>{2, -0.5}));
  model->components().load("dit");
  EXPECT_TRUE(at::equal(weight(), at_once(2, -0.5)));
  merged.set_strengths({0.1, 0.7});
  EXPECT_TRUE(at::equal(weight(), at_once(0.1, 0.7)));
  merged.set_strengths({0, 0});
  EXPECT_TRUE(at::equal(weight(), plain)) << "bit for bit as without LoRAs";
  merged.set_strengths({0, 1});
  EXPECT_TRUE(at::equal(weight(), at_once(0, 1)));
  model->components().unload("dit");
  EXPECT_TRUE(at::equal(weight(), at_once(0, 1))) << "when it is loaded next too";
}

TEST_F(MergedTest, EveryKindOfAdapterIsMergedAndTakenOut) {
  auto plain = weight();
  for (const char* type : {"lora", "dora", "loha", "lokr"}) {
    at::Tensor under;
    model = test::open_skeleton(folder / "model.safetensors");
    auto file = adapter(type, under);
    auto strength = std::string(type) == "dora" ? 1 : 0.5;
    loras::merge(*model, {{file, strength}});
    EXPECT_LE(relative_error(weight(), plain + strength * (under - plain)), 1e-6) << type;
    model->components().load("dit");
    auto merged = weight();
    loras::without_merged(*model, [&] { EXPECT_TRUE(at::equal(weight(), plain)) << type; });
    EXPECT_TRUE(at::equal(weight(), merged)) << type;
    model->components().unload("dit");
  }
}

TEST_F(MergedTest, TheStrengthOfADoraIsThatOfTheProgramItIsFrom) {
  auto w = weight(), a = at::rand({2, 16}) - 0.5, b = at::rand({16, 2}) - 0.5, m = at::rand({16, 1}) + 1;
  auto under = [&](double strength) {
    auto v = w + strength * b.mm(a);
    return std::pair(v, m / v.norm(2, {1}, true));
  };
  auto [v, g] = under(1);
  auto [half, g_half] = under(0.5);
  auto merged = [&](const std::string& layer, const char* a_name, const char* b_name, const char* m_name, const at::Tensor& magnitude) {
    model = test::open_skeleton(folder / "model.safetensors");
    io::save_safetensors(folder / "dora.safetensors", {{layer + a_name, a}, {layer + b_name, b}, {layer + m_name, magnitude}});
    auto other = lora("dit.blocks.0.to_q", 0.25), dora = (folder / "dora.safetensors").string();
    std::vector<at::Tensor> weights;
    for (const auto& files : std::vector<std::vector<loras::LoraFile>>{{{dora, 0.5}}, {{other}, {dora, 0.5}}, {{dora, 0.5}, {other}}}) {
      loras::merge(*model, files);
      weights.push_back(weight());
    }
    return weights;
  };
  auto expect = [](const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
    for (size_t i = 0; i < found.size(); ++i) EXPECT_LE(relative_error(found[i], expected[i]), 1e-5) << i;
  };
  expect(merged("dit.blocks.0.to_q", ".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector", m.flatten()),
         {half * g_half, (half + 0.25) * g_half, half * g_half + 0.25});  // peft's DoraLinearVariant
  auto lengths = v * (1 + 0.5 * (g - 1));                                 // LyCORIS' weight_decompose
  expect(merged("lycoris_blocks_0_to_q", ".lora_down.weight", ".lora_up.weight", ".dora_scale", m),
         {lengths, lengths + 0.25, lengths + 0.25});
  auto whole = (w + v * g) / 2;  // ComfyUI's weight_decompose
  expect(merged("lora_dit_blocks_0_to_q", ".lora_down.weight", ".lora_up.weight", ".dora_scale", m), {whole, whole + 0.25, whole + 0.25});
}

TEST_F(MergedTest, OneLayerIsHeldTwiceAtATime) {
  io::NamedTensors all;
  int64_t largest = 0;
  auto skeleton = model->components().skeleton("dit");
  for (const auto& [path, layer] : adapters::all_layers(*skeleton)) {
    all.emplace_back("dit." + path + ".lora_A.weight", at::ones({1, layer->in_features()}));
    all.emplace_back("dit." + path + ".lora_B.weight", at::ones({layer->out_features(), 1}));
    largest = std::max(largest, 4 * layer->in_features() * layer->out_features());
  }
  ASSERT_GT(all.size(), 20u);
  io::save_safetensors(folder / "all.safetensors", all);
  loras::merge(*model, {{folder / "all.safetensors", 1}});
  test::Allocations allocations;
  model->components().load("dit");
  auto held = allocations.live();
  ASSERT_GT(held, 8 * largest);
  loras::without_merged(*model, [&] { EXPECT_LE(allocations.live(), held + 64); });
  EXPECT_LE(allocations.peak() - held, 5 * largest) << "its weight before and after, in fp32, the update, and their sum";
}

TEST_F(MergedTest, WhatIsTakenOutComesBackAfterAnError) {
  auto plain = weight();
  loras::merge(*model, {{lora("dit.blocks.0.to_q", 0.25)}});
  model->components().load("dit");
  EXPECT_THROW(loras::without_merged(*model, [] { throw std::runtime_error("no room"); }), std::runtime_error);
  EXPECT_LE(relative_error(weight(), plain + 0.25), 1e-6);
}

TEST_F(MergedTest, WeightsThatTrainStayAsTheyAre) {
  loras::merge(*model, {{lora("dit.blocks.0.to_q", 0.25)}});
  model->components().load("dit");
  auto& slot = *model->components().module("dit").parameters().at("blocks.0.to_q.weight");
  slot.fill_(3).set_requires_grad(true);
  loras::without_merged(*model, [&] { EXPECT_TRUE(at::equal(weight(), at::full_like(slot, 3))); });
}

TEST_F(MergedTest, DeltasLearnOfTheirNewBase) {
  auto x = at::ones({1, 16});
  auto output = [&](bool merged_first) {
    model = test::open_skeleton(folder / "model.safetensors");
    if (merged_first) loras::merge(*model, {{folder / "lora0.safetensors", 1}});
    model->components().load("dit");
    auto adapted = adapters::attach(model->components().module("dit"), {.type = "dora", .rank = 2}, {kLayer}, 1);
    at::NoGradGuard no_grad;
    adapted[0].adapter->magnitude().m.fill_(2);
    auto y = adapted[0].layer->forward(x);
    if (merged_first) loras::without_merged(*model, [&] { y = adapted[0].layer->forward(x); });
    return y;
  };
  lora("dit.blocks.0.to_q", 0.25);
  EXPECT_TRUE(at::equal(output(true), output(false))) << "norms are those of the plain weight";
}

TEST_F(MergedTest, APartTakesTheLayersThatItHas) {
  auto file = lora("text_encoder.projector.linear", 1, 24);
  auto projector = [&] { return weight("text_encoder.projector", "projector.linear"); };
  auto plain = projector();
  loras::merge(*model, {{file}});
  EXPECT_LE(relative_error(projector(), plain + 1), 1e-6);
  auto encode = model->units().encode_prompt;
  loras::Loader loader(*model);
  auto body = loader.load({encode[0]});
  auto head = loader.load({encode[1]});
  EXPECT_LE(relative_error(projector(), plain + 1), 1e-6);
}

TEST_F(MergedTest, ComponentsThatAreNamedAreTheOnlyOnes) {
  auto both = folder / "both.safetensors";
  io::save_safetensors(both, {{"dit.blocks.0.to_q.lora_A.weight", at::ones({1, 16})},
                              {"dit.blocks.0.to_q.lora_B.weight", at::ones({16, 1})},
                              {"text_encoder.projector.linear.lora_A.weight", at::ones({1, 24})},
                              {"text_encoder.projector.linear.lora_B.weight", at::ones({16, 1})}});
  auto dit = weight(), projector = weight("text_encoder", "projector.linear");
  loras::merge(*model, {{both.string()}}, {.components = {"text_encoder"}});
  EXPECT_TRUE(at::equal(weight(), dit));
  EXPECT_LE(relative_error(weight("text_encoder", "projector.linear"), projector + 1), 1e-6);
  auto text = error_of([&] { loras::merge(*model, {{lora("dit.blocks.0.to_q", 1)}}, {.components = {"text_encoder"}}); }, Exit::config);
  EXPECT_THAT(text, HasSubstr("text_encoder"));
}

TEST_F(MergedTest, AResultThatIsNotFiniteIsRefused) {
  loras::merge(*model, {{lora("dit.blocks.0.to_q", 1e30), 1e30}});
  EXPECT_THAT(error_of([&] { weight(); }), testing::AllOf(HasSubstr("blocks.0.to_q"), HasSubstr("LoRAs merged")));
}
