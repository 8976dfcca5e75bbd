// Drawing with a whole small model: prompts are encoded once, models come and go, and what a run holds loaded is drawn with as it is.
#include "drawing/draw.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "data/resize.h"
#include "drawing/walk.h"
#include "tests/golden.h"
#include "tests/places.h"
#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using drawing::Picture;
using testing::ElementsAre;

namespace {

/// The skeleton family, which counts what is encoded.
class Counting : public models::skeleton::SkeletonModel {
 public:
  using SkeletonModel::SkeletonModel;
  models::UnitGroups units_of(const models::Expert& expert) override {
    auto groups = SkeletonModel::units_of(expert);
    for (auto& unit : groups.encode_prompt) {
      unit.run = [this, name = unit.name, run = unit.run](pipeline::Scope& s) {
        ran.push_back(name == "encode_text" ? s.text("prompt") : name);
        run(s);
      };
    }
    return groups;
  }
  std::vector<std::string> ran;
};

class Draws : public testing::Test {
 protected:
  Draws() {
    test::save_skeleton(folder / "model.safetensors");
    models::ModelOptions options;
    options.dtype = at::kFloat;
    model = std::make_unique<Counting>(models::open_model_files({{(folder / "model.safetensors").string()}, "", ""}), options);
  }
  static std::vector<Picture> parse(const std::string& text) {
    Picture defaults;
    defaults.extent = {.height = 16, .width = 16};
    defaults.num_inference_steps = 3;
    return drawing::numbered(drawing::parse_prompts(text, "test", defaults), 1, 5);
  }
  std::vector<at::Tensor> draw(loras::Loader& loader, const std::vector<Picture>& pictures, int64_t batch_size = 1,
                               const std::function<bool(int64_t)>& goes_on = {}) {
    auto encoded = drawing::encode(loader, pictures);
    std::vector<at::Tensor> latents;
    for (const auto& streams :
         drawing::draw(loader, encoded.value(), pictures, drawing::Noise(pictures), {.batch_size = batch_size}, goes_on)) {
      EXPECT_EQ(streams.size(), 1u);
      latents.push_back(std::get<at::Tensor>(streams.at(models::kLatents)));
    }
    return latents;
  }
  std::vector<at::Tensor> draw(const std::vector<Picture>& pictures, int64_t batch_size = 1) {
    loras::Loader loader(*model);
    return draw(loader, pictures, batch_size);
  }
  bool is_loaded(const std::string& name) const {
    try {
      model->components().module(name);
      return true;
    } catch (const std::logic_error&) {
      return false;
    }
  }

  test::Scratch folder;
  std::unique_ptr<Counting> model;
};

}  // namespace

TEST_F(Draws, EncodeEachDistinctPromptOnceUnitByUnit) {
  loras::Loader loader(*model);
  auto encoded = drawing::encode(loader, parse("cat\ndog\ncat\ndog --l 3 --n blur\nsun --n unread")).value();
  EXPECT_THAT(model->ran, ElementsAre("cat", "dog", "sun", "blur", "project_text", "project_text", "project_text", "project_text"));
  ASSERT_EQ(encoded.prompts.size(), 4u);
  for (const auto& [prompt, values] : encoded.prompts) {
    ASSERT_EQ(values.size(), 1u) << prompt.prompt;  // nothing of what the denoiser does not read
    EXPECT_TRUE(values.contains("text_embedding"));
  }
  EXPECT_FALSE(is_loaded("text_encoder"));
  auto two = std::get<at::Tensor>(drawing::stack_prompts(*model, encoded, {{"sun"}, {"cat"}}).at("text_embedding"));
  EXPECT_TRUE(at::equal(two[0], std::get<at::Tensor>(encoded.prompts.at({"sun"}).at("text_embedding"))[0]));
  EXPECT_TRUE(at::equal(two[1], std::get<at::Tensor>(encoded.prompts.at({"cat"}).at("text_embedding"))[0]));
}

TEST_F(Draws, EncodingEndsWhereItIsToldTo) {
  loras::Loader loader(*model);
  int left = 2;
  EXPECT_FALSE(drawing::encode(loader, parse("cat\ndog\nsun"), [&] { return left-- > 0; }).has_value());
  EXPECT_THAT(model->ran, ElementsAre("cat", "dog"));
  EXPECT_FALSE(is_loaded("text_encoder.body"));
}

