// Parity of Anima's transformer and conditioner with diffusers' CosmosTransformer3DModel and AnimaTextConditioner on small random models
// (tests/golden/make_anima.py).
#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/blocks/padding_row.h"
#include "models/families/anima/conditioner.h"
#include "models/families/anima/keys.h"
#include "models/families/anima/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::anima_test {
using namespace burnish::models;
using anima::Conditioner;
using anima::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kFolder = "anima_pipeline/model/transformer/", kConditionerFolder = "anima_pipeline/model/text_conditioner/";
constexpr int64_t kRows = 32;  // of a text that the transformer reads

io::TensorSource weights() { return test::golden(kFolder + "diffusion_pytorch_model.safetensors"); }

std::unique_ptr<Transformer> load_body(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kFolder, anima::detect, part);
}

std::unique_ptr<Conditioner> load_conditioner() {
  auto json = io::read_json(test::golden_path(kConditionerFolder + "config.json"));
  auto file = test::golden(kConditionerFolder + "diffusion_pytorch_model.safetensors");
  auto model = std::make_unique<Conditioner>(anima::detect_conditioner(&json, file.shapes()), at::TensorOptions().device(at::kMeta));
  for (auto& [path, slot] : model->parameters()) *slot = file.tensor(path).to(test::device(), at::kFloat).set_requires_grad(true);
  return model;
}

/// Both models, all of them trained.
struct Anima {
  std::unique_ptr<Transformer> body = load_body();
  std::unique_ptr<Conditioner> conditioner = load_conditioner();
};

/// The batch of the golden file: states of 5 and of 9 tokens with T5's 7 and 4, the shorter ones filled up with zeros.
struct AnimaBatch {
  io::TensorSource file = test::golden("anima_pipeline/batch.safetensors");
  test::Captions captions{file};
  at::Tensor ids_BT = at::zeros({2, 7}, at::TensorOptions().dtype(at::kLong)), mask_BT = at::zeros({2, 7});
  at::Tensor noisy_BCHW = on_device(file.tensor("in.noisy")), sigma_B = on_device(file.tensor("in.sigma"));

  AnimaBatch() {
    for (int64_t b = 0; b < 2; ++b) {
      auto ids = file.tensor("in.ids." + std::to_string(b));
      ids_BT[b].narrow(0, 0, ids.size(0)).copy_(ids);
      mask_BT[b].narrow(0, 0, ids.size(0)).fill_(1);
    }
    ids_BT = on_device(ids_BT);
    mask_BT = on_device(mask_BT);
  }

  Conditioner::Inputs texts() const { return {ids_BT, mask_BT, captions.text_BTE, captions.mask_BT}; }
  /// The texts of one of its samples, without anything behind their tokens.
  Conditioner::Inputs texts_of(int64_t b) const {
    auto num_ids = mask_BT[b].sum().item<int64_t>(), num_states = captions.mask_BT[b].sum().item<int64_t>();
    auto one = [b](const at::Tensor& x, int64_t length) { return x.narrow(0, b, 1).narrow(1, 0, length); };
    return {one(ids_BT, num_ids), one(mask_BT, num_ids), one(captions.text_BTE, num_states), one(captions.mask_BT, num_states)};
  }
  static at::Tensor run(Anima& model, const Conditioner::Inputs& texts, const at::Tensor& noisy, const at::Tensor& sigma) {
    auto counted = with_padding_row({model.conditioner->forward(texts), texts.mask_BT}, kRows);
    return model.body->forward({.noisy_BCHW = noisy,
                                .text_BTE = counted.rows_BTE,
                                .counts_BT = counted.counts_BT,
                                .modulation_BM = model.body->modulate(sigma, at::kFloat)});
  }
  at::Tensor run(Anima& model) const { return run(model, texts(), noisy_BCHW, sigma_B); }
};

}  // namespace

TEST(AnimaParity, RowsOfTexts) {
  at::NoGradGuard no_grad;
  AnimaBatch batch;
  auto model = load_conditioner();
  auto rows = model->forward(batch.texts());
  for (int64_t b = 0; b < 2; ++b) {
    auto expected = batch.file.tensor("text." + std::to_string(b));
    EXPECT_LE(relative_error(rows[b].narrow(0, 0, expected.size(0)), expected), tolerance(2e-6)) << b;
    EXPECT_LE(relative_error(model->forward(batch.texts_of(b))[0], expected), tolerance(2e-6)) << b;
  }
  EXPECT_TRUE(at::equal(rows[1].narrow(0, 4, 3), at::zeros({3, 16}, rows.options())));
}

