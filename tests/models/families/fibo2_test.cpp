// Parity of FIBO 2's transformer and prompts with diffusers' BriaFibo2 classes on a small random model (tests/golden/make_fibo2.py).
#include <nlohmann/json.hpp>

#include "io/json.h"
#include "models/families/fibo2/captions.h"
#include "models/families/fibo2/model.h"
#include "tests/golden.h"
#include "tests/models/transformer_parity.h"
#include "tests/scratch.h"

namespace burnish::fibo2_test {
using namespace burnish::models;
using fibo2::Config;
using fibo2::Transformer;
using test::relative_error;
using test::tolerance;

namespace {

const std::string kPipeline = "fibo2_pipeline/", kTransformer = kPipeline + "model/transformer/";

io::TensorSource weights() { return test::golden(kTransformer + "diffusion_pytorch_model.safetensors"); }
nlohmann::json config_json() { return io::read_json(test::golden_path(kTransformer + "config.json")); }

std::unique_ptr<Transformer> load_transformer(mmdit::HeldLayers part = {}) {
  return test::load_trained<Transformer>(kTransformer, fibo2::detect, part);
}

const test::CaptionedBatch& golden_batch(const std::string& name = "batch") {
  static std::map<std::string, std::unique_ptr<test::CaptionedBatch>> batches;
  auto& batch = batches[name];
  if (!batch) batch = std::make_unique<test::CaptionedBatch>(kPipeline + name + ".safetensors");
  return *batch;
}

Transformer::Inputs inputs(const Transformer& modulation, const Transformer& text, const test::CaptionedBatch& batch) {
  return {.noisy_BCHW = batch.noisy_BCHW,
          .references_BCHW = batch.references_BCHW,
          .text_BTNE = batch.text_BTE,
          .mask_BT = batch.mask_BT,
          .gist_BGD = text.gist(batch.text_BTE, batch.mask_BT),
          .modulation_BM = modulation.modulate(batch.sigma_B, at::kFloat)};
}
at::Tensor run(Transformer& model, const test::CaptionedBatch& batch) { return model.forward(inputs(model, model, batch)); }

}  // namespace

TEST(Fibo2Parity, ForwardAndAllGradients) {
  for (const char* name : {"batch", "edit"}) {
    SCOPED_TRACE(name);
    auto model = load_transformer();
    test::expect_parity(*model, golden_batch(name).file, run(*model, golden_batch(name)), 1e-5);
  }
}

TEST(Fibo2Parity, RecomputedGradientsAreTheSame) {
  for (const char* name : {"batch", "edit"}) {
    SCOPED_TRACE(name);
    test::expect_recomputed_equal(load_transformer(), load_transformer(), golden_batch(name).file,
                                  [&](auto& model) { return run(model, golden_batch(name)); });
  }
}

TEST(Fibo2Batch, EqualsItsSamplesOneByOne) {
  auto model = load_transformer();
  const auto& config = model->config();
  EXPECT_NE(config.gist.count(5), config.gist.count(260)) << "the samples have gists of two lengths";
  for (const char* name : {"batch", "edit"})
    test::expect_samples(golden_batch(name), [&](const auto& batch) { return run(*model, batch); });
}

TEST(Fibo2Parts, ThreePartsAreTheWhole) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  auto modulation = load_transformer(mmdit::layers_of_part("dit.modulation")), text = load_transformer(mmdit::layers_of_part("dit.text")),
       body = load_transformer(mmdit::layers_of_part("dit.body"));
  EXPECT_EQ(modulation->num_bytes() + text->num_bytes() + body->num_bytes(), whole->num_bytes());
  for (const char* name : {"batch", "edit"}) {
    const auto& batch = golden_batch(name);
    EXPECT_TRUE(at::equal(body->forward(inputs(*modulation, *text, batch)), run(*whole, batch))) << name;
  }
}

