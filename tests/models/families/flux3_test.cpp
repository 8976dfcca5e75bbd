// Parity of FLUX.3's transformer with diffusers' Flux3Transformer2DModel on a small random model (tests/golden/make_flux3.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/flux3/keys.h"
#include "models/families/flux3/transformer.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::flux3_test {
using namespace burnish::models;
using flux3::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kFolder = "flux3_pipeline/model/transformer/";

io::TensorSource weights() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors"); }

std::unique_ptr<Transformer> load_base(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kFolder, flux3::detect, part);
}

/// The distilled model: the base with further layers.
std::unique_ptr<Transformer> load_distilled() {
  auto base = weights(), further = test::golden("flux3_pipeline/flow_map.safetensors");
  auto shapes = base.shapes();
  shapes.merge(further.shapes());
  auto model = std::make_unique<Transformer>(flux3::detect(nullptr, shapes), at::TensorOptions().device(at::kMeta));
  for (auto& [path, slot] : model->parameters()) {
    auto tensor = base.contains(path) ? base.tensor(path) : further.tensor(path);
    *slot = tensor.to(test::device(), at::kFloat).set_requires_grad(true);
  }
  return model;
}

/// Texts of one window of 80 tokens and of two, the shorter one filled up with zeros, and two references.
const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch("flux3_pipeline/batch.safetensors");
  return batch;
}

at::Tensor run(Transformer& modulation, Transformer& text, Transformer& body, const test::CaptionedBatch& batch) {
  const auto modulated = modulation.modulate(batch.sigma_B, {}, true, at::kFloat);
  return body.forward({.noisy_BCHW = batch.noisy_BCHW,
                       .references_BCHW = batch.references_BCHW,
                       .text_BTD = text.embed(batch.text_BTE),
                       .mask_BT = batch.mask_BT,
                       .modulation_BM = modulated.all_BM,
                       .reference_modulation_BM = modulated.references_BM});
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return run(model, model, model, batch); }

/// The first sample of the batch as the distilled model sees it, without references.
at::Tensor run_distilled(Transformer& model, const io::TensorSource& file) {
  const auto batch = golden_batch().one(0);
  return model.forward({.noisy_BCHW = batch.noisy_BCHW,
                        .text_BTD = model.embed(batch.text_BTE),
                        .mask_BT = batch.mask_BT,
                        .modulation_BM = model.modulate(batch.sigma_B, on_device(file.tensor("in.target")), false, at::kFloat).all_BM});
}

}  // namespace

TEST(Flux3Parity, ForwardAndAllGradients) {
  auto model = load_base();
  test::expect_parity(*model, golden_batch().file, run(*model, golden_batch()), 2e-6);
}

TEST(Flux3Parity, DistilledReadsWhereAStepLeads) {
  auto model = load_distilled();
  auto file = test::golden("flux3_pipeline/distilled.safetensors");
  auto out = run_distilled(*model, file);
  EXPECT_LE(relative_error(out, file.tensor("out")), tolerance(2e-6));
  test::backward(out, file);
  auto expected = file.below("grad.");
  for (auto& [path, slot] : model->parameters()) {
    ASSERT_EQ(slot->grad().defined(), expected.contains(path)) << path << ": references have no part in this";
    if (!slot->grad().defined()) continue;
    EXPECT_LE(relative_error(test::digest(slot->grad()), expected.tensor(path)), tolerance(1e-4)) << path;
  }
}

TEST(Flux3Parity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_base(), load_base(), golden_batch().file, [](auto& model) { return run(model, golden_batch()); });
}

TEST(Flux3Batch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_base()](const auto& batch) { return run(*model, batch); });
}

TEST(Flux3Parts, ThreePartsAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_base();
  auto modulation = load_base(mmdit::layers_of_part("dit.modulation")), text = load_base(mmdit::layers_of_part("dit.text")),
       body = load_base(mmdit::layers_of_part("dit.body"));
  EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *text, *body, golden_batch()), run(*whole, golden_batch())));
}

/// Padding, which the transformer reads, has the states that diffusers gives it.
TEST(Flux3Text, WindowsAreThoseOfDiffusers) {
  at::NoGradGuard no_grad;
  const char* prompts[] = {
      "red apple",
      "tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it, and a tree behind it, and a red "
      "cat face, and a smiling apple"};
  ModelOptions options{.dtype = at::kFloat, .device = test::device()};
  options.own = default_options();
  auto model = open_model(open_model_files({{test::golden_path("flux3_pipeline/model")}, "", ""}), options);
  const auto units = model->units().encode_prompt;
  auto expected = test::golden("flux3_pipeline/text.safetensors");
  model->components().load("text_encoder");
  for (int i = 0; i < 2; ++i) {
    pipeline::Values values{{"prompt", std::string(prompts[i])}};
    pipeline::run(units, values);
    const auto states = std::get<at::Tensor>(values.at("text_embedding"));
    EXPECT_EQ(states.size(1), 80 * (i + 1));
    EXPECT_LE(relative_error(states[0], expected.tensor("states." + std::to_string(i))), tolerance(1e-5)) << prompts[i];
  }
}

