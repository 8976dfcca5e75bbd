// Parity of LTX-2's parts with diffusers' on small random models (tests/golden/make_ltx2.py).
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "io/json.h"
#include "models/families/ltx2/keys.h"
#include "models/families/ltx2/places.h"
#include "models/families/ltx2/process.h"
#include "models/families/ltx2/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"

namespace burnish::ltx2_test {
using namespace burnish::models;
using ltx2::Transformer;
using mmdit::HeldLayers;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kFolder = "ltx2_pipeline/", kTransformer = kFolder + "model/transformer/";

/// Clips with sound, and texts for both.
struct Clips {
  explicit Clips(const std::string& name) : Clips(test::golden(kFolder + name)) {}
  explicit Clips(const io::TensorSource& from) : file(from) {
    auto in = [&](const char* name) { return on_device(file.tensor(std::string("in.") + name)); };
    noisy = in("noisy");
    sigma = in("sigma");
    texts = {in("text"), in("sound_text")};
    sound = in("sound");
  }
  Clips one(int64_t b) const {
    Clips sample(*this);
    for (auto* tensor : {&sample.noisy, &sample.sigma, &sample.texts.frames, &sample.texts.sound, &sample.sound})
      *tensor = tensor->narrow(0, b, 1);
    return sample;
  }
  io::TensorSource file;
  at::Tensor noisy, sigma, sound;
  Transformer::Texts texts;
};

const Clips& golden_clips() {
  static const Clips clips("batch.safetensors");
  return clips;
}

std::unique_ptr<Transformer> load_transformer(HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, ltx2::detect, part);
}

at::Tensor rate() { return at::full({1}, 24.0, at::TensorOptions().device(test::device())); }

Transformer::Velocities run(Transformer& modulation, Transformer& body, const Clips& clips, int64_t num_given = 0) {
  return body.forward({.noisy_BCFHW = clips.noisy,
                       .sound_BCN = clips.sound,
                       .texts = clips.texts,
                       .modulation_BM = modulation.modulate(clips.sigma, num_given > 0, at::kFloat),
                       .rate_B = rate(),
                       .num_given = num_given});
}
Transformer::Velocities run(Transformer& model, const Clips& clips) { return run(model, model, clips); }

/// Holds what came out, and the gradients of all parameters, to a file.
void expect_parity(Transformer& model, const Transformer::Velocities& out, const io::TensorSource& file) {
  EXPECT_LE(relative_error(out.frames, file.tensor("out")), tolerance(1e-5));
  EXPECT_LE(relative_error(out.sound, file.tensor("sound")), tolerance(1e-5));
  auto of_sound = (out.sound * on_device(file.tensor("sound_weight"))).sum();
  torch::autograd::backward({of_sound + (out.frames * on_device(file.tensor("out_weight"))).sum()}, {});
  test::expect_digests(model, file.below("grad."));
}

/// A transformer of another version, with its weights in the file of its expected numbers.
std::unique_ptr<Transformer> load_version(const io::TensorSource& file) {
  const auto json = nlohmann::json::parse(file.metadata().at("config"));
  const auto weights = file.below("w.");
  auto model = std::make_unique<Transformer>(ltx2::detect(&json, weights.shapes()), at::TensorOptions().device(at::kMeta));
  for (auto& [path, slot] : model->parameters()) *slot = on_device(weights.tensor(path)).to(at::kFloat).set_requires_grad(true);
  return model;
}

}  // namespace

TEST(Ltx2Parity, ForwardAndAllGradients) {
  auto model = load_transformer();
  expect_parity(*model, run(*model, golden_clips()), golden_clips().file);
}

TEST(Ltx2Parity, OfTheFirstVersion) {
  const Clips clips("version_20.safetensors");
  auto model = load_version(clips.file);
  EXPECT_STREQ(ltx2::version_of(model->config()), "LTX-2");
  auto projected = clips;
  projected.texts = {model->project(clips.texts.frames, Transformer::Stream::frames),
                     model->project(clips.texts.sound, Transformer::Stream::sound)};
  expect_parity(*model, run(*model, projected), clips.file);
}

