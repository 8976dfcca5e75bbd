// InfiniteTalk's transformer beside its formulas in torch (tests/golden/make_wan_talk.py).
#include <torch/csrc/autograd/autograd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "memory/recompute.h"
#include "models/families/wan/talk.h"
#include "models/families/wan/talk_units.h"
#include "models/families/wan/transformer.h"
#include "tests/models/load.h"

namespace burnish::wan_talk_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kFilledText = 512;
const auto kOnMeta = at::TensorOptions().device(at::kMeta);

struct GoldenTalk {
  nlohmann::json json = io::read_json(test::golden_path("wan_image/transformer/config.json"));
  io::TensorSource added = test::golden("wan_talk/infinitetalk.safetensors");
  io::TensorSource weights = test::golden("wan_image/transformer/diffusion_pytorch_model.safetensors").joined(added);
  io::TensorSource file = test::golden("wan_talk/transformer.safetensors");
  wan::Config config() const { return wan::detect(&json, io::shapes_in_our_names(weights, {})); }

  std::unique_ptr<wan::Transformer> load() const {
    auto model = std::make_unique<wan::Transformer>(config(), kOnMeta);
    test::load(*model, weights, {});
    for (auto& [path, slot] : model->parameters()) slot->set_requires_grad(true);
    return model;
  }
  /// States by frame [B, F, M], as units write them.
  at::Tensor states() const { return on_device(file.tensor("in.states")).transpose(1, 2).flatten(2); }
  at::Tensor run(const wan::Transformer& model, const at::Tensor& states_BFM) const {
    const auto count = states_BFM.size(0);
    auto in = [&](const char* name) {
      auto x = on_device(file.tensor(name));
      auto sizes = x.sizes().vec();
      sizes[0] = count;
      return x.expand(sizes);
    };
    auto caption = on_device(file.tensor("in.caption"));
    auto text = at::constant_pad_nd(caption, {0, 0, 0, 1}).unsqueeze(0).expand({count, -1, -1});
    auto counts = at::ones({count, text.size(1)}, test::device());
    counts.select(1, text.size(1) - 1).fill_(kFilledText - caption.size(0));
    return const_cast<wan::Transformer&>(model).forward({.noisy_BCFHW = in("in.noisy"),
                                                         .text_BTE = text,
                                                         .counts_BT = counts,
                                                         .modulation_BM = model.modulate(in("in.sigma")),
                                                         .image_BNW = in("in.image"),
                                                         .states_BFM = states_BFM});
  }
  void expect_gradients(wan::Transformer& model) const {
    torch::autograd::backward({(run(model, states()) * on_device(file.tensor("out_weight"))).sum()}, {});
    std::map<std::string, at::Tensor> gradients;
    for (auto& [path, slot] : model.parameters()) {
      if (slot->grad().defined()) gradients[path] = slot->grad();
    }
    for (const auto& name : file.below("grad.").names()) {
      ASSERT_TRUE(gradients.contains(name)) << name;
      EXPECT_LE(relative_error(test::digest(gradients.at(name)), file.tensor("grad." + name)), tolerance(1e-4)) << name;
    }
  }
};

}  // namespace

TEST(WanTalk, VelocityAndGradientsAreThoseOfTheFormulas) {
  GoldenTalk golden;
  auto model = golden.load();
  EXPECT_LE(relative_error(golden.run(*model, golden.states()), golden.file.tensor("out")), tolerance(5e-6));
  EXPECT_LE(relative_error(golden.run(*model, golden.states() * 0), golden.file.tensor("in.silent")), tolerance(5e-6));
  golden.expect_gradients(*model);
}

TEST(WanTalk, RecomputedBlocksGiveTheSameGradients) {
  GoldenTalk golden;
  auto model = golden.load();
  for (auto* block : model->blocks()) block->runner = memory::recompute();
  golden.expect_gradients(*model);
}

TEST(WanTalk, ABatchIsItsSamplesOneByOne) {
  GoldenTalk golden;
  auto model = golden.load();
  const auto states = golden.states(), louder = states * 2;
  auto both = golden.run(*model, at::cat({states, louder}));
  EXPECT_LE(relative_error(both.narrow(0, 0, 1), golden.run(*model, states)), tolerance(2e-6));
  EXPECT_LE(relative_error(both.narrow(0, 1, 1), golden.run(*model, louder)), tolerance(2e-6));
  EXPECT_GT(relative_error(both.narrow(0, 1, 1), both.narrow(0, 0, 1)), 1e-3) << "what is heard changes what is seen";
}

