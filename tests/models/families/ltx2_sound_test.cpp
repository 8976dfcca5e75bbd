// Parity of LTX-2's autoencoder of sound and its vocoders with diffusers' on small random models (tests/golden/make_ltx2_autoencoders.py),
// and what their files may look like.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>

#include "models/families/ltx2/bands.h"
#include "models/families/ltx2/file_settings.h"
#include "models/families/ltx2/halves.h"
#include "models/families/ltx2/sound_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/load.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;
using ltx2::SoundAutoencoder;
using ltx2::SoundConfig;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

io::TensorSource file_of(const std::string& name) { return test::golden("ltx2_autoencoders/" + name + ".safetensors"); }
nlohmann::json settings_in(const io::TensorSource& file) { return nlohmann::json::parse(file.metadata().at("config")); }

std::unique_ptr<SoundAutoencoder> load(const SoundConfig& config, const io::TensorSource& weights, const io::KeyMap& keys = {}) {
  auto model = std::make_unique<SoundAutoencoder>(config, at::TensorOptions().device(at::kMeta));
  test::load(*model, weights, keys);
  return model;
}

std::unique_ptr<SoundAutoencoder> load_sound() {
  const auto file = file_of("sound"), weights = file.below("w.");
  return load(ltx2::sound_config(settings_in(file), weights.shapes()), weights);
}

/// The sound of the golden script's `tone`, fp64 [1, 2, N].
at::Tensor tone(int64_t count) {
  const auto time = at::arange(count, at::kDouble) / 16000;
  return at::stack({at::sin(1500 * time * (1 + 8 * time)) * 0.5, at::sin(900 * time) * 0.3 + at::sin(20000 * time) * 0.2}).unsqueeze(0);
}

/// The whole numbers of the golden script's `counted`, as latents.
at::Tensor latents(at::IntArrayRef sizes) {
  const auto count = at::arange(c10::multiply_integers(sizes), at::kLong);
  const auto numbers = (count * 37 + at::floor_divide(count, 11) * 5 + at::floor_divide(count, 97)).remainder(256);
  return on_device(numbers.view(sizes).to(at::kFloat) / 64 - 2);
}

/// The tensors of the golden autoencoder of sound as an original file has them.
io::NamedTensors original_tensors(const std::string& half = "") {
  const std::map<std::string, std::string> statistics{{"latents_mean", ltx2::kOriginalMean}, {"latents_std", ltx2::kOriginalDeviation}};
  io::NamedTensors theirs;
  const auto weights = file_of("sound").below("w.");
  for (const auto& name : weights.names()) {
    const auto statistic = statistics.find(name);
    const bool is_statistic = statistic != statistics.end();
    if (is_statistic || name.starts_with(half))
      theirs.emplace_back("audio_vae." + (is_statistic ? statistic->second : name), weights.tensor(name));
  }
  return theirs;
}

ModelFiles files_of(const std::vector<std::filesystem::path>& paths) {
  ModelFiles files;
  for (const auto& path : paths) {
    auto& entry = files.entries.emplace_back();
    entry.label = path.filename().string();
    entry.tensors = io::TensorSource::open({path});
  }
  return files;
}

}  // namespace

TEST(Ltx2Sound, BandsAreThoseOfTransformersWeights) {
  const auto file = file_of("sound");
  const auto samples = on_device(tone(4800).to(at::kFloat));
  EXPECT_LE(relative_error(ltx2::log_bands(samples, {.num_bands = 16}), file.tensor("bands")), tolerance(1e-5));
  const auto bands = ltx2::log_bands(samples, {});
  EXPECT_EQ(bands.sizes(), (at::IntArrayRef{1, 2, 31, 64}));
  EXPECT_LE(relative_error(test::digest(bands), file.tensor("bands_of_64")), tolerance(1e-5));
}

TEST(Ltx2Sound, IsEncodedAndDecodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  const auto file = file_of("sound");
  const auto model = load_sound();
  EXPECT_LE(relative_error(model->encode(on_device(tone(4800))), file.tensor("latents")), tolerance(1e-5));
  const auto decoded = model->decode(latents({1, 8, 5}));
  EXPECT_EQ(decoded.sizes(), (at::IntArrayRef{1, 2, 17, 16}));
  EXPECT_LE(relative_error(test::digest(decoded), file.tensor("decoded")), tolerance(1e-5));
}

