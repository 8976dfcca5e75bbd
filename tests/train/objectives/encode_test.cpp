// Encoding samples unit by unit, with a model whose encoder, frozen or in part trained, stands in front of a head.
#include "train/samples/encode.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "data/image.h"
#include "data/resize.h"
#include "diffusion/flow_process.h"
#include "tests/rows.h"
#include "tests/scratch.h"
#include "train/objectives/objective_kind.h"
#include "train/samples/open_samples.h"
#include "train/samples/sample_list.h"

namespace burnish::encode_test {
using test::Scratch;
using testing::ElementsAre;
using train::Kept;

namespace {

/// body: image -> hidden; head: hidden, prompt -> tokens; denoiser: tokens, noise -> loss. Counts what runs and what is loaded at once.
class EncoderAndHead : public models::Model {
 public:
  EncoderAndHead() : Model({}, {.init = "random"}) {
    names_.experts = {{"dit"}};
    latent_space_ = models::picture_space(/*channels=*/1, /*spatial=*/4, /*patch=*/1);
    process_ = std::make_unique<diffusion::FlowProcess>(diffusion::FlowSamplerConfig{});
    components_.add({.name = "encoder",
                     .what = "encoder",
                     .source = {&entry_, {}, {}},
                     .build = [this](const std::string& part, const at::TensorOptions&) { return std::make_unique<Counted>(*this, part); },
                     .initialise = [](nn::Module&) {},
                     .settings = [this](const std::string& part) { return part == "encoder.head" ? head_settings : ""; }});
  }
  models::UnitGroups units_of(const models::Expert&) override {
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
    groups.denoise = {{"loss", {"tokens", "noise"}, {"loss"}, {"dit"}, [](pipeline::Scope& s) {
                         s.uses("dit");
                         s.write("loss", (s.tensor("tokens") - s.tensor("noise")).square().mean());
                       }}};
    return groups;
  }
  pipeline::Units all_units() {
    auto groups = units();
    return {groups.encode_image[0], groups.encode_prompt[0], groups.denoise[0]};
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

class EncodeTest : public testing::Test {
 protected:
  EncodeTest() {
    for (int i = 0; i < 3; ++i) data::write_png(scratch / (std::to_string(i) + ".png"), at::full({8, 8, 3}, 40 * i + 5, at::kByte));
    metadata = scratch.write("metadata.csv", "image,prompt\n0.png,a\n1.png,bb\n2.png,a\n2.png,ccc\n");
  }
  /// All rows, each picture in `num_variants` ways of which every other is mirrored.
  train::Samples samples(int64_t num_variants = 1) const {
    data::DatasetOptions o{.subsets = {{scratch.path(), metadata.string()}}};
    o.subsets[0].size.division = 4;
    if (num_variants > 1) o.subsets[0].augmentation = {.random_flip = true, .num_variants = num_variants};
    train::Samples samples;
    samples.inputs = std::make_shared<train::InputTable>(train::input_table());
    samples.pictures = std::make_unique<data::Dataset>(o);
    for (auto row : samples.pictures->rows()) samples.list.push_back({row, samples.pictures->extent(row), samples.pictures->row(row)});
    samples.num_variants = num_variants;
    samples.origins = samples.pictures->origins();
    return samples;
  }
  pipeline::Schedule schedule(const std::set<std::string>& trained) { return scheduled(model.all_units(), trained); }
  static pipeline::Schedule scheduled(const pipeline::Units& units, const std::set<std::string>& trained) {
    return pipeline::schedule(units, train::input_table().labels(), trained, {{}, false});
  }
  Kept encode(const pipeline::Schedule& schedule, const train::Samples& samples, data::Cache& cache, train::Portion portion = {}) {
    return train::encode(model, schedule, samples, cache, portion);
  }
  static at::Tensor value(const Kept& kept, const train::Pick& pick, const char* name) {
    return std::get<at::Tensor>(kept.values(pick, {name}).at(name));
  }
  Scratch scratch;
  std::filesystem::path metadata;
  EncoderAndHead model;
};

}  // namespace

TEST_F(EncodeTest, RunsEachUnitOnceForEachDistinctInputWithOneModelLoaded) {
  data::Cache cache("");
  auto c = schedule({"dit"});
  EXPECT_THAT(c.once.kept, ElementsAre("tokens"));
  auto kept = encode(c, samples(), cache);
  EXPECT_EQ(model.runs["body"], 3) << "three pictures in four rows";
  EXPECT_EQ(model.runs["head"], 4);
  EXPECT_THAT(model.loads, ElementsAre("encoder.body", "encoder.head"));
  EXPECT_EQ(model.most_loaded, 1);
  EXPECT_EQ(model.num_loaded, 0);
  EXPECT_TRUE(at::allclose(value(kept, {3}, "tokens") - value(kept, {2}, "tokens"), at::full({1, 3}, 2.0)))
      << "the same picture with a caption longer by two";
  EXPECT_EQ(kept.by_row.at(0).front().size(), 1u) << "only what a later unit reads";
}

TEST_F(EncodeTest, ComputesWhatPassesBetweenUnitsOnlyWhereALaterResultIsMissing) {
  {
    data::Cache cache(scratch / "cache");
    encode(schedule({"dit"}), samples(), cache);
  }
  model.runs.clear();
  model.loads.clear();
  {
    data::Cache cache(scratch / "cache");
    encode(schedule({"dit"}), samples(), cache);
    EXPECT_TRUE(model.loads.empty()) << "nothing is loaded when nothing is missing";
  }
  metadata = scratch.write("metadata.csv", "image,prompt\n0.png,a\n1.png,new\n");
  {
    data::Cache cache(scratch / "cache");
    encode(schedule({"dit"}), samples(), cache);
    EXPECT_EQ(model.runs["body"], 1) << "for the new caption of one picture";
    EXPECT_EQ(model.runs["head"], 1);
  }
  model.head_settings = "second";
  data::Cache cache(scratch / "cache");
  encode(schedule({"dit"}), samples(), cache);
  EXPECT_EQ(model.runs["head"], 3) << "another head: both rows";
}

TEST_F(EncodeTest, ATrainedHeadBehindAFrozenEncoderGetsTheGradientOfTheUnsplitRun) {
  auto c = schedule({"encoder.head", "dit"});
  EXPECT_THAT(c.once.kept, ElementsAre("hidden"));
  data::Cache cache(scratch / "cache");
  auto data = samples();
  auto kept = encode(c, data, cache);
  EXPECT_EQ(model.runs["head"], 0);
  auto noise = at::linspace(-1, 1, 3).unsqueeze(0);
  auto gradient = [&](const pipeline::Units& units, pipeline::Values values) {
    values["noise"] = noise;
    values["prompt"] = data.at(1).row.prompt;
    model.weight = at::arange(1, 4, at::kFloat).set_requires_grad(true);
    pipeline::run(units, values);
    torch::autograd::backward({std::get<at::Tensor>(values.at("loss"))}, {});
    return model.weight.grad().clone();
  };
  auto split = gradient(c.live.units, kept.values({1}, {"hidden"}));
  auto whole = gradient(model.all_units(), {{"image", data::to_model_range(test::read_target(*data.pictures, 1)).unsqueeze(0)}});
  EXPECT_TRUE(at::equal(split, whole));
  EXPECT_GT(whole.abs().sum().item<double>(), 0);
}

TEST_F(EncodeTest, SharesOfSeveralProcessesMakeTheWhole) {
  for (int64_t i = 0; i < 3; ++i) {
    data::Cache cache(scratch / "cache");
    auto part = encode(schedule({"dit"}), samples(), cache, {3, i});
    EXPECT_EQ(part.num_complete() == 4, i == 2);
  }
  model.runs.clear();
  data::Cache cache(scratch / "cache");
  auto whole = encode(schedule({"dit"}), samples(), cache);
  EXPECT_EQ(model.runs["head"], 0);
  EXPECT_EQ(whole.num_complete(), 4);
}

TEST_F(EncodeTest, AListFromTheCacheGivesTheSameValuesAndIsRefusedWhenIncomplete) {
  auto c = schedule({"dit"});
  auto data = samples();
  {
    data::Cache cache(scratch / "cache");
    train::save_list(cache, data, encode(c, data, cache));
  }
  data::Cache cache(scratch / "cache"), memory("");
  auto listed = train::read_list(cache, c.once.kept);
  auto computed = encode(c, data, memory);
  EXPECT_EQ(listed.samples.list.size(), 4u);
  EXPECT_EQ(listed.samples.at(3).row.prompt, "ccc");
  for (const auto& sample : data.list)
    EXPECT_TRUE(at::equal(value(listed.kept, {sample.number}, "tokens"), value(computed, {sample.number}, "tokens")));
  EXPECT_THAT(test::error_of([&] { train::read_list(cache, {"hidden"}); }), testing::HasSubstr("holds no 'hidden'"));
  for (const auto& item : std::filesystem::recursive_directory_iterator(scratch / "cache")) {
    if (item.path().extension() == ".safetensors") std::filesystem::remove(item.path());
  }
  data::Cache emptied(scratch / "cache");
  EXPECT_THAT(test::error_of([&] { train::read_list(emptied, c.once.kept); }), testing::HasSubstr("4 of the 4 samples"));
}

TEST_F(EncodeTest, VariantsAreKeptUnderTheirOwnKeysAndListed) {
  auto c = schedule({"encoder.head", "dit"});  // keeps what the body makes of the picture
  for (int i = 0; i < 3; ++i) data::write_png(scratch / (std::to_string(i) + ".png"), at::randint(0, 256, {8, 8, 3}, at::kByte));
  data::Cache memory("");
  encode(c, samples(), memory);
  EXPECT_EQ(model.runs["body"], 3);
  model.runs.clear();
  auto both = encode(c, samples(2), memory);
  EXPECT_EQ(model.runs["body"], 3) << "of each pair, one is the picture as it is";
  model.runs.clear();
  encode(c, samples(4), memory);
  EXPECT_EQ(model.runs["body"], 0) << "equal cuts share a result";
  {
    data::Cache cache(scratch / "cache");
    auto data = samples(2);
    train::save_list(cache, data, encode(c, data, cache));
  }
  data::Cache cache(scratch / "cache");
  auto listed = train::read_list(cache, c.once.kept);
  EXPECT_EQ(listed.samples.num_variants, 2);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t v = 0; v < 2; ++v) EXPECT_TRUE(at::equal(value(listed.kept, {row, v}, "hidden"), value(both, {row, v}, "hidden")));
  }
}

TEST_F(EncodeTest, TheEmptyCaptionTakesThePlaceOfOthers) {
  data::Cache cache("");
  auto units = model.all_units();
  pipeline::Units caption_first{{"caption", {"prompt"}, {"text"}, {}, [](pipeline::Scope& s) {
                                   s.write("text", at::full({1, 2}, static_cast<double>(s.text("prompt").size())));
                                 }}};
  caption_first.insert(caption_first.end(), units.begin(), units.end());
  caption_first.back().reads.push_back("text");
  auto c = scheduled(caption_first, {"dit"});
  auto kept = encode(c, samples(), cache);
  auto number = [&](const train::Pick& pick, const char* name) { return value(kept, pick, name).sum().item<double>(); };
  EXPECT_EQ(number({3}, "text"), 6);
  EXPECT_EQ(number({3, 0, true}, "text"), 0);
  EXPECT_EQ(number({3}, "tokens"), number({3, 0, true}, "tokens")) << "what depends on the picture too is the sample's own";
  EXPECT_THAT(test::error_of([&] { check_empty_caption(kept, c, train::input_table()); }),
              testing::HasSubstr("needs the tokens of an empty caption"));

  auto text_only = scheduled({caption_first[0], {"loss", {"text", "noise"}, {"loss"}, {"dit"}, [](pipeline::Scope&) {}}}, {"dit"});
  check_empty_caption(encode(text_only, samples(), cache), text_only, train::input_table());
}

TEST_F(EncodeTest, ValuesOfAnotherModelAreRefusedByTheirShape) {
  data::Cache cache("");
  auto data = samples();
  auto kept = encode(schedule({"dit"}), data, cache);
  train::Listed listed{std::move(data), kept};
  train::check_shapes(listed, {{"tokens", {-1, 3}}, {"other", {5}}}, {"tokens"});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{-1, 4}, {-1, -1, 3}, {3}})
    EXPECT_THAT(test::error_of([&] {
                  train::check_shapes(listed, {{"tokens", shape}}, {"tokens"});
                }),
                testing::HasSubstr("the tokens of row 0 in the cache"));
}

}  // namespace burnish::encode_test