TEST_F(Draws, EqualTheWalkOfEachPicture) {
  auto pictures = parse("cat\ndog --s 5 --d 9 --w 32\nsun --l 3 --n blur");
  auto found = draw(pictures, 2);
  ASSERT_EQ(found.size(), 3u);
  loras::Loader loader(*model);
  auto encoded = drawing::encode(loader, pictures).value();
  auto denoiser = drawing::denoiser_of(*model, model->names().experts, drawing::UnitsFor::looking);
  EXPECT_EQ(denoiser.models(), (std::vector<std::string>{"dit", "dit_2"}));
  auto loaded = loader.load(model->units().denoise);
  at::NoGradGuard no_grad;
  drawing::Noise noise(pictures);
  for (int64_t i = 0; i < 3; ++i) {
    const auto& p = pictures[static_cast<size_t>(i)];
    auto shape = model->latent_space().shape(p.extent);
    drawing::WalkOptions options{
        .sampler = {.num_steps = p.num_inference_steps, .num_image_tokens = model->latent_space().num_tokens(shape)}};
    if (p.is_guided()) options.guidance = {encoded.prompts.at({"blur"}), 3, 0};
    auto expected = drawing::walk(denoiser, noise.start(i, 1, shape), encoded.prompts.at({p.prompt}), options);
    EXPECT_TRUE(at::equal(found[static_cast<size_t>(i)], expected)) << i;
  }
  EXPECT_EQ(pictures[2].seed, 7);
  EXPECT_EQ(found[1].sizes(), (std::vector<int64_t>{1, 4, 1, 4, 8}));
}

TEST_F(Draws, InBatchesAreThoseOneByOne) {
  auto pictures = parse("cat\ndog\nsun\nred --l 2\nblue --l 2\ngreen --s 4");
  auto together = draw(pictures, 8), alone = draw(pictures, 1);
  ASSERT_EQ(together.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_LE(test::relative_error(together[i], alone[i]), 1e-5) << i;
  EXPECT_EQ(drawing::num_steps(pictures, 8), 3 + 3 + 4);
  EXPECT_EQ(drawing::num_steps(pictures, 2), 3 + 3 + 3 + 4);
}

TEST_F(Draws, WithWhatIsHeldAndLeaveItLoaded) {
  auto pictures = parse("cat\ndog");
  auto plain = draw(pictures);
  model->components().load("dit");
  model->components().load("text_encoder.projector");
  auto* dit = &model->components().module("dit");
  dit->visit_parameters([](const std::string&, at::Tensor& p) { p.set_requires_grad(true); });
  loras::Loader loader(*model, {"dit", "text_encoder.projector"});
  auto staged = draw(loader, pictures);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(staged[i], plain[i])) << i;
    EXPECT_FALSE(staged[i].requires_grad());
  }
  EXPECT_EQ(&model->components().module("dit"), dit);
  EXPECT_TRUE(is_loaded("text_encoder.projector"));
  EXPECT_FALSE(is_loaded("text_encoder.body"));
  {
    at::NoGradGuard no_grad;
    dit->parameters().at("patch_out.weight")->mul_(2);
  }
  EXPECT_GT(test::relative_error(draw(loader, pictures)[0], plain[0]), 1e-3);  // the present weights, not the file's
}

