// Parity of SCAIL-2's transformer with one of diffusers' parts (tests/golden/make_wan_scail.py).
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/transformer.h"
#include "tests/models/transformer_parity.h"

namespace burnish::wan_scail_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr const char* kScailFile = "wan_scail/transformer/diffusion_pytorch_model.safetensors";

/// The transformer of the golden folder, in fp32 and all of it trained.
struct Acting {
  Acting() : file(test::golden("wan_scail/transformer.safetensors")) {
    auto json = io::read_json(test::golden_path("wan_scail/transformer/config.json"));
    auto weights = test::golden(kScailFile);
    const auto keys = wan::original_keys();
    config = wan::detect(&json, io::shapes_in_our_names(weights, keys));
    dit = std::make_unique<wan::Transformer>(config, at::TensorOptions().device(at::kMeta));
    auto slots = dit->parameters();
    for (const auto& name : weights.names())
      *slots.at(keys.to_ours(name).ours.at(0)) = weights.tensor(name).to(test::device(), at::kFloat).set_requires_grad(true);
  }

  at::Tensor in(const std::string& name) const { return on_device(file.tensor("in." + name).to(at::kFloat)); }

  wan::Transformer::Inputs inputs(bool replaces) const {
    test::Captions captions(file);
    auto text = at::constant_pad_nd(captions.text_BTE.to(at::kFloat), {0, 0, 0, 1}), counts = at::constant_pad_nd(captions.mask_BT, {0, 1});
    counts.select(1, counts.size(1) - 1).copy_(512 - captions.mask_BT.sum(1));
    wan::Transformer::Inputs all{.noisy_BCFHW = in("noisy"),
                                 .text_BTE = text,
                                 .counts_BT = counts,
                                 .modulation_BM = dit->modulate(in("sigma")),
                                 .image_BNW = in("states")};
    all.cast = {.pictures_BCRHW = in("pictures"),
                .picture_areas_BMRHW = in("picture_areas"),
                .driving_BCFHW = in("driving"),
                .driving_areas_BMFHW = in("driving_areas"),
                .replaces_B1 = at::full({2, 1}, replaces ? 1.0 : 0.0, in("sigma").options())};
    return all;
  }

  void expect_gradients(const std::string& name) {
    test::backward(dit->forward(inputs(name == "replacement")), file);
    const auto digests = file.below(name + ".grad.");
    auto slots = dit->parameters();
    for (const auto& path : digests.names())
      EXPECT_LE(relative_error(test::digest(slots.at(path)->grad()), digests.tensor(path)), tolerance(1e-4)) << name << " " << path;
    EXPECT_EQ(digests.names().size(), 18u);
    for (auto& [path, slot] : slots) slot->mutable_grad() = at::Tensor();
  }

  io::TensorSource file;
  wan::Config config;
  std::unique_ptr<wan::Transformer> dit;
};

}  // namespace

TEST(WanScail, BatchesAndTheirGradientsAreThoseOfDiffusersParts) {
  Acting acting;
  for (const std::string name : {"animation", "replacement"}) {
    EXPECT_LE(relative_error(acting.dit->forward(acting.inputs(name == "replacement")), acting.file.tensor(name + ".out")), tolerance(5e-6))
        << name;
    acting.expect_gradients(name);
  }
}

TEST(WanScail, RecomputedBlocksGiveTheSameGradients) {
  Acting acting;
  test::recompute_blocks(*acting.dit);
  for (const char* name : {"animation", "replacement"}) acting.expect_gradients(name);
}

TEST(WanScail, AreasAreTheSharesOfColoursInTheSquareOfALatent) {
  auto masks = at::full({1, 3, 5, 8, 16}, -1.0);
  masks[0][0][0].narrow(1, 0, 2).fill_(1);  // the first frame: red in an eighth of the picture, a quarter of the first square
  masks[0].select(1, 4).fill_(1);           // the last one: white
  masks[0].select(1, 3).narrow(2, 8, 8).fill_(220 / 127.5 - 1);  // not bright enough to be on
  const auto areas = wan::coloured_areas(masks);
  ASSERT_EQ(areas.sizes(), (std::vector<int64_t>{1, 28, 2, 1, 2}));
  auto expected = at::zeros_like(areas);
  for (int64_t frame = 0; frame < 4; ++frame) expected[0][frame * 7 + 1][0][0][0] = 0.25;  // the first stands for four
  expected[0][3 * 7].select(0, 1).fill_(1);
  EXPECT_TRUE(at::equal(areas, expected)) << areas;
}

TEST(WanScail, SizesAreThoseOfShapesAndOfItsConfigAlone) {
  const auto shapes = io::shapes_in_our_names(test::golden(kScailFile), wan::original_keys());
  auto json = io::read_json(test::golden_path("wan_scail/transformer/config.json"));
  for (const auto& c : {wan::detect(&json, shapes), wan::detect(&json, {})}) {
    EXPECT_EQ(c.extras.area_channels, 28);
    EXPECT_EQ(c.in_channels, 20);
    EXPECT_EQ(c.num_heads, 2);
  }
  EXPECT_EQ(wan::detect(&json, shapes).image_width, 16);
  EXPECT_EQ(wan::detect(&json, {}).image_width, 1280) << "as published";
  json["mask_dim"] = 21;
  EXPECT_THROW(wan::detect(&json, shapes), Error);
}

TEST(WanScail, NamesOfLayersAreThoseOfComfyUi) {
  auto config = Acting().config;
  auto foreign = wan::foreign_layers(config, "transformer_1.");
  EXPECT_EQ(foreign.at("diffusion_model.patch_embedding_pose"), (std::vector<std::string>{"patch_embedding_pose"}));
  EXPECT_EQ(foreign.at("diffusion_model.blocks.0.cross_attn.k_img"), (std::vector<std::string>{"blocks.0.attn2.add_k_proj"}));
  EXPECT_EQ(wan::target_names("patch_embedding_mask"), (std::vector<std::string>{"patch_embedding_mask", "patch_embedding_mask"}));
}

}  // namespace burnish::wan_scail_test