TEST(Ltx2Parity, OfTheThirdVersionWhichMarksTheFirstFrame) {
  const Clips clips("version_25.safetensors");
  auto model = load_version(clips.file);
  EXPECT_STREQ(ltx2::version_of(model->config()), "LTX-2.5");
  expect_parity(*model, run(*model, clips), clips.file);
}

TEST(Ltx2Parity, AFirstFrameThatIsGivenHasNoNoise) {
  at::NoGradGuard no_grad;
  const Clips clips("given.safetensors");
  auto model = load_transformer();
  const auto out = run(*model, *model, clips, /*num_given=*/1);
  EXPECT_LE(relative_error(out.frames, clips.file.tensor("out")), tolerance(1e-5));
  EXPECT_LE(relative_error(out.sound, clips.file.tensor("sound")), tolerance(1e-5));
  EXPECT_GT(relative_error(run(*model, clips).frames, clips.file.tensor("out")), 1e-2) << "as if it had noise";
}

// In 2.5 a given token has its own time, 0, also where frames and sound attend to each other (tests/golden/make_ltx2_times.py).
TEST(Ltx2Parity, OfTheThirdVersionWithAFirstFrameThatIsGiven) {
  const Clips clips(test::golden("ltx2_times_25.safetensors"));
  auto model = load_version(test::golden(kFolder + "version_25.safetensors"));
  auto out = run(*model, *model, clips, /*num_given=*/1);
  EXPECT_GT(relative_error(out.frames.detach(), clips.file.tensor("crossed.out")), 1e-3) << "as in the versions before";
  expect_parity(*model, out, clips.file);
}

TEST(Ltx2Parity, FramesBesideTheNoiseHavePlacesOfTheirOwn) {
  at::NoGradGuard no_grad;
  const Clips clips(test::golden("ltx2_given/beside.safetensors"));
  auto model = load_transformer();
  const auto rate = at::full({1}, 12.0, at::TensorOptions().device(test::device()));
  const auto last = on_device(clips.file.tensor("in.last")), reference = on_device(clips.file.tensor("in.reference")),
             several = on_device(clips.file.tensor("in.several"));
  auto run_with = [&](int64_t num_given, const std::vector<Transformer::Beside>& beside) {
    return model->forward({.noisy_BCFHW = clips.noisy,
                           .sound_BCN = clips.sound,
                           .texts = clips.texts,
                           .modulation_BM = model->modulate(clips.sigma, /*has_given=*/true, at::kFloat),
                           .rate_B = rate,
                           .num_given = num_given,
                           .beside = beside});
  };
  const std::vector<Transformer::Beside> of_both{{last, ltx2::places_of_given({1, 2, 4}, rate, 16)},
                                                 {reference, ltx2::places_of_reference({3, 1, 2}, rate, 2)}};
  const auto plain = run_with(0, of_both), given = run_with(1, of_both);
  const auto of_several =
      run_with(1, {{last, ltx2::places_of_given({1, 2, 4}, rate, 5)}, {several, ltx2::places_of_given({2, 2, 4}, rate, 8)}});
  EXPECT_LE(relative_error(of_several.frames, clips.file.tensor("several.out")), tolerance(1e-5));
  EXPECT_LE(relative_error(of_several.sound, clips.file.tensor("several.sound")), tolerance(1e-5));
  EXPECT_LE(relative_error(plain.frames, clips.file.tensor("out")), tolerance(1e-5));
  EXPECT_LE(relative_error(plain.sound, clips.file.tensor("sound")), tolerance(1e-5));
  EXPECT_LE(relative_error(given.frames, clips.file.tensor("given.out")), tolerance(1e-5));
  EXPECT_LE(relative_error(given.sound, clips.file.tensor("given.sound")), tolerance(1e-5));
}

TEST(Ltx2Parity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_transformer(), load_transformer(), golden_clips().file, [](auto& model) {
    auto out = run(model, golden_clips());
    return out.frames + out.sound.sum();
  });
}

