// Parity of MiniMax-H3's parts with diffusers' and transformers' on a small random model (tests/golden/make_minimax_h3.py).
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/minimax_h3/autoencoder.h"
#include "models/families/minimax_h3/keys.h"
#include "models/families/minimax_h3/places.h"
#include "models/families/minimax_h3/process.h"
#include "models/families/minimax_h3/references.h"
#include "models/families/minimax_h3/rows_of_heads.h"
#include "models/families/minimax_h3/tiles.h"
#include "models/families/minimax_h3/transformer.h"
#include "models/files/coded_weights.h"
#include "models/files/coding.h"
#include "models/text/qwen.h"
#include "tests/coded_files.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::minimax_h3_test {
using namespace burnish::models;
using minimax_h3::Transformer;
using mmdit::HeldLayers;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kModel = "minimax_h3_pipeline/model/";
const std::string kTransformer = kModel + "transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json(const std::string& folder = kTransformer) { return io::read_json(test::golden_path(folder + "config.json")); }

std::unique_ptr<Transformer> load_transformer(HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, minimax_h3::detect, part);
}

/// The golden clips with sound, whose captions differ in length; or one of its samples alone.
struct Clips : test::CaptionedBatch {
  Clips() : CaptionedBatch("minimax_h3_pipeline/batch.safetensors") {}
  explicit Clips(const CaptionedBatch& batch) : CaptionedBatch(batch) {}
  Clips one(int64_t b) const {
    Clips sample(CaptionedBatch::one(b));
    sample.sound_BCSN = sound_BCSN.narrow(0, b, 1);
    return sample;
  }
  Clips filled_otherwise() const {
    Clips other(CaptionedBatch::filled_otherwise());
    other.sound_BCSN = sound_BCSN;
    return other;
  }
  at::Tensor sound_BCSN = on_device(file.tensor("in.sound")).unflatten(2, {2, -1});
};

const Clips& golden_clips() {
  static const Clips clips;
  return clips;
}

/// The noise of sound beside frames of this one: shifts of 12 and 3 of one base.
at::Tensor sound_sigma(const at::Tensor& sigma) {
  auto base = sigma / (12 - 11 * sigma);
  return 3 * base / (1 + 2 * base);
}

Transformer::Velocities run(Transformer& modulation, Transformer& text, Transformer& body, const Clips& clips) {
  return body.forward({.noisy_BCHW = clips.noisy_BCHW,
                       .sound_BCSN = clips.sound_BCSN,
                       .text_BTD = text.refine(clips.text_BTE, clips.mask_BT),
                       .mask_BT = clips.mask_BT,
                       .modulation_BM = modulation.modulate({clips.sigma_B, sound_sigma(clips.sigma_B)}, at::kFloat)});
}
Transformer::Velocities run(Transformer& model, const Clips& clips) { return run(model, model, model, clips); }

/// A still without tokens of sound.
at::Tensor run_still(Transformer& model, const Clips& clips) {
  return model
      .forward({.noisy_BCHW = clips.noisy_BCHW.select(2, 0),
                .text_BTD = model.refine(clips.text_BTE, clips.mask_BT),
                .mask_BT = clips.mask_BT,
                .modulation_BM = model.modulate({clips.sigma_B}, at::kFloat)})
      .frames;
}

std::unique_ptr<minimax_h3::Autoencoder> load_autoencoder(const minimax_h3::Tiling& tiling) {
  auto source = test::golden(kModel + "vae/diffusion_pytorch_model.safetensors");
  auto config = minimax_h3::autoencoder_config(config_json(kModel + "vae/"), source.shapes());
  config.tiling = tiling;
  auto model = std::make_unique<minimax_h3::Autoencoder>(config, at::TensorOptions().device(at::kMeta));
  test::load(*model, source);
  return model;
}

/// Our tensors of a model, as an original file has them whose rows lie by part.
io::NamedTensors original_tensors() {
  io::NamedTensors ours;
  const auto source = weights();
  for (const auto& name : source.names()) ours.emplace_back(name, source.tensor(name));
  return minimax_h3::original_keys().to_file(ours);
}

}  // namespace

