// Parity of wav2vec 2.0 with transformers on a small random model (tests/golden/make_wav2vec2.py), and the names that files give its
// tensors.
#include "models/parts/wav2vec2.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "models/files/open_files.h"
#include "tests/models/load.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::Scratch;
using test::tolerance;

namespace {

struct Wav2Vec2Parity : testing::Test {
  at::NoGradGuard no_grad;
  ModelFiles files = open_files({{test::golden_path("wav2vec2")}, "", ""}, {});
  io::TensorSource sound = test::golden("wav2vec2/sound.safetensors");

  static at::Tensor states(const Source& source, const at::Tensor& samples) {
    Wav2Vec2 model(source.read(wav2vec2_config), at::TensorOptions());
    test::load(model, *source.tensors, source.keys);
    return model.states(on_device(samples));
  }
};

}  // namespace

TEST_F(Wav2Vec2Parity, AllStatesOfTwoSounds) {
  const auto source = find_wav2vec2(files);
  ASSERT_NE(source.entry, nullptr);
  EXPECT_LE(relative_error(heard(sound.tensor("samples")), sound.tensor("heard")), 1e-6);
  auto made = states(source, sound.tensor("heard"));
  EXPECT_EQ(made.size(2), source.read(wav2vec2_config).num_steps(sound.tensor("samples").size(1)));
  EXPECT_LE(relative_error(made, sound.tensor("states")), tolerance(2e-6));
  auto first = states(source, sound.tensor("heard").narrow(0, 0, 1));
  EXPECT_LE(relative_error(first, made.narrow(0, 0, 1)), tolerance(4e-6)) << "a sound alone is as in a batch";
}

TEST_F(Wav2Vec2Parity, SilenceIsHeardAsZeros) {
  EXPECT_EQ(heard(at::zeros({1, 400})).abs().max().item<float>(), 0);
  EXPECT_EQ(heard(at::full({1, 400}, 0.5)).abs().max().item<float>(), 0);
}

TEST_F(Wav2Vec2Parity, WeightsOfPlacesAreReadByTheirOlderNamesToo) {
  const auto source = find_wav2vec2(files);
  Scratch folder;
  io::NamedTensors older;
  for (const auto& name : source.tensors->names()) {
    auto renamed = name;
    for (const auto& [now, before] :
         {std::pair("parametrizations.weight.original0", "weight_g"), {"parametrizations.weight.original1", "weight_v"}}) {
      if (auto at = name.find(now); at != name.npos) renamed = name.substr(0, at) + before;
    }
    older.emplace_back("wav2vec2." + renamed, source.tensors->tensor(name).clone());
  }
  older.emplace_back("wav2vec2.masked_spec_embed", at::zeros({16}));
  io::save_safetensors(folder / "model.safetensors", older);
  auto alone = open_files({{(folder / "model.safetensors").string()}, "", ""}, {});
  const auto again = find_wav2vec2(alone);
  ASSERT_NE(again.entry, nullptr);
  EXPECT_EQ(again.shapes(), source.shapes());
  auto config = again.read(wav2vec2_config);
  EXPECT_EQ(config.convolutions.strides, (std::vector<int64_t>{5, 2, 2, 2, 2, 2, 2}))
      << "those of the published models, where no config.json says them";
  config = source.read(wav2vec2_config);
  Wav2Vec2 model(config, at::TensorOptions());
  test::load(model, *again.tensors, again.keys);
  EXPECT_LE(relative_error(model.states(on_device(sound.tensor("heard"))), sound.tensor("states")), tolerance(2e-6));
}

TEST_F(Wav2Vec2Parity, AConfigOfAnotherKindIsRefused) {
  const auto base_files = open_files({{test::golden_path("wav2vec2_base")}, "", ""}, {});
  const auto before = find_wav2vec2(files), behind = find_wav2vec2(base_files);
  auto expect_refused = [](const Source& source, const char* key, const nlohmann::json& value) {
    auto config = source.entry->config;
    config[key] = value;
    EXPECT_THROW(wav2vec2_config(config, source.shapes()), Error) << key << " " << value;
  };
  expect_refused(before, "do_stable_layer_norm", false);
  expect_refused(before, "feat_extract_norm", "group");
  expect_refused(behind, "do_stable_layer_norm", true);
  expect_refused(behind, "feat_extract_norm", "layer");
}

/// wav2vec2-base's kind, whose file lies below a model that learned without texts (tests/golden/make_wav2vec2_base.py).
TEST_F(Wav2Vec2Parity, NormsBehindLayersAndStepsOfFrames) {
  const auto base_files = open_files({{test::golden_path("wav2vec2_base")}, "", ""}, {});
  const auto source = find_wav2vec2(base_files);
  ASSERT_NE(source.entry, nullptr);
  const auto config = source.read(wav2vec2_config);
  EXPECT_EQ(config.norms, Wav2Vec2Config::Norms::behind);
  EXPECT_FALSE(config.convolutions.has_biases);
  Wav2Vec2 model(config, at::TensorOptions());
  test::load(model, *source.tensors, source.keys);
  auto expected = test::golden("wav2vec2_base/sound.safetensors");
  const auto samples = on_device(sound.tensor("heard"));
  EXPECT_LE(relative_error(model.states(samples), expected.tensor("states")), tolerance(2e-6));
  EXPECT_LE(relative_error(model.states(samples, 10), expected.tensor("by_frame")), tolerance(2e-6));
  EXPECT_LE(relative_error(states(find_wav2vec2(files), samples), sound.tensor("states")), tolerance(2e-6))
      << "the other kind is as it was";
}