TEST_F(Draws, LoadTheRestOfADenoiserBesideThePartThatIsHeld) {
  const std::string tokenizers = std::string(test::kCheckout) + "/assets/tiny-flux/tokenizer";
  models::ModelOptions options;
  options.dtype = at::kFloat;
  options.tokenizer_path = tokenizers;
  options.tokenizer_2_path = tokenizers + "_2";
  auto pictures = parse("cat\ndog");
  std::vector<at::Tensor> whole;
  for (const std::string held : {"", "dit.body", "dit.last_blocks.body"}) {
    auto split = models::open_model(models::open_model_files({{test::golden_path("pipeline/model")}, "", ""}), options);
    if (held == "dit.last_blocks.body")
      split->split_first_blocks([](const std::string& path) { return path.starts_with("single_transformer_blocks."); });
    std::vector<std::string> names;
    if (!held.empty()) names.push_back(held);
    for (const auto& name : names) split->components().load(name);
    auto* module = names.empty() ? nullptr : &split->components().module(held);
    loras::Loader loader(*split, names);
    auto found = draw(loader, pictures, 2);
    if (whole.empty()) whole = found;
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(found[i], whole[i])) << held;
    if (!module) continue;
    EXPECT_EQ(&split->components().module(held), module);
    EXPECT_EQ(&split->components().module("dit"), module);  // nothing else of it is loaded any more
  }
}

TEST_F(Draws, KeepWhatWasFinishedWhenToldToEnd) {
  auto pictures = parse("cat\ndog\nsun --s 5\nred");
  auto whole = draw(pictures, 2);
  loras::Loader loader(*model);
  std::vector<int64_t> asked;
  auto some = draw(loader, pictures, 2, [&](int64_t done) {
    asked.push_back(done);
    return done < 9;
  });
  // Where there is much noise 2 + 3 + 2 steps of the three batches, then the last one of the first.
  EXPECT_THAT(asked, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  ASSERT_EQ(some.size(), 2u);
  EXPECT_TRUE(at::equal(some[1], whole[1]));
  EXPECT_FALSE(is_loaded("dit"));
}

TEST_F(Draws, DecodeOneByOne) {
  auto latents = draw(parse("cat\ndog --w 32"));
  std::vector<at::Tensor> images;
  loras::Loader loader(*model);
  drawing::decode(loader, {{{models::kLatents, latents[0]}}, {{models::kLatents, latents[1]}}},
                  [&](int64_t i, const drawing::Decoded& decoded) {
                    EXPECT_EQ(i, std::ssize(images));
                    EXPECT_TRUE(is_loaded("vae"));
                    images.push_back(decoded.image);
                  });
  EXPECT_FALSE(is_loaded("vae"));
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[1].sizes(), (std::vector<int64_t>{3, 16, 32}));
  model->components().load("vae");
  pipeline::Values values{{"latents", latents[1]}};
  at::NoGradGuard no_grad;
  pipeline::run(model->units().decode, values);
  EXPECT_TRUE(at::equal(images[1], std::get<at::Tensor>(values.at("image"))[0]));
}

TEST_F(Draws, ClipsOfFramesThatBecomeBytes) {
  auto latents = draw(parse("cat --f 5\ndog --f 5 --d 9\nsun"), 2);
  ASSERT_EQ(latents.size(), 3u);
  EXPECT_EQ(latents[0].sizes(), (std::vector<int64_t>{1, 4, 3, 4, 4}));
  EXPECT_EQ(latents[2].sizes(), (std::vector<int64_t>{1, 4, 1, 4, 4}));
  std::vector<at::Tensor> drawn;
  loras::Loader loader(*model);
  drawing::decode(loader, {{{models::kLatents, latents[0]}}, {{models::kLatents, latents[0].narrow(2, 1, 1)}}},
                  [&](int64_t, const drawing::Decoded& decoded) { drawn.push_back(decoded.image); });
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_EQ(drawn[0].scalar_type(), at::kByte);
  EXPECT_EQ(drawn[0].sizes(), (std::vector<int64_t>{3, 5, 16, 16}));
  EXPECT_TRUE(at::equal(drawn[0].select(1, 1), data::to_pixels(drawn[1]).permute({2, 0, 1})));
  EXPECT_FALSE(at::equal(drawn[0].select(1, 1), drawn[0].select(1, 0)));
}

TEST_F(Draws, RefuseBeforeAnythingIsLoaded) {
  auto error = [&](const std::string& prompt, const drawing::DrawOptions& options) {
    return test::error_of([&] { drawing::check(*model, parse(prompt), options); }, Exit::config);
  };
  EXPECT_THAT(error("cat\ndog --w 18", {}), testing::HasSubstr("multiples of 4"));
  EXPECT_THAT(error("cat", {.sampler = "ddim"}), testing::HasSubstr("ddim"));
}