TEST(MiniMaxH3Parity, ForwardAndAllGradients) {
  auto model = load_transformer();
  const auto& file = golden_clips().file;
  auto out = run(*model, golden_clips());
  EXPECT_LE(relative_error(out.sound.flatten(2), file.tensor("in.sound_out")), tolerance(2e-6));
  EXPECT_LE(relative_error(out.frames, file.tensor("out")), tolerance(2e-6));
  auto of_sound = (out.sound.flatten(2) * on_device(file.tensor("in.sound_weight"))).sum();
  torch::autograd::backward({of_sound + (out.frames * on_device(file.tensor("out_weight"))).sum()}, {});
  test::expect_digests(*model, file.below("grad."));
}

TEST(MiniMaxH3Parity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_transformer(), load_transformer(), golden_clips().file, [](auto& model) {
    auto out = run(model, golden_clips());
    return out.frames + out.sound.sum();
  });
}

TEST(MiniMaxH3Parity, TheTextIsReadBehindFiftyLayersWithoutANorm) {
  at::NoGradGuard no_grad;
  auto file = test::golden("minimax_h3_pipeline/text.safetensors");
  auto source = text::qwen_tensors(test::golden(kModel + "text_encoder/model.safetensors"));
  text::QwenEncoder encoder(text::qwen3_vl_config(config_json(kModel + "text_encoder/"), source.shapes()),
                            at::TensorOptions().device(at::kMeta));
  test::load(encoder, source);
  const text::QwenReading reading{.after = {50}, .norms_last = false};
  // Without a norm behind them, fifty layers pass on what each has rounded, which processors do differently.
  EXPECT_LE(relative_error(encoder.forward(on_device(file.tensor("ids")), reading).front(), file.tensor("states")), tolerance(4e-5));
}

TEST(MiniMaxH3Batch, EqualsItsSamplesOneByOne) {
  at::NoGradGuard no_grad;
  auto model = load_transformer();
  for (const auto& of : {std::function<at::Tensor(const Clips&)>([&](const auto& clips) { return run(*model, clips).frames; }),
                         std::function<at::Tensor(const Clips&)>([&](const auto& clips) { return run(*model, clips).sound; }),
                         std::function<at::Tensor(const Clips&)>([&](const auto& clips) { return run_still(*model, clips); })}) {
    auto together = of(golden_clips());
    test::expect_samples(together, [&](int64_t b) { return of(golden_clips().one(b)); });
    EXPECT_TRUE(at::equal(of(golden_clips().filled_otherwise()), together));
  }
}

TEST(MiniMaxH3Parts, AreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  auto modulation = load_transformer({.body = false, .text = false}), text = load_transformer({.modulation = false, .body = false}),
       body = load_transformer({.modulation = false, .text = false});
  EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *text, *body, golden_clips()).frames, run(*whole, golden_clips()).frames));
}

TEST(MiniMaxH3Places, OfFramesAreThoseOfTheirClips) {
  const auto times = minimax_h3::times_of_frames(8, at::TensorOptions().dtype(at::kDouble)) * 3 / 5;
  const std::vector<double> frames{0, 1, 5, 9, 13, 17, 18, 22};
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_NEAR(times[static_cast<int64_t>(i)].item<double>(), frames[i], 1e-12) << i;
}

TEST(MiniMaxH3Places, ReferencesFollowEachOther) {
  minimax_h3::Layout layout{.grid = {7, 2, 4}};
  // A picture, a clip of 22 frames with a sound of 50 latents, a silent one of 5 frames, a sound of 12.
  const std::vector<std::vector<int64_t>> sizes{{1, 6, 4, 4}, {1, 6, 7, 2, 4}, {1, 5, 100}, {1, 6, 2, 2, 4}, {1, 5, 0}, {1, 5, 24}};
  minimax_h3::add_references(layout, {sizes.begin(), sizes.end()});
  std::vector<std::pair<size_t, double>> starts;
  for (const auto& run : layout.given) starts.emplace_back(run.number, run.start);
  const auto of_five = 5 * 5.0 / 3;
  ASSERT_EQ(starts.size(), 5u);
  EXPECT_EQ(starts[0], std::pair(size_t{0}, 0.0));
  EXPECT_EQ(starts[1], std::pair(size_t{2}, 1.0)) << "its sound stands before a clip";
  EXPECT_EQ(starts[2], std::pair(size_t{1}, 1.0));
  EXPECT_EQ(starts[3], std::pair(size_t{3}, 51.0)) << "the sound is longer than 22 frames";
  EXPECT_EQ(starts[4], std::pair(size_t{5}, 51 + of_five));
  EXPECT_DOUBLE_EQ(layout.start, 63 + of_five);
  EXPECT_EQ(layout.given[1].grid.columns, 4);
  EXPECT_EQ(layout.num_given_tokens(), 4 + 100 + 14 + 4 + 24);
}