TEST(Ltx2Batch, EqualsItsSamplesOneByOne) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  test::expect_samples(run(*model, golden_clips()).frames, [&](int64_t b) { return run(*model, golden_clips().one(b)).frames; });
  test::expect_samples(run(*model, golden_clips()).sound, [&](int64_t b) { return run(*model, golden_clips().one(b)).sound; });
}

TEST(Ltx2Parts, AreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  auto modulation = load_transformer({.body = false, .text = false}), body = load_transformer({.modulation = false, .text = false});
  EXPECT_EQ(modulation->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *body, golden_clips()).frames, run(*whole, golden_clips()).frames));
}

TEST(Ltx2Places, AreOfTheFrameRate) {
  const auto places = ltx2::places_of_frames({3, 1, 2}, at::tensor({24.0, 12.0}));
  EXPECT_EQ(places.sizes(), (std::vector<int64_t>{2, 3, 6}));
  const auto seconds = places.select(1, 0), across = places.select(1, 2);
  for (int64_t b = 0; b < 2; ++b) {
    const auto frames_a_second = b == 0 ? 24.0 : 12.0;
    EXPECT_NEAR(seconds[b][0].item<double>(), 0.5 / frames_a_second, 1e-6) << "the first latent is one frame";
    EXPECT_NEAR(seconds[b][2].item<double>(), 5 / frames_a_second, 1e-6) << "and the others eight";
    EXPECT_NEAR(seconds[b][4].item<double>(), 13 / frames_a_second, 1e-6);
  }
  EXPECT_EQ(across[0][0].item<double>(), 16);
  EXPECT_EQ(across[0][1].item<double>(), 48);
  const auto sound = ltx2::places_of_sound(3, at::TensorOptions()).flatten();
  EXPECT_NEAR(sound[0].item<double>(), 0.005, 1e-7);
  EXPECT_NEAR(sound[1].item<double>(), 0.03, 1e-7);
  EXPECT_NEAR(sound[2].item<double>(), 0.07, 1e-7);
}

TEST(Ltx2Places, AreThoseOfDiffusers) {
  const auto expected = test::golden("ltx2_rates/coordinates.safetensors");
  EXPECT_LE(relative_error(ltx2::places_of_frames({3, 2, 3}, at::tensor({12.0, 50.0})), expected.tensor("video")), 1e-7);
  EXPECT_LE(relative_error(ltx2::places_of_sound(5, at::TensorOptions()), expected.tensor("audio")), 1e-6);
}

