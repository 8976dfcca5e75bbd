// Parity of Krea 2's transformer with diffusers' Krea2Transformer2DModel on a small random model (tests/golden/make_krea2.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/krea2/editing.h"
#include "models/families/krea2/keys.h"
#include "models/families/krea2/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::krea2_test {
using namespace burnish::models;
using krea2::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kKreaFolder = "krea2_pipeline/model/transformer/";

io::TensorSource weights() { return test::golden(kKreaFolder + "diffusion_pytorch_model.safetensors"); }

std::unique_ptr<Transformer> load_krea(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kKreaFolder, krea2::detect, part);
}

const test::CaptionedBatch& golden_batch() {
  static const test::CaptionedBatch batch("krea2_pipeline/batch.safetensors");
  return batch;
}

at::Tensor run(Transformer& modulation, Transformer& text, Transformer& body, const test::CaptionedBatch& batch) {
  return body.forward({.noisy_BCHW = batch.noisy_BCHW,
                       .text_BTD = text.fuse(batch.text_BTE, batch.mask_BT),
                       .mask_BT = batch.mask_BT,
                       .modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat)});
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return run(model, model, model, batch); }

}  // namespace

TEST(Krea2Parity, ForwardAndAllGradients) {
  auto model = load_krea();
  test::expect_parity(*model, golden_batch().file, run(*model, golden_batch()), 5e-6);
}

TEST(Krea2Parity, RecomputedGradientsAreTheSame) {
  test::expect_recomputed_equal(load_krea(), load_krea(), golden_batch().file, [](auto& model) { return run(model, golden_batch()); });
}

TEST(Krea2Batch, EqualsItsSamplesOneByOne) {
  test::expect_samples(golden_batch(), [model = load_krea()](const auto& batch) { return run(*model, batch); });
}

namespace {

/// The same with two reference pictures, as frames without noise.
struct EditBatch : test::CaptionedBatch {
  EditBatch() : CaptionedBatch("krea2_edit/alone.safetensors") {}

  at::Tensor run(Transformer& model, bool are_frames = true) const {
    return model.forward({.noisy_BCHW = noisy_BCHW,
                          .references = references_BCHW,
                          .text_BTD = model.fuse(text_BTE, mask_BT),
                          .mask_BT = mask_BT,
                          .modulation_BM = model.modulate(sigma_B, at::kFloat, are_frames)});
  }
};

}  // namespace

TEST(Krea2EditParity, ForwardAndAllGradients) {
  auto model = load_krea();
  EditBatch batch;
  auto out = batch.run(*model);
  EXPECT_GT(relative_error(batch.run(*model, false), batch.file.tensor("out")), 1e-3) << "the forms are not one";
  test::expect_parity(*model, batch.file, out, 5e-6);
}

TEST(Krea2EditParity, RecomputedGradientsAreTheSame) {
  EditBatch batch;
  test::expect_recomputed_equal(load_krea(), load_krea(), batch.file, [&](auto& model) { return batch.run(model); });
}

TEST(Krea2EditParity, WithoutReferencesItIsTheModelThatReadsNone) {
  at::NoGradGuard no_grad;
  auto model = load_krea();
  EditBatch batch;
  batch.references_BCHW.clear();
  EXPECT_TRUE(at::equal(batch.run(*model, true), batch.run(*model, false)));
}

TEST(Krea2Edit, PicturesAreScaledDownAlone) {
  auto fitted = [](int64_t height, int64_t width, int64_t area) {
    const auto size = krea2::fitted(Extent{.height = height, .width = width}, area);
    return std::pair(size.height, size.width);
  };
  using Sides = std::pair<int64_t, int64_t>;
  EXPECT_EQ(fitted(64, 48, krea2::kReferenceArea), Sides(64, 48));
  EXPECT_EQ(fitted(70, 100, krea2::kReferenceArea), Sides(64, 96));
  EXPECT_EQ(fitted(5, 300, krea2::kReferenceArea), Sides(16, 304));
  EXPECT_EQ(fitted(2048, 2048, krea2::kReferenceArea), Sides(1024, 1024));
  EXPECT_EQ(fitted(3000, 2000, krea2::kReferenceArea), Sides(1248, 832));
  auto picture = at::linspace(-1, 1, 3 * 600 * 400).view({3, 600, 400});
  auto seen = krea2::levels_to_see(picture, krea2::Form::frames);
  EXPECT_EQ(seen.sizes(), (std::vector<int64_t>{3, 470, 314}));
  EXPECT_EQ(krea2::levels_to_see(picture, krea2::Form::overlaid).sizes(), picture.sizes());
  EXPECT_EQ(krea2::levels_to_see(picture.slice(1, 0, 10), krea2::Form::frames).size(1), 28);
}

TEST(Krea2Edit, AFormTellsOfItsPictures) {
  const std::string place = "<|vision_start|><|image_pad|><|vision_end|>";
  EXPECT_EQ(krea2::told_pictures(krea2::form_of("frames"), 2), "Picture 1: " + place + "Picture 2: " + place);
  EXPECT_EQ(krea2::told_pictures(krea2::form_of("overlaid"), 1), place + "\n");
}