TEST(MiniMaxH3Reference, SizesAreThoseOfTheReleaseOrOfAnArea) {
  using minimax_h3::shown_extent;
  EXPECT_EQ(shown_extent({1, 480, 832}, 0), (Extent{1, 2048, 3552})) << "up too";
  EXPECT_EQ(shown_extent({22, 480, 832}, 0), (Extent{22, 768, 1344}));
  EXPECT_EQ(shown_extent({22, 480, 1920}, 0), (Extent{22, 512, 2016})) << "of the most pixels";
  EXPECT_EQ(shown_extent({22, 480, 832}, 262144), (Extent{22, 384, 672}));
  EXPECT_EQ(shown_extent({500, 0, 0}, 0), (Extent{500, 0, 0})) << "a sound";
}

TEST(MiniMaxH3Reference, TextTellsOfThemInTheirOrder) {
  using minimax_h3::seen_reference;
  const auto one = at::zeros({2, 1, 1, 8});
  std::vector<at::Tensor> list;
  for (const auto& of : {seen_reference(true, 3, {one, one}), seen_reference(false, 1, {one}), seen_reference(true, 0, {}),
                         seen_reference(false, 2, {one}), seen_reference(false, 1, {one})})
    list.insert(list.end(), of.begin(), of.end());
  const auto told = minimax_h3::told_references(list);
  std::string text;
  for (const auto& part : told.parts) text += part + "|";
  const std::string picture = "<|vision_start|><|image_pad|><|vision_end|>|", frames = "<|vision_start|><|video_pad|><|vision_end|>|";
  EXPECT_EQ(text, "<Audio 1>: |<Video 1>: |<0.2 seconds>" + frames + "<1.0 seconds>" + frames + "<Picture 1>: " + picture +
                      "<Audio 2>: |<Video 2>: |<0.2 seconds>" + frames + "<Picture 2>: " + picture);
  EXPECT_EQ(told.seen.size(), 5u);
  EXPECT_EQ(minimax_h3::frames_in_text(39), (std::vector<int64_t>{0, 12, 24, 36}));
  EXPECT_NE(test::error_of([] { minimax_h3::frames_in_text(5); }).find("22 frames"), std::string::npos);
}

TEST(MiniMaxH3Reference, ClipsAreShownInTheirPixels) {
  text::Qwen3VlVisionConfig config;  // cells of 32 pixels
  auto rule = minimax_h3::find_clip_rule({}, "");
  EXPECT_EQ(minimax_h3::shown_sides(11, 768, 1344, config, rule), (std::pair<int64_t, int64_t>{768, 1344}));
  EXPECT_EQ(minimax_h3::shown_sides(30, 768, 1344, config, rule), (std::pair<int64_t, int64_t>{672, 1184})) << "of all frames together";
  rule.least = 1 << 20;
  EXPECT_EQ(minimax_h3::shown_sides(2, 64, 64, config, rule), (std::pair<int64_t, int64_t>{736, 736}));
}

