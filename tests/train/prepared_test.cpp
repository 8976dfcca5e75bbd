// Preparing values stage by stage, with a model whose encoder, frozen or in part trained, stands in front of a head.
#include "train/prepared.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "data/image.h"
#include "diffusion/flow_process.h"
#include "tests/scratch.h"

using namespace burnish;
using test::Scratch;
using testing::ElementsAre;
using train::Prepared;

namespace {

/// body: image -> hidden; head: hidden, prompt -> tokens; denoiser: tokens, noise -> loss. Counts what runs and what is loaded at once.
class EncoderAndHead : public models::Model {
 public:
  EncoderAndHead() : Model({}, {.init = "random"}) {
    names_.denoisers = {"dit"};
    components_.add({.name = "encoder",
                     .what = "encoder",
                     .source = {&entry_, {}, {}},
                     .build = [this](const std::string& part, const at::TensorOptions&) { return std::make_unique<Counted>(*this, part); },
                     .initialise = [](nn::Module&) {},
                     .settings = [this](const std::string& part) { return part == "encoder.head" ? head_settings : ""; }});
  }
  models::UnitGroups units() override {
    models::UnitGroups groups;
    groups.encode_image = {{"body", {"image"}, {"hidden"}, {"encoder.body"}, [this](pipeline::Scope& s) {
                              s.uses("encoder.body");
                              ++runs["body"];
                              s.write("hidden", s.tensor("image").mean({2, 3}) * 3);
                            }}};
    groups.encode_prompt = {{"head", {"hidden", "prompt"}, {"tokens"}, {"encoder.head"}, [this](pipeline::Scope& s) {
                               s.uses("encoder.head");
                               ++runs["head"];
                               s.write("tokens", s.tensor("hidden") * weight + static_cast<double>(s.text("prompt").size()));
                             }}};
    groups.loss = {{"loss", {"tokens", "noise"}, {"loss"}, {"dit"}, [](pipeline::Scope& s) {
                      s.uses("dit");
                      s.write("loss", (s.tensor("tokens") - s.tensor("noise")).square().mean());
                    }}};
    return groups;
  }
  pipeline::Units all_units() {
    auto groups = units();
    return {groups.encode_image[0], groups.encode_prompt[0], groups.loss[0]};
  }
  std::vector<int64_t> latent_shape(const models::Extent&) const override { return {}; }
  int64_t num_tokens(at::IntArrayRef) const override { return 0; }
  int64_t size_division() const override { return 4; }
  const diffusion::Process& process() const override {
    static const diffusion::FlowProcess process{diffusion::FlowSamplerConfig{}};
    return process;
  }

  at::Tensor weight = at::arange(1, 4, at::kFloat);
  std::string head_settings = "first";
  std::map<std::string, int> runs;
  std::vector<std::string> loads;
  int num_loaded = 0, most_loaded = 0;

 private:
  /// Tells the model of its parts that are loaded.
  class Counted : public nn::Module {
   public:
    Counted(EncoderAndHead& model, const std::string& part) : model_(model), is_part_(part.find('.') != part.npos) {
      if (!is_part_) return;  // the whole, which is drawn for the part's sake
      model_.loads.push_back(part);
      model_.most_loaded = std::max(model_.most_loaded, ++model_.num_loaded);
    }
    ~Counted() override { model_.num_loaded -= is_part_ ? 1 : 0; }

   private:
    EncoderAndHead& model_;
    bool is_part_;
  };

  models::ModelEntry entry_{"test", {}, "", {}, {}};
};

class PreparedTest : public testing::Test {
 protected:
  PreparedTest() {
    for (int i = 0; i < 3; ++i) data::write_png(scratch / (std::to_string(i) + ".png"), at::full({8, 8, 3}, 40 * i + 5, at::kByte));
    metadata = scratch.write("metadata.csv", "image,prompt\n0.png,a\n1.png,bb\n2.png,a\n2.png,ccc\n");
  }
  data::Dataset dataset() const {
    data::DatasetOptions o;
    o.base_path = scratch.path();
    o.metadata_path = metadata.string();
    o.size.division = 4;
    return data::Dataset(o);
  }
  data::Dataset variants(int64_t num_variants) const {
    data::DatasetOptions o;
    o.base_path = scratch.path();
    o.metadata_path = metadata.string();
    o.size.division = 4;
    o.augmentation = {.random_flip = true, .num_variants = num_variants};
    return data::Dataset(o);
  }
  pipeline::Cut cut(const std::set<std::string>& trained) { return pipeline::cut(model.all_units(), {"noise"}, trained); }
  Scratch scratch;
  std::filesystem::path metadata;
  EncoderAndHead model;
};

}  // namespace