// The first two blocks do not see the gist, which goes past them.
TEST(Fibo2Parts, BlocksAreCutAnywhere) {
  at::NoGradGuard no_grad;
  auto whole = load_transformer();
  for (const char* name : {"batch", "edit"}) {
    auto in = inputs(*whole, *whole, golden_batch(name));
    const auto expected = whole->forward(in);
    for (int64_t cut = 1; cut <= whole->config().blocks.count(); ++cut) {
      auto first = load_transformer({.modulation = false, .end = cut, .text = false});
      auto last = load_transformer({.modulation = false, .begin = cut, .text = false});
      auto rest = in;
      rest.hidden_BLD = first->forward(in);
      rest.gist_BGD = at::Tensor();
      EXPECT_TRUE(at::equal(last->forward(rest), expected)) << name << " after " << cut;
    }
  }
}

TEST(Fibo2Gist, HasAsManyTokensAsTheTextsLengthSays) {
  const Config published;
  const std::vector<std::pair<int64_t, int64_t>> expected{{1, 256},    {256, 256},  {257, 320},  {704, 320},  {705, 384},
                                                          {1152, 384}, {1153, 448}, {1601, 512}, {2048, 512}, {4096, 512}};
  for (const auto& [text, gist] : expected) EXPECT_EQ(published.gist.count(text), gist) << text;
}

TEST(Fibo2Text, EveryReaderHasItsLayers) {
  const Config published;
  const auto layers = fibo2::text_layers(published);
  EXPECT_EQ(layers, (std::vector<int64_t>{5, 7, 9, 11, 13, 16, 18, 20, 22, 24, 27, 29, 31, 33, 35}));
  std::vector<int64_t> of_third;
  for (const auto place : fibo2::read_together(published, 4)) of_third.push_back(layers[static_cast<size_t>(place)]);
  EXPECT_EQ(of_third, (std::vector<int64_t>{11, 22, 33}));
  EXPECT_EQ(fibo2::read_together(published, 0), fibo2::read_together(published, 3));
}