TEST(MiniMaxH3Keys, OriginalFilesLieInTwoWaysUnderTheSameNames) {
  auto load_from = [](const io::TensorSource& source) {
    Transformer model(minimax_h3::detect(nullptr, weights().shapes()), at::TensorOptions().device(at::kMeta));
    test::load(model, source, minimax_h3::original_keys());
    return std::pair{*model.parameters().at("transformer_blocks.1.attn.to_k.weight"),
                     *model.parameters().at("transformer_blocks.1.ff.net.0.proj.weight")};
  };
  test::Scratch scratch;
  auto by_part = original_tensors(), by_head = by_part;
  for (auto& [name, tensor] : by_head) {
    if (name.ends_with(minimax_h3::kFused)) tensor = tensor.unflatten(0, {3, 2, 16}).transpose(0, 1).reshape(tensor.sizes()).contiguous();
  }
  io::save_safetensors(scratch / "by_part.safetensors", by_part);
  io::save_safetensors(scratch / "by_head.safetensors", by_head);
  const auto of_parts = io::TensorSource::open({scratch / "by_part.safetensors"}),
             of_heads = io::TensorSource::open({scratch / "by_head.safetensors"});
  EXPECT_EQ(of_parts.shapes(), of_heads.shapes());
  const auto key = weights().tensor("transformer_blocks.1.attn.to_k.weight").to(at::kFloat),
             gated = weights().tensor("transformer_blocks.1.ff.net.0.proj.weight").to(at::kFloat);
  for (const auto& source : {of_parts, minimax_h3::with_rows_by_part(of_heads, {minimax_h3::kFused}, 16)}) {
    const auto [our_key, our_gated] = load_from(source);
    EXPECT_TRUE(at::equal(our_key.cpu(), key));
    EXPECT_TRUE(at::equal(our_gated.cpu(), gated));
  }
  EXPECT_FALSE(at::equal(load_from(of_heads).first.cpu(), key));
  // The original has the gate first.
  const auto fc1 = of_parts.tensor("blocks.1.mlp.fc1.weight").to(at::kFloat);
  EXPECT_TRUE(at::equal(fc1.narrow(0, 0, 40), gated.narrow(0, 40, 40)));
}

TEST(MiniMaxH3Keys, CodesLieHeadByHeadToo) {
  test::Scratch scratch;
  const auto numbers = at::arange(96 * 8, at::kFloat).reshape({96, 8}).remainder(251) - 125;
  const std::string mark = R"({"format": "int8_tensorwise"})", layer = std::string("blocks.0.") + "attn.qkv_proj.";
  const auto scales = (at::arange(96, at::kFloat) + 1).unsqueeze(1);
  io::save_safetensors(scratch / "coded.safetensors",
                       {{layer + "weight", numbers.to(at::kChar)},
                        {layer + "weight_scale", scales},
                        {layer + "comfy_quant", at::tensor(std::vector<uint8_t>(mark.begin(), mark.end()), at::kByte)}});
  const auto shown = show_weights(io::TensorSource::open({scratch / "coded.safetensors"}));
  const auto turned = minimax_h3::with_rows_by_part(shown, {minimax_h3::kFused}, 16);
  const auto codes = turned.codes(layer + "weight");
  ASSERT_TRUE(codes);
  const auto expected = (numbers * scales).unflatten(0, {2, 3, 16}).transpose(0, 1).reshape({96, 8});
  EXPECT_TRUE(at::equal(numbers_of(*codes).to(at::kFloat), expected));
  EXPECT_TRUE(at::equal(turned.tensor(layer + "weight").to(at::kFloat), expected));
}

namespace {

/// The small model as a pruned file has it: a table of what the layers of the time make, in its own numbers, which is exact at its rows.
io::NamedTensors pruned_tensors(int64_t num_rows) {
  at::NoGradGuard no_grad;
  auto tensors = original_tensors();
  auto find = [&](const std::string& name) {
    return std::ranges::find(tensors, name, [](const auto& one) { return one.first; })->second.to(at::kFloat);
  };
  const auto times = at::arange(num_rows, at::kFloat) / static_cast<double>(num_rows - 1);
  auto angles = times.unsqueeze(1) * (at::arange(16, at::kFloat) * (-std::log(1e4) / 16)).exp();
  auto hidden = at::silu(
      at::linear(at::cat({angles.cos(), angles.sin()}, -1), find("time_embedder.proj_in.weight"), find("time_embedder.proj_in.bias")));
  auto table = at::silu(at::linear(hidden, find("time_embedder.proj_out.weight"), find("time_embedder.proj_out.bias")));
  std::erase_if(tensors, [](const auto& one) { return one.first.starts_with("time_embedder."); });
  tensors.emplace_back("adaln_t_table", table);
  return tensors;
}

}  // namespace