/// A latent frame hears the frames that it stands for and two on either side; the first of them that stands alone hears as many.
TEST(WanTalk, AFrameOfLatentsHearsItsFramesAndTwoOnEitherSide) {
  GoldenTalk golden;
  auto said = wan::SaidInFrames(golden.config().extras.talk, at::TensorOptions());
  test::load(said, golden.added.below("audio_proj."), {});
  const auto states = golden.states().cpu();
  const auto plain = said.forward(states);
  ASSERT_EQ(plain.size(1), 3);
  const std::vector<std::pair<int64_t, int64_t>> heard{{0, 2}, {0, 6}, {3, 8}};
  for (int64_t frame = 0; frame < states.size(1); ++frame) {
    auto changed = states.clone();
    changed.select(1, frame).add_(1);
    const auto differs = (said.forward(changed) - plain).abs().amax({0, 2, 3}).gt(0);
    for (int64_t latent = 0; latent < 3; ++latent) {
      const auto& [first, last] = heard[static_cast<size_t>(latent)];
      EXPECT_EQ(differs[latent].item<bool>(), first <= frame && frame <= last) << latent << " of " << frame;
    }
  }
}

TEST(WanTalk, SizesAreThoseOfShapesAndOfConfig) {
  GoldenTalk golden;
  const auto talk = golden.config().extras.talk;
  EXPECT_EQ(talk.sound_width, 3 * 16);
  EXPECT_EQ(talk.window, 5);
  EXPECT_EQ(talk.hidden, 8);
  EXPECT_EQ(talk.num_tokens, 4);
  EXPECT_EQ(talk.token_width, 12);
  auto json = golden.json;
  json.update(
      {{"audio_layers", 3}, {"audio_dim", 16}, {"audio_intermediate_dim", 8}, {"audio_context_tokens", 4}, {"audio_output_dim", 12}});
  auto alone = wan::detect(&json, {}).extras.talk;
  EXPECT_EQ(alone.sound_width, talk.sound_width);
  EXPECT_EQ(alone.num_tokens, talk.num_tokens);
  json["audio_window"] = 7;
  EXPECT_THROW(wan::detect(&json, io::shapes_in_our_names(golden.weights, {})), Error);
  auto fewer = io::shapes_in_our_names(golden.weights, {});
  std::erase_if(fewer, [](const auto& shape) { return shape.first.starts_with("blocks.1.audio_cross_attn."); });
  EXPECT_THROW(wan::detect(&golden.json, fewer), Error) << "what is added to one of two blocks";
  wan::Config published{.in_channels = 36, .image_width = 1280, .extras = {.talk = {.sound_width = 12 * wan::kStateWidth}}};
  wan::Transformer model(published, kOnMeta);
  int64_t count = 0, of_talk = 0;
  for (auto& [path, slot] : model.parameters()) {
    count += slot->numel();
    if (path.find("audio_") != path.npos || path.find("norm_x") != path.npos) of_talk += slot->numel();
  }
  EXPECT_NEAR(static_cast<double>(of_talk) / 1e9, 2.49, 0.01) << "as infinitetalk.safetensors";
  EXPECT_NEAR(static_cast<double>(count) / 1e9, 18.89, 0.05);
}

TEST(WanTalk, GuidanceByTextAndSoundIsTheAuthors) {
  const auto prediction = at::randn({1, 4, 2, 3, 3}), other = at::randn({1, 4, 2, 3, 3}), nothing = at::randn({1, 4, 2, 3, 3});
  const double text = 5, sound = 4;
  const auto expected = nothing + text * (prediction - other) + sound * (other - nothing);
  const auto away = at::cat({other, (other - nothing) * (sound - 1)}, 1);
  EXPECT_LE(relative_error(wan::guided_by_sound(prediction, away, text, 0), expected), 1e-6);
  EXPECT_LE(relative_error(wan::guided_by_sound(prediction, other, text, 0), other + text * (prediction - other)), 1e-6)
      << "where the sound does not guide";
}

}  // namespace burnish::wan_talk_test