TEST(Fibo2Config, PublishedSizesHaveThePublishedParameterCount) {
  Transformer model(Config{}, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
  int64_t count = 0;
  for (auto& [path, slot] : model.parameters()) count += slot->numel();
  EXPECT_EQ(count, 8127342213);
  EXPECT_EQ(model.parameters().size(), 783u);
  auto json = nlohmann::json::parse(R"({"dim": 3584, "n_heads": 28})");
  const auto config = fibo2::detect(&json, {});
  EXPECT_EQ(config.blocks.hidden, Config().blocks.hidden);
  EXPECT_EQ(config.blocks.axes_dims, Config().blocks.axes_dims);
}

TEST(Fibo2Config, IsReadFromTensorsAlone) {
  const auto json = config_json();
  const auto of_json = fibo2::detect(&json, {}), of_tensors = fibo2::detect(nullptr, weights().shapes());
  EXPECT_EQ(of_json.latent_channels, of_tensors.latent_channels);
  EXPECT_EQ(of_json.caption_width, of_tensors.caption_width);
  using fibo2::BlockSizes, fibo2::GistSizes;
  for (auto number :
       {&BlockSizes::width, &BlockSizes::head_dim, &BlockSizes::hidden, &BlockSizes::num_layers, &BlockSizes::num_refiner_layers})
    EXPECT_EQ(of_json.blocks.*number, of_tensors.blocks.*number);
  for (auto number :
       {&GistSizes::num_layers, &GistSizes::least, &GistSizes::most, &GistSizes::step, &GistSizes::least_text, &GistSizes::most_text})
    EXPECT_EQ(of_json.gist.*number, of_tensors.gist.*number);
  EXPECT_EQ(of_tensors.blocks.reading, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(of_tensors.blocks.axes_dims, of_json.blocks.axes_dims);
}

TEST(Fibo2Config, NumbersThatDisagreeAreErrors) {
  const auto good = config_json();
  auto error_with = [&](const char* key, const nlohmann::json& value) {
    auto json = good;
    json[key] = value;
    return test::error_of([&] { fibo2::detect(&json, weights().shapes()); });
  };
  for (const char* key : {"in_channels", "dim", "n_layers", "n_refiner_layers", "n_heads", "cap_feat_dim", "perceiver_num_layers",
                          "max_num_gist_tokens", "patch_size", "t_scale"})
    EXPECT_NE(error_with(key, 7).find(key), std::string::npos) << key;
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{
           {"injection_layer_ids", {1, 2}}, {"axes_dims", {4, 4, 4}}, {"rope_theta", 0}, {"norm_eps", -1}, {"min_num_gist_tokens", 99}})
    EXPECT_NE(error_with(key.c_str(), value).find(key), std::string::npos) << key;
  auto far = nlohmann::json::parse(R"({"n_layers": 4, "injection_layer_ids": [6]})");
  EXPECT_NE(test::error_of([&] { fibo2::detect(&far, {}); }).find("injection_layer_ids"), std::string::npos);
}

TEST(Fibo2Captions, AreThoseOfThePipeline) {
  const auto rows = io::read_json(test::golden_path(kPipeline + "captions.json"));
  const auto empty = fibo2::read_caption("");
  EXPECT_TRUE(empty.starts_with(R"({"short_description":"","objects":[])")) << empty;
  EXPECT_EQ(fibo2::read_caption(empty), empty) << "as a negative prompt";
  int num_empty = 0;
  for (const auto& row : rows) {
    const auto text = row["text"].get<std::string>();
    const bool says_nothing = text.empty() || text == "{}";
    num_empty += says_nothing ? 1 : 0;
    EXPECT_EQ(fibo2::read_caption(row["prompt"]), says_nothing ? empty : text) << row["prompt"];
  }
  EXPECT_GE(num_empty, 4);
}

TEST(Fibo2Captions, OfEditsAreThoseOfThePipeline) {
  int num_edits = 0;
  for (const auto& row : io::read_json(test::golden_path(kPipeline + "captions.json"))) {
    const auto prompt = row["prompt"].get<std::string>();
    const auto json = nlohmann::json::parse(prompt, nullptr, false);
    // The pipeline refuses captions without an instruction.
    if (prompt.empty() || (json.is_object() && !json.contains("edit_instruction"))) continue;
    ++num_edits;
    for (const auto& [count, name] : {std::pair(size_t{1}, "one"), {size_t{2}, "two"}}) {
      const auto edit = fibo2::read_edit(prompt, count);
      EXPECT_EQ(edit.told + edit.rest, row[name].get<std::string>()) << prompt;
      EXPECT_TRUE(edit.told.ends_with("<|vision_end|>")) << edit.told;
    }
  }
  EXPECT_GE(num_edits, 8);
  EXPECT_EQ(fibo2::read_edit("", 1).told, "");
  EXPECT_EQ(fibo2::read_edit("{}", 1).rest, fibo2::read_caption(""));
  const auto refused = test::error_of([] { fibo2::read_edit(R"({"short_description": "a cat"})", 1); });
  EXPECT_NE(refused.find("write what is to be changed under that key"), std::string::npos) << refused;
}

TEST(Fibo2Edit, ThePictureThatIsSeenHasNoLongSide) {
  auto seen = [](int64_t height, int64_t width) {
    const auto size = fibo2::seen_size({.height = height, .width = width});
    return std::pair(size.height, size.width);
  };
  using Sides = std::pair<int64_t, int64_t>;
  // As Pillow's Image.thumbnail((768, 768)) makes them.
  EXPECT_EQ(seen(768, 640), Sides(768, 640));
  EXPECT_EQ(seen(1024, 1024), Sides(768, 768));
  EXPECT_EQ(seen(832, 1248), Sides(512, 768));
  EXPECT_EQ(seen(1504, 704), Sides(768, 359));
  EXPECT_EQ(seen(704, 1504), Sides(359, 768));
  EXPECT_EQ(seen(16, 4000), Sides(3, 768));
  EXPECT_EQ(seen(1, 4000), Sides(1, 768));
}

}  // namespace burnish::fibo2_test