TEST(Ltx2Config, PublishedSizesAreCounted) {
  auto count = [](const ltx2::Config& config) {
    Transformer model(config, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
    return static_cast<double>(model.num_bytes()) / 2e9;
  };
  EXPECT_NEAR(count(ltx2::config_20()), 18.876, 5e-4);
  EXPECT_NEAR(count({}), 18.989, 5e-4);
  EXPECT_NEAR(count(ltx2::config_25()), 18.988, 5e-4);
}

// A whole model in original names is read as in ours, and its config says nothing that tensors do not.
TEST(Ltx2Keys, OriginalNamesAreOurs) {
  io::NamedTensors ours;
  const auto source = test::golden(kTransformer + "diffusion_pytorch_model.safetensors");
  for (const auto& name : source.names()) ours.emplace_back(name, source.tensor(name));
  const auto keys = ltx2::original_keys();
  const auto theirs = keys.to_file(ours);
  std::set<std::string> names;
  for (const auto& [name, tensor] : theirs) {
    names.insert(name);
    EXPECT_EQ(keys.to_ours(name).ours.size(), 1u) << name;
  }
  EXPECT_EQ(theirs.size(), ours.size());
  for (const char* name : {"patchify_proj.weight", "audio_patchify_proj.bias", "adaln_single.linear.weight",
                           "audio_adaln_single.emb.timestep_embedder.linear_1.weight", "prompt_adaln_single.linear.bias",
                           "audio_prompt_adaln_single.linear.weight", "av_ca_video_scale_shift_adaln_single.linear.weight",
                           "av_ca_v2a_gate_adaln_single.linear.weight", "transformer_blocks.0.attn1.q_norm.weight",
                           "transformer_blocks.2.audio_attn2.k_norm.weight", "transformer_blocks.1.scale_shift_table_a2v_ca_video",
                           "transformer_blocks.1.scale_shift_table_a2v_ca_audio", "transformer_blocks.1.prompt_scale_shift_table",
                           "transformer_blocks.0.attn2.to_gate_logits.weight", "audio_scale_shift_table"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_TRUE(names.contains(ltx2::kOriginalMark));
  EXPECT_FALSE(names.contains(ltx2::kMark));
  std::map<std::string, at::Tensor> by_name(theirs.begin(), theirs.end());
  for (const auto& [name, tensor] : ours) {
    const auto rule = keys.to_file(std::vector<std::string>{name}).front();
    EXPECT_TRUE(at::equal(by_name.at(rule.theirs), tensor)) << name;
  }
}

TEST(Ltx2Process, TrainsOnTheCurveThatItDraws) {
  const ltx2::Process process(ltx2::published_steps());
  for (const auto& [num_tokens, mu] : {std::pair(int64_t{1024}, 0.95), {4096, 2.05}, {7168, 3.15}}) {
    for (uint64_t key = 1; key < 30; ++key) {
      const auto shifted = process.draw_time({.mode = "sigma", .shift = std::exp(mu)}, key, num_tokens);
      EXPECT_NEAR(process.draw_time({}, key, num_tokens), 1 - 0.9 * (1 - shifted), 1e-12) << "stretched to a tenth";
    }
  }
  for (uint64_t key = 1; key < 200; ++key) {
    const auto time = process.draw_time({.min_t = 0.5, .max_t = 0.7}, key, 1024);
    EXPECT_TRUE(time >= 0.5 && time <= 0.7) << time;
  }
  const auto sampler = process.sampler({.num_steps = 4, .num_image_tokens = 4096});
  EXPECT_DOUBLE_EQ(sampler->time(0), 1);
  EXPECT_NEAR(sampler->time(3), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(process.loss_weight({}, 0.9), 1);
}

// Numbers of DiffSynth-Studio's FlowMatchScheduler("LTX-2"), by index of its grid.
TEST(Ltx2Process, KnowsDiffSynthStudiosGrid) {
  const ltx2::Process process(ltx2::published_steps());
  for (const auto& [index, sigma, weight] : {std::tuple(0, 1.0, 0.0),
                                             {250, 0.962681, 0.288561},
                                             {500, 0.896555, 0.789430},
                                             {750, 0.747305, 1.777503},
                                             {905, 0.500391, 2.512774},
                                             {999, 0.1, 0.763907}}) {
    const diffusion::TimestepOptions at{.mode = "diffsynth", .min_boundary = (index + 0.25) / 1000, .max_boundary = (index + 0.75) / 1000};
    const auto drawn = process.draw_time(at, 7, 256);
    EXPECT_NEAR(drawn, sigma, 1e-6) << index;
    EXPECT_NEAR(process.loss_weight({.weighting = "diffsynth"}, drawn), weight, 5e-6) << index;
  }
}

TEST(Ltx2Config, TellsVersionsAndRefusesRelatives) {
  auto source = test::golden(kTransformer + "diffusion_pytorch_model.safetensors");
  auto json = io::read_json(test::golden_path(kTransformer + "config.json"));
  EXPECT_STREQ(ltx2::version_of(ltx2::detect(&json, source.shapes())), "LTX-2.3");
  EXPECT_STREQ(ltx2::version_of(ltx2::detect(nullptr, source.shapes())), "LTX-2.3") << "of tensors alone";
  EXPECT_STREQ(ltx2::version_of(ltx2::detect(&json, {})), "LTX-2.3") << "of config.json alone";
  for (const auto& [key, value] : {std::pair<std::string, nlohmann::json>{"rope_type", "interleaved"},
                                   {"patch_size", 2},
                                   {"num_layers", 4},
                                   {"timestep_scale_multiplier", 1},
                                   {"audio_num_attention_heads", 4}}) {
    auto other = json;
    other[key] = value;
    EXPECT_THROW(ltx2::detect(&other, source.shapes()), Error) << key;
  }
}

}  // namespace burnish::ltx2_test