TEST(Ltx2Sound, LatentsSeeWhatWasHeardBefore) {
  at::NoGradGuard no_grad;
  const auto model = load_sound();
  const auto whole = model->encode(on_device(tone(8000))), begin = model->encode(on_device(tone(4800)));
  EXPECT_EQ(whole.size(2), 13);
  // The last windows of the shorter sound are mirrored at its end.
  EXPECT_LE(relative_error(whole.narrow(2, 0, 6), begin.narrow(2, 0, 6)), tolerance(1e-5));
}

TEST(Ltx2Sound, AShortSoundEndsInSilence) {
  at::NoGradGuard no_grad;
  const auto model = load_sound();
  const auto begin = tone(300), filled = at::cat({begin, at::zeros({1, 2, 213})}, 2);
  const auto latents = model->encode(on_device(begin));
  EXPECT_EQ(latents.size(2), 1);
  EXPECT_LE(relative_error(latents, model->encode(on_device(filled)).narrow(2, 0, 1)), tolerance(1e-5));
}

TEST(Ltx2Sound, SingleFilesHaveOriginalNames) {
  at::NoGradGuard no_grad;
  test::Scratch scratch;
  const std::string settings = R"({"audio_vae": {"model": {"params": {"sampling_rate": 16000, "ddconfig": {"mel_bins": 16, "causality_axis":
    "height", "norm_type": "pixel", "attn_resolutions": [], "mid_block_add_attention": false}}}, "preprocessing": {"stft": {"hop_length": 160,
    "filter_length": 1024}}}})";
  io::save_safetensors(scratch / "whole.safetensors", original_tensors(), io::Metadata{{"config", settings}});
  io::save_safetensors(scratch / "encoder.safetensors", original_tensors("encoder."));
  io::save_safetensors(scratch / "decoder.safetensors", original_tensors("decoder."));
  auto open = [&](const std::vector<std::string>& names) {
    std::vector<std::filesystem::path> paths;
    for (const auto& name : names) paths.push_back(scratch / (name + ".safetensors"));
    const auto files = files_of(paths);
    const auto source = ltx2::find_sound(files);
    return load(ltx2::read_settings(source, "audio_vae", ltx2::sound_config), *source.tensors, source.keys);
  };
  const auto model = load_sound();
  const auto heard = model->encode(on_device(tone(4800))), decoded = model->decode(latents({1, 8, 5}));
  for (const auto& names : std::vector<std::vector<std::string>>{{"whole"}, {"encoder", "decoder"}}) {
    EXPECT_TRUE(at::equal(open(names)->encode(on_device(tone(4800))), heard)) << names[0];
    EXPECT_TRUE(at::equal(open(names)->decode(latents({1, 8, 5})), decoded)) << names[0];
  }
  EXPECT_NE(test::error_of([&] { open({"encoder"})->decode(latents({1, 8, 5})); }).find("decoder too"), std::string::npos);
  EXPECT_NE(test::error_of([&] { open({"decoder"})->encode(tone(4800)); }).find("encoder too"), std::string::npos);
}

TEST(Ltx2Sound, PublishedSizesHaveThePublishedParameterCount) {
  SoundAutoencoder model(SoundConfig{}, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
  EXPECT_NEAR(static_cast<double>(model.num_bytes()) / 4e6, 53.2, 0.1);
  EXPECT_EQ(model.parameters().size(), 102u);
  EXPECT_EQ(SoundConfig{}.width(), 128);
}

TEST(Ltx2Sound, WhatDoesNotFitIsAnError) {
  const auto file = file_of("sound");
  const auto shapes = file.below("w.").shapes();
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"causality_axis", "width"},
                                                                                      {"norm_type", "group"},
                                                                                      {"mel_bins", 64},
                                                                                      {"sample_rate", 0},
                                                                                      {"mel_hop_length", 2000},
                                                                                      {"mid_block_add_attention", true}}) {
    auto settings = settings_in(file);
    settings[key] = value;
    EXPECT_NE(test::error_of([&] { ltx2::sound_config(settings, shapes); }), "") << key;
  }
  auto damaged = shapes;
  damaged.erase("latents_mean");
  EXPECT_NE(test::error_of([&] { ltx2::sound_config({}, damaged); }).find("latents_mean"), std::string::npos);
}