TEST(Flux3Keys, OriginalNamesRoundTrip) {
  auto model = load_distilled();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, flux3::original_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  EXPECT_EQ(source.names().size(), ours.size());
  for (const char* name :
       {"emb_in.image.weight", "emb_in.image_cond.weight", "txt_in.weight", "time_in.in_layer.weight", "ref_time_in.out_layer.weight",
        "early_stream_modulations.image_cond.lin.weight", "single_stream_modulations.txt.lin.weight",
        "content_mode_blocks.image.0.q_proj.weight", "content_mode_blocks.image_cond.1.mlp_in.weight", "txt_mode_blocks.1.attn_out.weight",
        "single_blocks.1.norm.query_norm.scale", "txt_mode_blocks.0.norm.key_norm.scale", "single_blocks.0.mlp_out.weight",
        "final_layer.image.linear.weight", "final_layer.image.adaLN_modulation.1.weight"})
    EXPECT_TRUE(source.contains(name)) << name;
  auto parameters = model->parameters();
  auto halves = parameters.at("norm_out.linear.weight")->detach().chunk(2, 0);
  EXPECT_TRUE(at::equal(source.tensor("final_layer.image.adaLN_modulation.1.weight"), at::cat({halves[1], halves[0]})));
  io::Shapes wanted;
  std::map<std::string, at::Tensor> back;
  for (auto& [path, tensor] : ours) wanted[path] = tensor.sizes().vec();
  io::load_named(
      source, flux3::original_keys(), wanted, [&](const std::string& path, const io::InFile& read) { back[path] = read.numbers; }, file);
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(back.at(path), tensor)) << path;
  auto config = flux3::detect(nullptr, io::shapes_in_our_names(source, flux3::original_keys()));
  EXPECT_TRUE(config.is_flow_map);
  EXPECT_EQ(config.num_early_blocks, 2);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.axes_dims, (std::vector<int64_t>{4, 4, 4, 4}));
}

TEST(Flux3Keys, TargetsOfDiffSynthStudio) {
  EXPECT_EQ(flux3::target_names("single_transformer_blocks.3.attn.to_q"),
            (std::vector<std::string>{"single_transformer_blocks.3.attn.to_q", "single_blocks.3.q_proj"}));
  EXPECT_EQ(flux3::target_names("norm_out.linear"), (std::vector<std::string>{"norm_out.linear", "final_layer.image.adaLN_modulation.1"}));
}

TEST(Flux3Config, PublishedSizesHaveThePublishedParameterCount) {
  for (bool is_flow_map : {false, true}) {
    Transformer model(flux3::Config{.is_flow_map = is_flow_map}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
    int64_t count = 0;
    for (auto& [path, slot] : model.parameters()) count += slot->numel();
    EXPECT_EQ(count, is_flow_map ? 5548681984 : 5538458368);
    EXPECT_EQ(model.parameters().size(), is_flow_map ? 359u : 357u);
  }
  auto json = nlohmann::json::parse(R"({"num_attention_heads": 24, "attention_head_dim": 128})");
  EXPECT_EQ(flux3::detect(&json, {}).hidden, 9216);
}

TEST(Flux3Config, NumbersThatDisagreeAreErrors) {
  const auto good = io::read_json(test::golden_path(kFolder + "config.json"));
  for (const char* key : {"in_channels", "cond_in_channels", "num_layers", "num_single_layers", "attention_head_dim", "num_attention_heads",
                          "joint_attention_dim", "timestep_channels", "eps"}) {
    auto json = good;
    json[key] = 7;
    EXPECT_NE(test::error_of([&] { flux3::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
  for (const auto& [key, value] :
       std::map<std::string, nlohmann::json>{{"axes_dims_rope", {4, 4, 4}}, {"rope_theta", 0}, {"flow_map", true}}) {
    auto json = good;
    json[key] = value;
    EXPECT_NE(test::error_of([&] { flux3::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
}

TEST(Flux3Config, RelativesOfOtherStreamsAreRefused) {
  auto shapes = weights().shapes();
  shapes["x_embedders.video.weight"] = {32, 32};
  EXPECT_NE(test::error_of([&] { flux3::detect(nullptr, shapes); }).find("a stream called video"), std::string::npos);
}

}  // namespace burnish::flux3_test