TEST(AnimaParity, ForwardAndAllGradients) {
  Anima model;
  AnimaBatch batch;
  auto out = batch.run(model);
  EXPECT_LE(relative_error(out, batch.file.tensor("out")), tolerance(2e-6));
  test::backward(out, batch.file);
  test::expect_digests(*model.body, batch.file.below("grad.transformer."));
  test::expect_digests(*model.conditioner, batch.file.below("grad.text_conditioner."));
}

TEST(AnimaParity, RecomputedGradientsAreTheSame) {
  Anima plain, recomputed;
  test::recompute_blocks(*recomputed.body);
  test::recompute_blocks(*recomputed.conditioner);
  AnimaBatch batch;
  for (auto* model : {&plain, &recomputed}) test::backward(batch.run(*model), batch.file);
  test::expect_equal_gradients(*plain.body, *recomputed.body);
  test::expect_equal_gradients(*plain.conditioner, *recomputed.conditioner);
}

TEST(AnimaBatch, EqualsItsSamplesOneByOne) {
  at::NoGradGuard no_grad;
  Anima model;
  AnimaBatch batch;
  auto together = batch.run(model);
  test::expect_samples(together, [&](int64_t b) {
    return AnimaBatch::run(model, batch.texts_of(b), batch.noisy_BCHW.narrow(0, b, 1), batch.sigma_B.narrow(0, b, 1));
  });
  // What stands behind the tokens of a text is not read.
  auto other = batch.texts();
  other.source_BSE = other.source_BSE + (1 - other.mask_BS).unsqueeze(-1) * 100;
  other.ids_BT = other.ids_BT + (1 - other.mask_BT).to(at::kLong) * 5;
  EXPECT_TRUE(at::equal(AnimaBatch::run(model, other, batch.noisy_BCHW, batch.sigma_B), together));
}

TEST(AnimaBatch, RowsThatAreZerosCountAsMany) {
  at::NoGradGuard no_grad;
  Anima model;
  AnimaBatch batch;
  const auto texts = batch.texts_of(0);
  auto rows = model.conditioner->forward(texts);
  auto zeros = at::zeros({1, kRows - rows.size(1), rows.size(2)}, rows.options());
  auto written_out = model.body->forward({.noisy_BCHW = batch.noisy_BCHW.narrow(0, 0, 1),
                                          .text_BTE = at::cat({rows, zeros}, 1),
                                          .counts_BT = at::ones({1, kRows}, rows.options()),
                                          .modulation_BM = model.body->modulate(batch.sigma_B.narrow(0, 0, 1), at::kFloat)});
  auto counted = AnimaBatch::run(model, texts, batch.noisy_BCHW.narrow(0, 0, 1), batch.sigma_B.narrow(0, 0, 1));
  EXPECT_LE(relative_error(counted, written_out), tolerance(1e-6));
  // Of a text that is as long as may be, or longer, no row is missing.
  auto full = with_padding_row({at::ones({1, 3, 2}), at::ones({1, 3})}, 2);
  EXPECT_EQ(full.counts_BT[0][3].item<float>(), 0);
}

TEST(AnimaParts, ModulationAndBodyAreTheWhole) {
  at::NoGradGuard no_grad;
  Anima whole, parts;
  parts.body = load_body(mmdit::layers_of_part("dit.body"));
  auto modulation = load_body(mmdit::layers_of_part("dit.modulation"));
  EXPECT_EQ(modulation->num_bytes() + parts.body->num_bytes(), whole.body->num_bytes());
  AnimaBatch batch;
  auto counted = with_padding_row({parts.conditioner->forward(batch.texts()), batch.mask_BT}, kRows);
  auto out = parts.body->forward({.noisy_BCHW = batch.noisy_BCHW,
                                  .text_BTE = counted.rows_BTE,
                                  .counts_BT = counted.counts_BT,
                                  .modulation_BM = modulation->modulate(batch.sigma_B, at::kFloat)});
  EXPECT_TRUE(at::equal(out, batch.run(whole)));
}

