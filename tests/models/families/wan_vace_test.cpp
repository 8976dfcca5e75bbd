// Parity of Wan's transformer and VACE's module beside it with diffusers' WanVACETransformer3DModel (tests/golden/make_wan_vace.py).
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/vace.h"
#include "tests/models/transformer_parity.h"

namespace burnish::wan_vace_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kFilledLength = 12;

/// The two modules of the golden folder, in fp32 and all of them trained.
struct Both {
  explicit Both(std::vector<double> scales = {}) {
    auto json = io::read_json(test::golden_path("wan_vace/transformer/config.json"));
    auto file = test::golden("wan_vace/transformer/diffusion_pytorch_model.safetensors");
    config = wan::detect(&json, file.shapes());
    const auto meta = at::TensorOptions().device(at::kMeta);
    dit = std::make_unique<wan::Transformer>(config, meta);
    auto vace_config = wan::detect_vace(json, file.shapes(), config);
    vace_config.scales = std::move(scales);
    vace = std::make_unique<wan::Vace>(config, vace_config, meta);
    for (nn::Module* module : {static_cast<nn::Module*>(dit.get()), static_cast<nn::Module*>(vace.get())}) {
      for (auto& [path, slot] : module->parameters()) *slot = file.tensor(path).to(test::device(), at::kFloat).set_requires_grad(true);
    }
  }

  at::Tensor run(const io::TensorSource& file) {
    test::Captions captions(file);
    const auto longest = captions.mask_BT.size(1);
    auto text = at::constant_pad_nd(captions.text_BTE, {0, 0, 0, 1});
    auto counts = at::constant_pad_nd(captions.mask_BT, {0, 1});
    counts.select(1, longest).copy_(kFilledLength - captions.mask_BT.sum(1));
    return dit->forward({.noisy_BCFHW = on_device(file.tensor("in.noisy")),
                         .text_BTE = text,
                         .counts_BT = counts,
                         .modulation_BM = dit->modulate(on_device(file.tensor("in.sigma"))),
                         .hints = vace->hints(on_device(file.tensor("in.context")))});
  }

  void expect_gradients(const io::TensorSource& file) {
    test::backward(run(file), file);
    auto of_module = [](const std::string& name) { return name.starts_with("vace_"); };
    auto digests = file.below("grad.");
    test::expect_digests(*dit, digests.renamed([&](const std::string& name) { return of_module(name) ? "" : name; }));
    test::expect_digests(*vace, digests.renamed([&](const std::string& name) { return of_module(name) ? name : ""; }));
  }

  wan::Config config;
  std::unique_ptr<wan::Transformer> dit;
  std::unique_ptr<wan::Vace> vace;
};

}  // namespace

TEST(WanVace, ABatchAndItsGradientsAreThoseOfDiffusers) {
  Both both;
  auto file = test::golden("wan_vace/transformer.safetensors");
  EXPECT_LE(relative_error(both.run(file), file.tensor("out")), tolerance(5e-6));
  both.expect_gradients(file);
}

/// A factor for each block, as diffusers' control_hidden_states_scale.
TEST(WanVace, AddsSoMuchAsItsScalesSay) {
  Both both({0.5, -2});
  EXPECT_LE(
      relative_error(both.run(test::golden("wan_vace/transformer.safetensors")), test::golden("wan_vace/scaled.safetensors").tensor("out")),
      tolerance(5e-6));
}

TEST(WanVace, RecomputedBlocksGiveTheSameGradients) {
  Both both;
  for (nn::Module* module : {static_cast<nn::Module*>(both.dit.get()), static_cast<nn::Module*>(both.vace.get())})
    test::recompute_blocks(*module);
  both.expect_gradients(test::golden("wan_vace/transformer.safetensors"));
}

TEST(WanVace, PlacesAreThoseOfConfigOrSpreadEvenly) {
  auto file = test::golden("wan_vace/transformer/diffusion_pytorch_model.safetensors");
  wan::Config dit = Both().config;
  auto layers = [&](const nlohmann::json& json) { return wan::detect_vace(json, file.shapes(), dit).layers; };
  EXPECT_EQ(layers({{"vace_layers", {0, 2}}}), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(layers(nullptr), (std::vector<int64_t>{0, 1})) << "two blocks beside three";
  dit.num_layers = 40;
  EXPECT_EQ(layers(nullptr), (std::vector<int64_t>{0, 20}));
  for (const auto& wrong : {nlohmann::json{0}, nlohmann::json{0, 40}, nlohmann::json{1, 2}, nlohmann::json{2, 0}})
    EXPECT_THROW(layers({{"vace_layers", wrong}}), Error) << wrong;
}

TEST(WanVace, OriginalNamesAreOurs) {
  Both both;
  io::NamedTensors ours;
  for (auto& [path, slot] : both.vace->parameters()) ours.emplace_back(path, *slot);
  std::set<std::string> names;
  for (const auto& [name, tensor] : wan::original_keys().to_file(ours)) names.insert(name);
  for (const char* name : {"vace_patch_embedding.weight", "vace_blocks.0.before_proj.weight", "vace_blocks.1.after_proj.bias",
                           "vace_blocks.1.modulation", "vace_blocks.0.norm3.weight", "vace_blocks.1.self_attn.q.weight"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_FALSE(names.contains("vace_blocks.1.before_proj.weight"));
}

}  // namespace burnish::wan_vace_test
