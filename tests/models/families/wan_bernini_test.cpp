// Parity of Bernini-R's sources with diffusers' parts (tests/golden/make_wan_bernini.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/wan/sources.h"
#include "models/families/wan/transformer.h"
#include "tests/models/transformer_parity.h"

namespace burnish::wan_bernini_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

constexpr size_t kNumSources = 3;

struct Edited {
  Edited()
      : file(test::golden("wan_bernini/transformer.safetensors")),
        dit(test::load_trained<wan::Transformer>("wan_pipeline/model/transformer/", wan::detect, mmdit::HeldLayers{})) {}

  wan::Transformer::Inputs inputs() const {
    const test::Captions captions(file);
    auto text = at::constant_pad_nd(captions.text_BTE.to(at::kFloat), {0, 0, 0, 1}), counts = at::constant_pad_nd(captions.mask_BT, {0, 1});
    counts.select(1, counts.size(1) - 1).copy_(512 - captions.mask_BT.sum(1));
    wan::Transformer::Inputs all{.noisy_BCFHW = on_device(file.tensor("in.noisy")),
                                 .text_BTE = text,
                                 .counts_BT = counts,
                                 .modulation_BM = dit->modulate(on_device(file.tensor("in.sigma")))};
    for (size_t i = 0; i < kNumSources; ++i) all.sources_BCFHW.push_back(on_device(file.tensor("in.source." + std::to_string(i))));
    return all;
  }

  void expect_gradients() {
    test::backward(dit->forward(inputs()), file);
    const auto digests = file.below("grad.");
    auto slots = dit->parameters();
    for (const auto& path : digests.names())
      EXPECT_LE(relative_error(test::digest(slots.at(path)->grad()), digests.tensor(path)), tolerance(1e-4)) << path;
    EXPECT_EQ(digests.names().size(), 10U);
  }

  io::TensorSource file;
  std::unique_ptr<wan::Transformer> dit;
};

}  // namespace

TEST(WanBernini, SourcesOfTheirOwnSizesAndTheirGradientsAreThoseOfDiffusersParts) {
  Edited edited;
  EXPECT_LE(relative_error(edited.dit->forward(edited.inputs()), edited.file.tensor("out")), tolerance(5e-6));
  edited.expect_gradients();
}

TEST(WanBernini, RecomputedBlocksGiveTheSameGradients) {
  Edited edited;
  test::recompute_blocks(*edited.dit);
  edited.expect_gradients();
}

TEST(WanBernini, ASourceIsToldByItsNumber) {
  at::NoGradGuard no_grad;
  Edited edited;
  auto inputs = edited.inputs();
  const auto out = edited.dit->forward(inputs);
  std::swap(inputs.sources_BCFHW[0], inputs.sources_BCFHW[1]);
  EXPECT_GT(relative_error(edited.dit->forward(inputs), out), 1e-4);
}

TEST(WanBernini, NumbersAreWholeUpToFiveAndSpreadBeyond) {
  EXPECT_EQ(wan::source_numbers(3), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(wan::source_numbers(5).back(), 5);
  EXPECT_EQ(wan::source_numbers(9), (std::vector<double>{1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5}));
}

}  // namespace burnish::wan_bernini_test
