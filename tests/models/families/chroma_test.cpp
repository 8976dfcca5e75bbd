// Parity of Chroma's transformer with diffusers' on a small random model (tests/golden/make_chroma.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/chroma/keys.h"
#include "models/families/chroma/transformer.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"

namespace burnish::chroma_test {
using namespace burnish::models;
using chroma::Transformer;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kChromaFolder = "chroma_pipeline/model/transformer/";

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kChromaFolder, chroma::detect, part);
}

/// The batch of the golden file: captions of 5 and of 9 tokens, the shorter one filled up with zeros.
struct ChromaBatch {
  io::TensorSource file = test::golden("chroma_pipeline/transformer.safetensors");
  test::Captions captions{file};
  at::Tensor run(Transformer& model) const {
    return model.forward({.noisy_BCHW = on_device(file.tensor("in.noisy")),
                          .text_BTE = captions.text_BTE,
                          .mask_BT = captions.mask_BT,
                          .modulation_BM = model.modulate(on_device(file.tensor("in.sigma")), at::kFloat)});
  }
};

}  // namespace

TEST(Chroma, ABatchAndItsGradientsAreThoseOfDiffusers) {
  auto model = load_transformer();
  ChromaBatch batch;
  auto out = batch.run(*model);
  EXPECT_LE(relative_error(out, batch.file.tensor("out")), tolerance(2e-6));
  test::backward(out, batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(Chroma, RecomputedBlocksGiveTheSameGradients) {
  auto model = load_transformer();
  test::recompute_blocks(*model);
  ChromaBatch batch;
  test::backward(batch.run(*model), batch.file);
  test::expect_digests(*model, batch.file.below("grad."));
}

TEST(Chroma, OriginalNamesAreOurs) {
  auto model = load_transformer();
  io::NamedTensors ours;
  for (auto& [path, slot] : model->parameters()) ours.emplace_back(path, *slot);
  auto theirs = chroma::original_keys().to_file(ours);
  std::set<std::string> names;
  for (const auto& [name, tensor] : theirs) names.insert(name);
  for (const char* name : {"img_in.weight", "txt_in.bias", "double_blocks.0.img_attn.qkv.weight", "double_blocks.1.txt_mlp.2.bias",
                           "single_blocks.1.linear1.weight", "single_blocks.0.norm.key_norm.scale", "final_layer.linear.weight",
                           "distilled_guidance_layer.in_proj.weight", "distilled_guidance_layer.layers.1.out_layer.weight",
                           "distilled_guidance_layer.norms.0.scale", "distilled_guidance_layer.out_proj.bias"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const auto& name : names) EXPECT_FALSE(name.starts_with("transformer_blocks.") || name.starts_with("single_transformer")) << name;
}

}  // namespace burnish::chroma_test