TEST(MiniMaxH3Keys, ComfysInt8LiesInItsRowsToo) {
  at::NoGradGuard no_grad;
  test::Scratch scratch;
  const auto tensors = test::in_int8_convrot(original_tensors(), [](const std::string& name, const at::Tensor& tensor) {
    return name.starts_with("blocks.") && tensor.dim() == 2;
  });
  io::save_safetensors(scratch / "minimax_h3_fl2va_int8_convrot.safetensors", tensors);
  const auto shown = show_weights(io::TensorSource::open({scratch / "minimax_h3_fl2va_int8_convrot.safetensors"}));
  Transformer model(minimax_h3::detect(nullptr, weights().shapes()), at::TensorOptions().device(at::kMeta));
  auto slots = model.parameters();
  io::Shapes wanted;
  for (const auto& [path, slot] : slots) wanted[path] = slot->sizes().vec();
  size_t num_coded = 0;
  io::load_named(
      shown, minimax_h3::original_keys(), wanted,
      [&](const std::string& path, const io::InFile& read) {
        if (read.codes) ++num_coded;
        *slots.at(path) = on_device(read.codes ? numbers_of(*read.codes) : read.numbers).to(at::kFloat).clone();
      },
      "test");
  EXPECT_GE(num_coded, 14u) << "of two blocks q, k, v, two layers of the MLP, what leaves attention, and the layer of the time";
  EXPECT_LE(relative_error(run(model, golden_clips()).frames, run(*load_transformer(), golden_clips()).frames), 0.05);
}

TEST(MiniMaxH3Pruned, ATableStandsForTheLayersOfTheTime) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  test::Scratch scratch;
  io::save_safetensors(scratch / "pruned.safetensors", pruned_tensors(1025));
  const auto pruned = io::TensorSource::open({scratch / "pruned.safetensors"});
  auto config = minimax_h3::detect(nullptr, io::shapes_in_our_names(pruned, minimax_h3::original_keys()));
  EXPECT_EQ(config.time.num_rows, 1025);
  EXPECT_EQ(config.time.width, 12);
  Transformer model(config, at::TensorOptions().device(at::kMeta));
  test::load(model, pruned, minimax_h3::original_keys());
  EXPECT_FALSE(model.parameters().contains("time_embedder.linear_1.weight"));
  auto modulation = [&](Transformer& of, double sigma) {
    return of.modulate(
        {.frames_B = on_device(at::full({1}, sigma, at::kFloat)), .sound_B = on_device(at::full({1}, 0.5, at::kFloat)), .given_B = {}},
        at::kFloat);
  };
  // Rows of the table: 1 - 256 / 1024 and 1 - 512 / 1024.
  EXPECT_LE(relative_error(modulation(model, 0.25), modulation(*whole, 0.25)), tolerance(1e-6));
  EXPECT_LE(relative_error(modulation(model, 0.2501), modulation(*whole, 0.2501)), tolerance(1e-4)) << "between two rows";
  EXPECT_LE(relative_error(modulation(model, 1), modulation(*whole, 1)), tolerance(1e-6)) << "its first row";
  EXPECT_EQ(modulation(model, 0).scalar_type(), at::kFloat);
}

TEST(MiniMaxH3Config, PublishedSizesHaveThePublishedParameterCounts) {
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  Transformer model(minimax_h3::Config{}, options);
  int64_t count = 0;
  for (const auto& [path, slot] : model.parameters()) count += slot->numel();
  EXPECT_EQ(model.parameters().size(), 638u);
  EXPECT_NEAR(static_cast<double>(count) / 1e9, 33.123, 5e-4);
  minimax_h3::Autoencoder autoencoder(minimax_h3::AutoencoderConfig{}, options);
  EXPECT_NEAR(static_cast<double>(autoencoder.num_bytes()) / 2e9, 2.604, 5e-4);
}

TEST(MiniMaxH3Config, OfTensorsAloneIsThatOfBoth) {
  auto json = config_json();
  auto both = minimax_h3::detect(&json, weights().shapes()), alone = minimax_h3::detect(nullptr, weights().shapes());
  EXPECT_EQ(alone.heads.num, 2);
  EXPECT_EQ(alone.heads.num, both.heads.num);
  EXPECT_EQ(alone.in_channels, both.in_channels);
  EXPECT_EQ(alone.heads.num_frequencies, both.heads.num_frequencies);
  EXPECT_EQ(alone.hidden, 40);
  EXPECT_EQ(minimax_h3::Config().heads.num_frequencies, minimax_h3::Config().heads.dim / 8);
}

