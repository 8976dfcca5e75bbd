// Which trained parameters nobody is surprised to see without a gradient.
#include "train/run/without_gradient.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using testing::ElementsAre;

TEST(WithoutGradient, WarnsOfWhatTheFamilyDoesNotExpect) {
  test::Scratch folder;
  test::save_skeleton(folder / "model.safetensors");
  auto model = test::open_skeleton(folder / "model.safetensors");
  optim::ParameterList parameters;
  for (const char* name :
       {"dit.patch_in.weight", "dit.patch_out.weight", "vae.decoder.weight", "vae.decoder_2.weight", "vae.encoder.weight"})
    parameters.push_back({name, at::zeros({2}).requires_grad_(true)});
  for (size_t i : {size_t{0}, size_t{4}}) parameters[i].value.mutable_grad() = at::ones({2});
  auto found = train::without_gradient(parameters, model->names());
  EXPECT_THAT(found.expected, ElementsAre("vae.decoder.weight"));
  EXPECT_THAT(found.unexpected, ElementsAre("dit.patch_out.weight", "vae.decoder_2.weight"));
}