TEST(AnimaKeys, OriginalNamesRoundTrip) {
  auto model = load_body();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, anima::original_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  EXPECT_EQ(source.names().size(), ours.size());
  for (const char* name :
       {"x_embedder.proj.1.weight", "t_embedder.1.linear_1.weight", "t_embedder.1.linear_2.weight", "t_embedding_norm.weight",
        "blocks.0.adaln_modulation_self_attn.1.weight", "blocks.1.adaln_modulation_cross_attn.2.weight",
        "blocks.2.adaln_modulation_mlp.2.weight", "blocks.0.self_attn.q_proj.weight", "blocks.1.self_attn.output_proj.weight",
        "blocks.2.self_attn.k_norm.weight", "blocks.0.cross_attn.v_proj.weight", "blocks.0.cross_attn.q_norm.weight",
        "blocks.0.mlp.layer1.weight", "blocks.2.mlp.layer2.weight", "final_layer.adaln_modulation.1.weight", "final_layer.linear.weight"})
    EXPECT_TRUE(source.contains(name)) << name;
  io::Shapes wanted;
  std::map<std::string, at::Tensor> back;
  for (auto& [path, tensor] : ours) wanted[path] = tensor.sizes().vec();
  io::load_named(
      source, anima::original_keys(), wanted, [&](const std::string& path, const io::InFile& read) { back[path] = read.numbers; }, file);
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(back.at(path), tensor)) << path;
  auto config = anima::detect(nullptr, io::shapes_in_our_names(source, anima::original_keys()));
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.num_heads, 2);
  EXPECT_EQ(config.in_channels, 16);
  EXPECT_EQ(config.axes_dims(), (std::vector<int64_t>{4, 4, 4}));
}

TEST(AnimaKeys, TargetsOfDiffSynthStudio) {
  EXPECT_EQ(anima::target_names("transformer_blocks.3.attn1.to_q"),
            (std::vector<std::string>{"transformer_blocks.3.attn1.to_q", "blocks.3.self_attn.q_proj"}));
  EXPECT_EQ(anima::target_names("proj_out"), (std::vector<std::string>{"proj_out", "final_layer.linear"}));
}

TEST(AnimaConfig, PublishedSizesHaveThePublishedParameterCounts) {
  auto count = [](nn::Module&& model) {
    int64_t numbers = 0;
    for (auto& [path, slot] : model.parameters()) numbers += slot->numel();
    return numbers;
  };
  const auto on_meta = at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16);
  EXPECT_EQ(count(Transformer(anima::Config{}, on_meta)), 1956405248);
  EXPECT_EQ(count(Conditioner(anima::ConditionerConfig{}, on_meta)), 134663680);
  for (int64_t num_layers : {20, 36, 40}) {  // models of other depths have the same layers
    Transformer model({.num_layers = num_layers}, on_meta);
    io::Shapes shapes;
    for (auto& [path, slot] : model.parameters()) shapes[path] = slot->sizes().vec();
    EXPECT_EQ(anima::detect(nullptr, shapes).num_layers, num_layers);
  }
}

TEST(AnimaConfig, NumbersThatDisagreeAreErrors) {
  const auto good = io::read_json(test::golden_path(kFolder + "config.json"));
  auto expect_refused = [&](const char* key, const nlohmann::json& value) {
    auto json = good;
    json[key] = value;
    EXPECT_NE(test::error_of([&] { anima::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  };
  for (const char* key : {"in_channels", "out_channels", "num_layers", "attention_head_dim", "num_attention_heads", "adaln_lora_dim",
                          "text_embed_dim", "mlp_ratio"})
    expect_refused(key, 7);
  expect_refused("rope_scale", {1, 4});
  expect_refused("rope_scale", {0, 4, 4});
  expect_refused("patch_size", {1, 1, 1});
  // What other models of Cosmos have.
  expect_refused("extra_pos_embed_type", "learnable");
  expect_refused("img_context_dim_in", 1280);
  expect_refused("concat_padding_mask", false);
  expect_refused("use_crossattn_projection", true);

  const auto conditioner = io::read_json(test::golden_path(kConditionerFolder + "config.json"));
  const auto shapes = test::golden(kConditionerFolder + "diffusion_pytorch_model.safetensors").shapes();
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"target_vocab_size", 7},
                                                                        {"source_dim", 7},
                                                                        {"model_dim", 7},
                                                                        {"target_dim", 7},
                                                                        {"num_layers", 7},
                                                                        {"num_attention_heads", 7},
                                                                        {"mlp_ratio", 7},
                                                                        {"use_layer_norm", true},
                                                                        {"use_self_attention", false},
                                                                        {"min_sequence_length", -1}}) {
    auto json = conditioner;
    json[key] = value;
    EXPECT_NE(test::error_of([&] { anima::detect_conditioner(&json, shapes); }).find(key), std::string::npos) << key;
  }
}

}  // namespace burnish::anima_test
