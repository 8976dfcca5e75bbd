// Wan-S2V's transformer beside DiffSynth-Studio's own code (tests/golden/make_wan_speech.py).
#include <torch/csrc/autograd/autograd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "memory/recompute.h"
#include "models/families/wan/keys.h"
#include "models/families/wan/speech_units.h"
#include "models/families/wan/transformer.h"
#include "tests/models/load.h"

namespace burnish::wan_speech_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr int64_t kFilledLength = 512;
const auto kMeta = at::TensorOptions().device(at::kMeta);

struct Golden {
  nlohmann::json json = io::read_json(test::golden_path("wan_speech/transformer/config.json"));
  io::TensorSource weights = test::golden("wan_speech/transformer/diffusion_pytorch_model.safetensors");
  io::TensorSource file = test::golden("wan_speech/transformer.safetensors");
  io::Shapes shapes() const { return io::shapes_in_our_names(weights, wan::original_keys()); }
  wan::Config config() const { return wan::detect(&json, shapes()); }

  std::unique_ptr<wan::Transformer> load() const {
    auto model = std::make_unique<wan::Transformer>(config(), kMeta);
    test::load(*model, weights, wan::original_keys());
    for (auto& [path, slot] : model->parameters()) slot->set_requires_grad(true);
    return model;
  }
  /// The velocity of `count` equal samples behind their given frame.
  at::Tensor run(wan::Transformer& model, int64_t count = 1, const at::Tensor& states = {}) const {
    auto in = [&](const char* name) {
      auto x = on_device(file.tensor(name));
      auto sizes = x.sizes().vec();
      sizes[0] = count;
      return x.expand(sizes);
    };
    auto caption = on_device(file.tensor("in.caption"));
    auto text = at::constant_pad_nd(caption, {0, 0, 0, 1}).unsqueeze(0).expand({count, -1, -1});
    auto counts = at::ones({count, text.size(1)}, test::device());
    counts.select(1, text.size(1) - 1).fill_(kFilledLength - caption.size(0));
    auto& speech = model.speech();
    auto heard = states.defined() ? states : in("in.states");
    auto out = model.forward({.noisy_BCFHW = in("in.noisy"),
                              .text_BTE = text,
                              .counts_BT = counts,
                              .modulation_BM = model.modulate(in("in.sigma")),
                              .given_modulation_BM = model.modulate(at::zeros({count}, test::device())),
                              .num_given = 1,
                              .given_place = wan::kReferencePlace,
                              .hints = speech.hints(heard.transpose(2, 3)),
                              .added_BDFHW = speech.added_patches(in("in.poses"))});
    return out.narrow(2, 1, out.size(2) - 1);
  }
  at::Tensor behind_given(const char* name) const {
    auto x = file.tensor(name);
    return x.narrow(2, 1, x.size(2) - 1);
  }
  void expect_gradients(wan::Transformer& model) const {
    torch::autograd::backward({(run(model) * on_device(behind_given("out_weight"))).sum()}, {});
    std::map<std::string, at::Tensor> gradients;
    for (auto& [path, slot] : model.parameters()) {
      if (slot->grad().defined()) gradients[wan::original_keys().to_file({{path, *slot}}).at(0).first] = slot->grad();
    }
    for (const auto& name : file.below("grad.").names()) {
      ASSERT_TRUE(gradients.contains(name)) << name;
      EXPECT_LE(relative_error(test::digest(gradients.at(name)), file.tensor("grad." + name)), tolerance(1e-4)) << name;
    }
  }
};

}  // namespace

TEST(WanSpeech, VelocityAndGradientsAreThoseOfDiffSynthStudio) {
  Golden golden;
  auto model = golden.load();
  EXPECT_LE(relative_error(golden.run(*model), golden.behind_given("out")), tolerance(5e-6));
  golden.expect_gradients(*model);
}

TEST(WanSpeech, RecomputedBlocksGiveTheSameGradients) {
  Golden golden;
  auto model = golden.load();
  for (auto* block : model->blocks()) block->runner = memory::recompute();
  golden.expect_gradients(*model);
}

TEST(WanSpeech, ABatchIsItsSamplesOneByOne) {
  Golden golden;
  auto model = golden.load();
  auto states = on_device(golden.file.tensor("in.states"));
  auto louder = states.mul(2);
  auto both = golden.run(*model, 2, at::cat({states, louder}));
  EXPECT_LE(relative_error(both.narrow(0, 0, 1), golden.run(*model)), tolerance(2e-6));
  EXPECT_LE(relative_error(both.narrow(0, 1, 1), golden.run(*model, 1, louder)), tolerance(2e-6));
  EXPECT_GT(relative_error(both.narrow(0, 1, 1), both.narrow(0, 0, 1)), 1e-3) << "what is heard changes what is seen";
}

TEST(WanSpeech, BlocksRunInTheOrderOfTheirWeights) {
  auto model = Golden().load();
  auto in_tree = nn::blocks_below(*model), in_order = model->blocks();
  ASSERT_EQ(in_order.size(), 5u) << "three, and two behind the first and the third";
  EXPECT_EQ(in_order, (std::vector{in_tree[0], in_tree[3], in_tree[1], in_tree[2], in_tree[4]}));
}

TEST(WanSpeech, SizesAreThoseOfShapesAndOfConfig) {
  Golden golden;
  const auto speech = golden.config().extras.speech;
  EXPECT_EQ(speech.layers, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(speech.num_states, 4);
  EXPECT_EQ(speech.sound_width, 16);
  EXPECT_EQ(speech.num_tokens, 4);
  EXPECT_FALSE(speech.has_packer);
  for (const auto& layers : {std::vector<int64_t>{0}, {0, 3}, {2, 0}}) {
    auto json = golden.json;
    json["audio_inject_layers"] = layers;
    EXPECT_THROW(wan::detect(&json, golden.shapes()), Error) << testing::PrintToString(layers);
  }
  auto json = golden.json;
  json.erase("audio_inject_layers");
  EXPECT_THROW(wan::detect(&json, golden.shapes()), Error) << "two that nothing says of where they stand";
  json = golden.json;
  json["enable_motioner"] = true;
  EXPECT_THROW(wan::detect(&json, golden.shapes()), Error);
  auto alone = wan::detect(&golden.json, {}).extras.speech;
  EXPECT_EQ(alone.layers, speech.layers);
  EXPECT_EQ(alone.sound_width, speech.sound_width);
  wan::Config published{.extras = {.speech = {.layers = wan::kPublishedHearing, .has_packer = true}}};
  wan::Transformer model(published, kMeta);
  int64_t count = 0;
  for (auto& [path, slot] : model.parameters()) count += slot->numel();
  EXPECT_NEAR(static_cast<double>(count) / 1e9, 16.3, 0.1) << "as Wan2.2-S2V-14B";
}

TEST(WanSpeech, FramesHaveTheNearestStateAndZerosBehindTheEnd) {
  auto states = at::arange(10, at::kFloat).view({1, 1, 10, 1});  // of a fifth of a second
  auto chosen = wan::states_of_frames(states, 5, 0.05).flatten();
  EXPECT_LE(relative_error(chosen, at::tensor({3.6, 5.4, 9.0, 0.0})), 1e-6) << "of six the third, fourth and last, and none";
}

}  // namespace burnish::wan_speech_test