TEST(MiniMaxH3Config, WhatIsNoMiniMaxH3IsAnError) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"num_layers", 7},
                                                                        {"num_attention_heads", 3},
                                                                        {"patch_size", {1, 1, 1}},
                                                                        {"rope_freq_dim", 3},
                                                                        {"text_dim", 9},
                                                                        {"rope_theta", 0}}) {
    auto json = config_json();
    json[key] = value;
    EXPECT_NE(test::error_of([&] { minimax_h3::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

TEST(MiniMaxH3Tiles, CoverASideEvenly) {
  const auto tiles = minimax_h3::tiles_along(48, {256, 64}, 16);  // 768 pixels: four of 256 that overlap by 64 and more
  EXPECT_EQ(tiles.begins, (std::vector<int64_t>{0, 10, 21, 32}));
  EXPECT_EQ(tiles.overlaps, (std::vector<int64_t>{6, 5, 5}));
  EXPECT_EQ(minimax_h3::tiles_along(16, {256, 64}, 16).begins, (std::vector<int64_t>{0}));
  EXPECT_EQ(minimax_h3::tiles_along(48, {0, 64}, 16).length, 48);
}

TEST(MiniMaxH3Autoencoder, PicturesAndClipsAreEncodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  auto file = test::golden("minimax_h3_pipeline/clips.safetensors");
  for (const auto& [tiling, name] : {std::pair(minimax_h3::Tiling{0, 0}, "whole"), std::pair(minimax_h3::Tiling{64, 32}, "tiled")}) {
    auto autoencoder = load_autoencoder(tiling);
    for (const std::string what : {"picture", "clip", "longer"}) {
      const auto pixels = on_device(file.tensor(what + ".pixels")).to(at::kFloat) / 127.5 - 1;
      const auto moments = autoencoder->encode(pixels);
      const auto expected = what + "." + name + ".";
      EXPECT_LE(relative_error(moments.mean_BCHW, file.tensor(expected + "mean")), tolerance(1e-5)) << expected;
    }
    const auto picture = on_device(file.tensor("picture.pixels")).to(at::kFloat).squeeze(2) / 127.5 - 1;
    EXPECT_LE(relative_error(autoencoder->encode(picture).mean_BCHW, file.tensor(std::string("picture.") + name + ".mean").squeeze(2)),
              tolerance(1e-5));
  }
}

TEST(MiniMaxH3Autoencoder, StillsAndClipsAreDecodedAsByDiffusers) {
  at::NoGradGuard no_grad;
  auto file = test::golden("minimax_h3_pipeline/clips.safetensors");
  for (const auto& [tiling, name] : {std::pair(minimax_h3::Tiling{0, 0}, "whole"), std::pair(minimax_h3::Tiling{64, 32}, "tiled")}) {
    auto autoencoder = load_autoencoder(tiling);
    for (const std::string what : {"still", "clip", "longer"}) {
      const auto frames = autoencoder->decode(on_device(file.tensor(what + ".latents")));
      const auto expected = what + "." + name + ".decoded";
      EXPECT_LE(relative_error(test::digest(frames), file.tensor(expected)), tolerance(1e-5)) << expected;
    }
  }
}

TEST(MiniMaxH3Autoencoder, APicturesLatentIsTheFirstOfItsClip) {
  at::NoGradGuard no_grad;
  auto autoencoder = load_autoencoder({});
  const auto pixels = on_device(test::golden("minimax_h3_pipeline/clips.safetensors").tensor("clip.pixels")).to(at::kFloat) / 127.5 - 1;
  const auto of_clip = autoencoder->encode(pixels).mean_BCHW.narrow(2, 0, 1), alone = autoencoder->encode(pixels.narrow(2, 0, 1)).mean_BCHW;
  EXPECT_LE(relative_error(alone, of_clip), tolerance(1e-5));
}

TEST(MiniMaxH3Process, TrainsOnTheCurveThatItDraws) {
  const minimax_h3::Process process(12, 3);
  const auto quarter = process.draw_time({.mode = "sigma", .shift = 12}, 7, 0);
  EXPECT_DOUBLE_EQ(process.draw_time({}, 7, 0), quarter);
  EXPECT_NE(process.draw_time({.mode = "diffsynth"}, 7, 0), quarter);
  EXPECT_DOUBLE_EQ(process.loss_weight({}, 0.9), 1);
  EXPECT_NE(process.loss_weight({.weighting = "diffsynth"}, 0.9), 1);
}

}  // namespace burnish::minimax_h3_test
