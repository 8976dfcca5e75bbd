// Wan going on from a picture: what is drawn with small random models beside diffusers (tests/golden/make_wan_frames.py), and what counts.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "drawing/walk.h"
#include "models/registry.h"
#include "tests/golden.h"

using namespace burnish;
using test::relative_error;
using test::tolerance;

namespace {

struct FromPicture : testing::TestWithParam<const char*> {
  FromPicture() {
    const std::filesystem::path folder = test::golden_path("wan_frames/" + std::string(GetParam()));
    std::vector<std::string> files{(folder / "transformer").string(), (folder / "vae").string()};
    model = models::open_model(models::open_model_files({files, "", ""}), {.dtype = at::kFloat, .references = true});
    for (const auto* name : {"dit", "vae"}) model->components().load(name);
    auto picture = golden("picture");
    clip = at::zeros({1, 3, 9, picture.size(1), picture.size(2)});
    clip.select(2, 0).copy_(picture.unsqueeze(0));
  }
  at::Tensor golden(const std::string& name) const { return file.tensor(name).to(at::kFloat); }
  /// What the denoiser reads beside noise and time: a text of five tokens, filled up with zeros to 512, and the first frame.
  pipeline::Values conditions() const {
    auto text = golden("text");
    pipeline::Values values{
        {"image", clip},
        {"text_embedding", at::constant_pad_nd(text, {0, 0, 0, 1})},
        {"text_counts", at::constant_pad_nd(at::ones({1, text.size(1)}), {0, 1}, 512.0 - static_cast<double>(text.size(1)))}};
    pipeline::run(model->units().encode_references, values);
    return values;
  }

  at::NoGradGuard no_grad;
  io::TensorSource file = test::golden("wan_frames/" + std::string(GetParam()) + "/expected.safetensors");
  std::unique_ptr<models::Model> model;
  at::Tensor clip;
};

}  // namespace

TEST_P(FromPicture, LatentsAreThoseOfDiffusers) {
  const auto denoiser = drawing::denoiser_of(*model, model->names().experts, drawing::UnitsFor::training);
  auto noise = golden("noise");
  drawing::WalkOptions options{.sampler = {.num_steps = 4, .num_image_tokens = 1}};
  auto latents = drawing::walk(denoiser, noise, conditions(), options);
  EXPECT_LE(relative_error(latents, golden("latents")), tolerance(1e-5));
}

TEST_P(FromPicture, WhatIsGivenIsNotInTheLoss) {
  auto groups = model->units();
  auto values = conditions();
  pipeline::run(groups.encode_image, values);
  pipeline::run(groups.weigh, values);
  if (std::string(GetParam()) == "i2v") {
    EXPECT_FALSE(values.contains(models::kLossMap));
    return;
  }
  const auto& map = std::get<at::Tensor>(values.at(models::kLossMap));
  EXPECT_TRUE(at::equal(map.flatten(), at::tensor({0.0F, 1.0F, 1.0F})));
  const auto& first = std::get<at::Tensor>(values.at("first_latents"));
  EXPECT_LE(relative_error(std::get<at::Tensor>(values.at("latents")).narrow(2, 0, 1), first), tolerance(1e-5));
}

TEST_P(FromPicture, ClipsHaveTheRateOfTheModel) {
  EXPECT_EQ(model->latent_space().frame_rate, std::string(GetParam()) == "ti2v" ? 24 : 16);
}

INSTANTIATE_TEST_SUITE_P(Wan, FromPicture, testing::Values("ti2v", "i2v"), [](const auto& info) { return std::string(info.param); });