TEST_F(PreparedTest, RunsEachStageOnceForEachDistinctInputWithOneModelLoaded) {
  data::Cache cache("");
  auto c = cut({"dit"});
  EXPECT_THAT(c.carried, ElementsAre("tokens"));
  Prepared prepared(model, c, dataset(), cache);
  EXPECT_EQ(model.runs["body"], 3) << "three pictures in four rows";
  EXPECT_EQ(model.runs["head"], 4);
  EXPECT_THAT(model.loads, ElementsAre("encoder.body", "encoder.head"));
  EXPECT_EQ(model.most_loaded, 1);
  auto row3 = std::get<at::Tensor>(prepared.values(3).at("tokens"));
  auto row2 = std::get<at::Tensor>(prepared.values(2).at("tokens"));
  EXPECT_TRUE(at::allclose(row3 - row2, at::full({1, 3}, 2.0))) << "the same picture with a caption longer by two";
  EXPECT_EQ(prepared.values(0).size(), 1u) << "only what a live unit reads";
}

TEST_F(PreparedTest, ComputesWhatPassesBetweenStagesOnlyWhereALaterResultIsMissing) {
  {
    data::Cache cache(scratch / "cache");
    Prepared first(model, cut({"dit"}), dataset(), cache);
  }
  model.runs.clear();
  model.loads.clear();
  {
    data::Cache cache(scratch / "cache");
    Prepared again(model, cut({"dit"}), dataset(), cache);
    EXPECT_TRUE(model.loads.empty()) << "nothing is loaded when nothing is missing";
  }
  metadata = scratch.write("metadata.csv", "image,prompt\n0.png,a\n1.png,new\n");
  {
    data::Cache cache(scratch / "cache");
    Prepared changed(model, cut({"dit"}), dataset(), cache);
    EXPECT_EQ(model.runs["body"], 1) << "for the new caption of one picture";
    EXPECT_EQ(model.runs["head"], 1);
  }
  model.head_settings = "second";
  data::Cache cache(scratch / "cache");
  Prepared other_head(model, cut({"dit"}), dataset(), cache);
  EXPECT_EQ(model.runs["head"], 3) << "another head: both rows";
}

TEST_F(PreparedTest, ATrainedHeadBehindAFrozenEncoderGetsTheGradientOfTheUnsplitRun) {
  auto c = cut({"encoder.head", "dit"});
  EXPECT_THAT(c.carried, ElementsAre("hidden"));
  data::Cache cache(scratch / "cache");
  Prepared prepared(model, c, dataset(), cache);
  EXPECT_EQ(model.runs["head"], 0);
  auto data = dataset();
  auto noise = at::linspace(-1, 1, 3).unsqueeze(0);
  auto gradient = [&](const pipeline::Units& units, pipeline::Values values) {
    values["noise"] = noise;
    values["prompt"] = data.prompt(1);
    model.weight = at::arange(1, 4, at::kFloat).set_requires_grad(true);
    pipeline::run(units, values);
    torch::autograd::backward({std::get<at::Tensor>(values.at("loss"))}, {});
    return model.weight.grad().clone();
  };
  auto split = gradient(c.live, prepared.values(1));
  auto whole = gradient(model.all_units(), {{"image", data.load(1).image_3HW.unsqueeze(0)}});
  EXPECT_TRUE(at::equal(split, whole));
  EXPECT_GT(whole.abs().sum().item<double>(), 0);
}

TEST_F(PreparedTest, SharesOfSeveralProcessesMakeTheWhole) {
  for (int64_t i = 0; i < 3; ++i) {
    data::Cache cache(scratch / "cache");
    Prepared part(model, cut({"dit"}), dataset(), cache, {3, i});
    EXPECT_EQ(part.num_complete() == 4, i == 2);
  }
  model.runs.clear();
  data::Cache cache(scratch / "cache");
  Prepared whole(model, cut({"dit"}), dataset(), cache);
  EXPECT_EQ(model.runs["head"], 0);
  EXPECT_EQ(whole.num_complete(), 4);
}

TEST_F(PreparedTest, AListFromTheCacheGivesTheSameValuesAndIsRefusedWhenIncomplete) {
  auto c = cut({"dit"});
  {
    data::Cache cache(scratch / "cache");
    Prepared(model, c, dataset(), cache).save_list();
  }
  data::Cache cache(scratch / "cache"), memory("");
  Prepared listed(cache, c.carried), computed(model, c, dataset(), memory);
  for (const auto& sample : computed.samples())
    EXPECT_TRUE(at::equal(std::get<at::Tensor>(listed.values(sample.row).at("tokens")),
                          std::get<at::Tensor>(computed.values(sample.row).at("tokens"))));
  EXPECT_THAT(test::error_of([&] { Prepared(cache, {"hidden"}); }), testing::HasSubstr("holds no 'hidden'"));
  for (const auto& item : std::filesystem::recursive_directory_iterator(scratch / "cache")) {
    if (item.path().extension() == ".safetensors") std::filesystem::remove(item.path());
  }
  data::Cache emptied(scratch / "cache");
  EXPECT_THAT(test::error_of([&] { Prepared(emptied, c.carried); }), testing::HasSubstr("4 of the 4 samples"));
}