TEST(Krea2Parts, ThreePartsAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_krea();
  auto modulation = load_krea(mmdit::layers_of_part("dit.modulation")), text = load_krea(mmdit::layers_of_part("dit.text")),
       body = load_krea(mmdit::layers_of_part("dit.body"));
  EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
  EXPECT_TRUE(at::equal(run(*modulation, *text, *body, golden_batch()), run(*whole, golden_batch())));
}

TEST(Krea2Keys, OriginalNamesRoundTrip) {
  auto model = load_krea();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, slot->detach());
  test::Scratch scratch;
  auto file = (scratch / "original.safetensors").string();
  io::save_safetensors(file, krea2::original_keys().to_file(ours));
  auto source = io::TensorSource::open({file});
  EXPECT_EQ(source.names().size(), ours.size());
  for (const char* name :
       {"first.bias", "tmlp.0.weight", "tmlp.2.bias", "tproj.1.weight", "txtmlp.0.scale", "txtmlp.1.weight", "txtmlp.3.bias",
        "txtfusion.projector.weight", "txtfusion.layerwise_blocks.0.attn.wq.weight", "txtfusion.refiner_blocks.1.attn.qknorm.knorm.scale",
        "blocks.2.prenorm.scale", "blocks.0.postnorm.scale", "blocks.1.attn.gate.weight", "blocks.1.attn.wo.weight",
        "blocks.2.attn.qknorm.qnorm.scale", "blocks.0.mlp.gate.weight", "blocks.0.mlp.down.weight", "last.norm.scale", "last.linear.bias"})
    EXPECT_TRUE(source.contains(name)) << name;
  EXPECT_EQ(source.info("blocks.0.mod.lin").shape, (std::vector<int64_t>{6 * 32}));
  EXPECT_EQ(source.info("last.modulation.lin").shape, (std::vector<int64_t>{2, 32}));
  io::Shapes wanted;
  std::map<std::string, at::Tensor> back;
  for (auto& [path, tensor] : ours) wanted[path] = tensor.sizes().vec();
  io::load_named(
      source, krea2::original_keys(), wanted, [&](const std::string& path, const io::InFile& read) { back[path] = read.numbers; }, file);
  for (auto& [path, tensor] : ours) EXPECT_TRUE(at::equal(back.at(path), tensor)) << path;
  auto config = krea2::detect(nullptr, io::shapes_in_our_names(source, krea2::original_keys()));
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_EQ(config.num_caption_layers, 3);
  EXPECT_EQ(config.num_refiner_blocks, 2);
  EXPECT_EQ(config.axes_dims, (std::vector<int64_t>{4, 6, 6}));
}

TEST(Krea2Keys, TargetsOfDiffSynthStudio) {
  EXPECT_EQ(krea2::target_names("transformer_blocks.3.attn.to_q"),
            (std::vector<std::string>{"transformer_blocks.3.attn.to_q", "blocks.3.attn.wq"}));
  EXPECT_EQ(krea2::target_names("time_mod_proj"), (std::vector<std::string>{"time_mod_proj", "tproj.1"}));
  EXPECT_EQ(krea2::target_names("text_fusion.projector"), (std::vector<std::string>{"text_fusion.projector", "txtfusion.projector"}));
}

TEST(Krea2Config, PublishedSizesHaveThePublishedParameterCount) {
  Transformer model(krea2::Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  int64_t count = 0;
  for (auto& [path, slot] : model.parameters()) count += slot->numel();
  EXPECT_EQ(count, 12820073036);
  EXPECT_EQ(model.parameters().size(), 430u);
  for (auto& [path, slot] : model.parameters())
    EXPECT_EQ(slot->scalar_type(), path.find("norm") != path.npos ? at::kFloat : at::kBFloat16) << path;
  auto json = nlohmann::json::parse(R"({"num_attention_heads": 48, "attention_head_dim": 128})");
  EXPECT_EQ(krea2::detect(&json, {}).axes_dims, krea2::Config().axes_dims);
}

TEST(Krea2Config, NumbersThatDisagreeAreErrors) {
  const auto good = io::read_json(test::golden_path(kKreaFolder + "config.json"));
  for (const char* key : {"in_channels", "num_layers", "attention_head_dim", "num_attention_heads", "num_key_value_heads",
                          "intermediate_size", "timestep_embed_dim", "text_hidden_dim", "num_text_layers", "text_num_attention_heads",
                          "text_num_key_value_heads", "text_intermediate_size", "num_layerwise_text_blocks", "num_refiner_text_blocks"}) {
    auto json = good;
    json[key] = 7;
    EXPECT_NE(test::error_of([&] { krea2::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
  for (const auto& [key, value] :
       std::map<std::string, nlohmann::json>{{"axes_dims_rope", {4, 4, 4}}, {"rope_theta", 0}, {"norm_eps", -1}}) {
    auto json = good;
    json[key] = value;
    EXPECT_NE(test::error_of([&] { krea2::detect(&json, weights().shapes()); }).find(key), std::string::npos) << key;
  }
  auto heads = nlohmann::json::parse(R"({"num_attention_heads": 5, "num_key_value_heads": 3})");
  EXPECT_NE(test::error_of([&] { krea2::detect(&heads, {}); }).find("do not divide"), std::string::npos);
}

}  // namespace burnish::krea2_test
