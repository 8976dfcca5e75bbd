// Parity of MiniMax-H3's autoencoder of sound with diffusers' on a small random model (tests/golden/make_minimax_h3_clips.py), and what its
// files may look like.
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/minimax_h3/places.h"
#include "models/families/minimax_h3/sound_autoencoder.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::minimax_h3_sound_test {
using namespace burnish::models;
using minimax_h3::SoundAutoencoder;
using minimax_h3::SoundConfig;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kFolder = "minimax_h3_pipeline/model/audio_vae/";

nlohmann::json config_json() { return io::read_json(test::golden_path(kFolder + "config.json")); }

/// The tensors that the autoencoder runs.
io::TensorSource run_of(const io::TensorSource& file) {
  return file.renamed([](const std::string& name) {
    const bool is_run = !name.ends_with(".filter") && !name.ends_with("zero_k_bias") && !name.starts_with("logs_proj.");
    return is_run ? name : std::string();
  });
}

io::TensorSource weights() { return run_of(test::golden(kFolder + "diffusion_pytorch_model.safetensors")); }

std::unique_ptr<SoundAutoencoder> load(const io::TensorSource& source) {
  auto model =
      std::make_unique<SoundAutoencoder>(minimax_h3::sound_config(config_json(), source.shapes()), at::TensorOptions().device(at::kMeta));
  test::load(*model, source);
  return model;
}

io::TensorSource expected() { return test::golden("minimax_h3_clips/sound.safetensors"); }

}  // namespace

TEST(MiniMaxH3Sound, IsEncodedAndDecodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  const auto model = load(weights());
  EXPECT_LE(relative_error(model->encode(on_device(expected().tensor("samples"))), expected().tensor("mean")), tolerance(1e-5));
  EXPECT_LE(relative_error(model->decode(on_device(expected().tensor("latents"))), expected().tensor("decoded")), tolerance(1e-5));
}

TEST(MiniMaxH3Sound, SilenceHasLatentsThatAreNotZero) {
  at::NoGradGuard no_grad;
  const auto silence = load(weights())->encode(on_device(at::zeros({1, 200})));
  EXPECT_LE(relative_error(silence, expected().tensor("silence")), tolerance(1e-5));
  EXPECT_GT(silence.abs().mean().item<double>(), 0.1);
}

TEST(MiniMaxH3Sound, FilesMayHoldWeightsWithoutTheirNorm) {
  at::NoGradGuard no_grad;
  test::Scratch scratch;
  io::NamedTensors folded;
  const auto source = weights();
  const std::string length = ".weight_g", direction = ".weight_v";
  for (const auto& name : source.names()) {
    if (name.ends_with(length)) continue;
    auto tensor = source.tensor(name).to(at::kFloat);
    if (!name.ends_with(direction)) {
      folded.emplace_back(name, tensor);
      continue;
    }
    const auto layer = name.substr(0, name.size() - direction.size());
    const auto norm = tensor.flatten(1).norm(2, {1}).view({-1, 1, 1});
    folded.emplace_back(layer + ".weight", tensor * source.tensor(layer + length).to(at::kFloat) / norm);
  }
  io::save_safetensors(scratch / "folded.safetensors", folded);
  const auto other = load(io::TensorSource::open({scratch / "folded.safetensors"}));
  EXPECT_LE(relative_error(other->encode(on_device(expected().tensor("samples"))), expected().tensor("mean")), tolerance(1e-5));
}

TEST(MiniMaxH3Sound, PublishedSizesHaveThePublishedParameterCount) {
  SoundAutoencoder model(SoundConfig{}, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
  EXPECT_NEAR(static_cast<double>(model.num_bytes()) / 4e6, 151.3, 0.2);
  EXPECT_EQ(SoundConfig{}.rate / SoundConfig{}.samples_per_latent(), 40);
}

TEST(MiniMaxH3Sound, WhatDoesNotFitIsAnError) {
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{{"decoder_rates", {5, 2, 4}},
                                                                                      {"decoder_kernel_sizes", {9, 4, 3}},
                                                                                      {"num_attention_heads", 3},
                                                                                      {"sampling_rate", 0},
                                                                                      {"sampling_rate", 1600},
                                                                                      {"latents_std", {1, 1, 1, 1, 0}}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { minimax_h3::sound_config(json, weights().shapes()); }), "") << key;
  }
}

TEST(MiniMaxH3Sound, ClipsHaveTheFramesOfTheirLatents) {
  for (const auto& [latents, frames] : std::map<int64_t, int64_t>{{1, 1}, {2, 5}, {7, 22}, {12, 39}, {37, 124}, {102, 345}})
    EXPECT_EQ(minimax_h3::frames_of_latents(latents), frames);
}

}  // namespace burnish::minimax_h3_sound_test