TEST_F(PreparedTest, VariantsAreKeptUnderTheirOwnKeysAndListed) {
  auto c = cut({"encoder.head", "dit"});  // carries what the body makes of the picture
  for (int i = 0; i < 3; ++i) data::write_png(scratch / (std::to_string(i) + ".png"), at::randint(0, 256, {8, 8, 3}, at::kByte));
  data::Cache memory("");
  Prepared plain(model, c, dataset(), memory);
  EXPECT_EQ(model.runs["body"], 3);
  model.runs.clear();
  Prepared both(model, c, variants(2), memory);
  EXPECT_EQ(model.runs["body"], 3) << "of each pair, one is the picture as it is";
  EXPECT_EQ(both.num_variants(), 2);
  model.runs.clear();
  Prepared four(model, c, variants(4), memory);
  EXPECT_EQ(model.runs["body"], 0) << "equal cuts share a result";
  {
    data::Cache cache(scratch / "cache");
    Prepared(model, c, variants(2), cache).save_list();
  }
  data::Cache cache(scratch / "cache");
  Prepared listed(cache, c.carried);
  EXPECT_EQ(listed.num_variants(), 2);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t v = 0; v < 2; ++v)
      EXPECT_TRUE(
          at::equal(std::get<at::Tensor>(listed.values({row, v}).at("hidden")), std::get<at::Tensor>(both.values({row, v}).at("hidden"))));
  }
}

TEST_F(PreparedTest, TheEmptyCaptionTakesThePlaceOfOthers) {
  data::Cache cache("");
  auto units = model.all_units();
  pipeline::Units caption_first{{"caption", {"prompt"}, {"text"}, {}, [](pipeline::Scope& s) {
                                   s.write("text", at::full({1, 2}, static_cast<double>(s.text("prompt").size())));
                                 }}};
  caption_first.insert(caption_first.end(), units.begin(), units.end());
  caption_first.back().reads.push_back("text");
  auto c = pipeline::cut(caption_first, {"noise"}, {"dit"});
  Prepared prepared(model, c, dataset(), cache);
  auto number = [&](const train::Pick& pick, const char* name) {
    return std::get<at::Tensor>(prepared.values(pick).at(name)).sum().item<double>();
  };
  EXPECT_EQ(number({3}, "text"), 6);
  EXPECT_EQ(number({3, 0, true}, "text"), 0);
  EXPECT_EQ(number({3}, "tokens"), number({3, 0, true}, "tokens")) << "what depends on the picture too is the sample's own";
  EXPECT_THAT(test::error_of([&] { prepared.check_empty_caption(caption_first); }),
              testing::HasSubstr("needs the tokens of an empty caption"));
  c.carried = {"text"};
  Prepared text_only(model, {{caption_first[0]}, {}, {"text"}}, dataset(), cache);
  text_only.check_empty_caption(caption_first);
  std::vector<at::Tensor> texts;
  for (const auto& pick : {train::Pick{3}, train::Pick{3, 0, true}, train::Pick{0}})
    texts.push_back(std::get<at::Tensor>(text_only.values(pick).at("text")));
  auto batch = at::cat(texts, 0);
  EXPECT_TRUE(at::equal(batch, at::tensor({3.0f, 3.0f, 0.0f, 0.0f, 1.0f, 1.0f}).reshape({3, 2})));
}

TEST_F(PreparedTest, ValuesOfAnotherModelAreRefusedByTheirShape) {
  data::Cache cache("");
  Prepared prepared(model, cut({"dit"}), dataset(), cache);
  prepared.check_shapes({{"tokens", {-1, 3}}, {"other", {5}}});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{-1, 4}, {-1, -1, 3}, {3}})
    EXPECT_THAT(test::error_of([&] {
                  prepared.check_shapes({{"tokens", shape}});
                }),
                testing::HasSubstr("the tokens of row 0 in the cache"));
}

TEST(Visits, ChooseVariantAndCaptionByTheirOwnKeys) {
  int num_empty = 0;
  std::map<int64_t, int> variants;
  for (int64_t i = 0; i < 4000; ++i) {
    data::Visit visit{i % 50, i / 50, 0};
    auto a = train::pick(visit, 4, 0.1, 7), b = train::pick(visit, 4, 0.9, 7);
    EXPECT_EQ(a.row, visit.row);
    EXPECT_EQ(a.variant, b.variant) << "whatever the dropout";
    EXPECT_TRUE(b.empty_caption || !a.empty_caption);
    num_empty += a.empty_caption;
    ++variants[a.variant];
  }
  EXPECT_NEAR(num_empty, 400, 80);
  EXPECT_EQ(variants.size(), 4u);
  for (const auto& [variant, count] : variants) EXPECT_NEAR(count, 1000, 120) << variant;
  auto one = train::pick({3, 1, 0}, 1, 0, 7);
  EXPECT_TRUE(one.variant == 0 && !one.empty_caption);
  EXPECT_FALSE(at::equal(train::latent_noise({{3, 1, 0}}, {4}, 7), train::latent_noise({{3, 2, 0}}, {4}, 7)));
}
