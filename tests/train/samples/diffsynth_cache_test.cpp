// Caches of DiffSynth-Studio for every family, beside the numbers that they were made of (tests/golden/make_diffsynth_caches.py).
#include "train/samples/diffsynth_cache.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "io/files.h"
#include "models/families/wan/diffsynth_cache.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::train;
using testing::AllOf;
using testing::HasSubstr;

namespace {

namespace fs = std::filesystem;

std::map<std::string, models::DiffsynthValue> values_of(const std::string& pipeline) {
  auto folder = test::golden_path(pipeline + "/model");
  return models::open_model(models::open_model_files({{folder}, "", ""}), {})->names().diffsynth_values();
}

/// Of clips 48 wide and 32 high, of five frames.
bool is_clip(const std::string& name) { return name.starts_with("wan"); }

struct Cached {
  const char* name;      ///< of the files
  const char* pipeline;  ///< whose model reads them
  size_t num_values;
};

using Theirs = std::map<std::string, models::DiffsynthValue>;

/// What a cache of that one file holds, under the names that are to be carried.
pipeline::Values read(const std::string& name, const Theirs& theirs, const std::vector<std::string>& carried) {
  test::Scratch scratch;
  fs::create_directories(scratch / "0");
  fs::copy_file(test::golden_path("diffsynth_caches/" + name + ".pth"), scratch / "0/0.pth");
  data::Cache cache(scratch / "cache");
  auto listed = import_diffsynth(scratch / "0", carried, theirs, {}, cache);
  const Extent expected = is_clip(name)            ? Extent{.frames = 5, .height = 32, .width = 48}
                          : name == "qwen_layered" ? Extent{.frames = 3, .height = 48, .width = 64}
                                                   : Extent{.height = 48, .width = 64};
  EXPECT_EQ(listed.samples.list.at(0).extent, expected);
  return listed.kept.values({0}, carried);
}

pipeline::Values read(const std::string& name, const std::string& pipeline, const std::vector<std::string>& carried) {
  return read(name, values_of(pipeline), carried);
}

void expect_read_to_the_bit(const std::string& name, const Theirs& theirs, size_t num_values) {
  auto golden = test::golden("diffsynth_caches/" + name + ".safetensors");
  std::map<std::string, std::vector<at::Tensor>> expected;
  for (const auto& full : golden.names()) expected[full.substr(0, full.find('.'))].push_back(golden.tensor(full));
  ASSERT_EQ(expected.size(), num_values);
  std::vector<std::string> carried;
  for (const auto& [value, tensors] : expected) carried.push_back(value);

  for (const auto& [own, value] : read(name, theirs, carried)) {
    auto is_list = std::holds_alternative<pipeline::TensorLists>(value);
    auto found = is_list ? std::get<pipeline::TensorLists>(value).at(0) : std::vector<at::Tensor>{std::get<at::Tensor>(value)};
    EXPECT_EQ(is_list, own == "latents_of_references" || own == "text_between") << own;
    ASSERT_EQ(found.size(), expected[own].size()) << own;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[own][i])) << own << " " << i;
  }
}

class DiffsynthCache : public testing::TestWithParam<Cached> {};

TEST_P(DiffsynthCache, IsReadToTheBit) {
  const auto& given = GetParam();
  expect_read_to_the_bit(given.name, values_of(given.pipeline), given.num_values);
}

INSTANTIATE_TEST_SUITE_P(Families, DiffsynthCache,
                         testing::Values(Cached{"zimage", "zimage_pipeline", 3}, Cached{"flux2", "flux2_pipeline", 2},
                                         Cached{"flux2_references", "flux2_pipeline", 3}, Cached{"kontext", "pipeline", 4},
                                         Cached{"qwen_edit", "qwen_edit_pipeline", 4}, Cached{"qwen_edit_one", "qwen_edit_pipeline", 4},
                                         Cached{"sd15", "sd15_pipeline", 2}, Cached{"sdxl", "sdxl_pipeline", 5},
                                         Cached{"wan", "wan_pipeline", 3}, Cached{"flux3", "flux3_pipeline", 4},
                                         Cached{"anima", "anima_pipeline", 5}, Cached{"ernie_image", "ernie_image_pipeline", 3},
                                         Cached{"moss_image", "moss_image_pipeline", 3}, Cached{"ideogram4", "ideogram4_pipeline", 3},
                                         Cached{"fibo2", "fibo2_pipeline", 4}, Cached{"qwen_layered", "qwen_layered_pipeline", 4},
                                         Cached{"qwen_image_21", "qwen_image_21_pipeline", 3},
                                         Cached{"qwen_image_21_edit", "qwen_image_21_pipeline", 5}, Cached{"boogu", "boogu_pipeline", 3},
                                         Cached{"boogu_edit", "boogu_pipeline", 4}),
                         [](const auto& info) { return std::string(info.param.name); });

/// LongCat-Video's caches are made by the same script as Wan's.
TEST(DiffsynthCaches, OfLongCatVideoAreReadToTheBit) { expect_read_to_the_bit("wan", values_of("longcat_video_pipeline"), 3); }

/// Values of models of clips that read more than a text, as their caches hold them.
TEST(DiffsynthCaches, OfClipsAreReadToTheBit) {
  const auto of_model = [](const std::vector<std::string>& values, const models::wan::Config& dit = {}) {
    models::Names names;
    names.values["latents"] = {.shape = {}, .diffsynth = {"input_latents"}};
    for (const auto& value : values) names.values[value] = {};
    models::wan::add_diffsynth_values(names, dit);
    return names.diffsynth_values();
  };
  const std::string text = "text_embedding", counts = "text_counts", beside = "beside_latents", states = "image_states";
  expect_read_to_the_bit("wan_image", of_model({text, counts, beside, states}), 5);
  expect_read_to_the_bit("wan_control", of_model({text, counts, beside, states, "control_latents"}, {.in_channels = 52}), 6);
  expect_read_to_the_bit("wan_vace", of_model({text, counts, "vace_context"}), 4);
  expect_read_to_the_bit("wan_held", of_model({text, counts, "first_latents"}, {.in_channels = 6, .out_channels = 6}), 4);
}

/// A model with fewer channels beside a clip that controls was given no mask there.
TEST(DiffsynthCaches, OfClipsHaveZerosForAMaskThatIsNotThere) {
  models::Names names;
  names.values["beside_latents"] = names.values["control_latents"] = {};
  models::wan::add_diffsynth_values(names, {.in_channels = 48});
  auto y = at::arange(32, at::kFloat).view({1, 32, 1, 1, 1});
  const auto find = [&](const std::string&) { return std::vector{y}; };
  const auto theirs = names.diffsynth_values();
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(theirs.at("control_latents").make(find)), y.narrow(1, 0, 16)));
  const auto beside = std::get<at::Tensor>(theirs.at("beside_latents").make(find));
  EXPECT_TRUE(at::equal(beside.narrow(1, 4, 16), y.narrow(1, 16, 16)));
  EXPECT_FALSE(beside.narrow(1, 0, 4).any().item<bool>());
}

TEST(DiffsynthCaches, OfASampleWithoutReferencesHaveAnEmptyList) {
  auto values = read("flux2", "flux2_pipeline", {"latents_of_references"});
  EXPECT_TRUE(std::get<pipeline::TensorLists>(values.at("latents_of_references")).at(0).empty());
}

TEST(DiffsynthCaches, AreRefusedWhereWhatTheyHoldWouldNotBeRead) {
  for (const auto& [name, pipeline, their] : {std::tuple("flux2_references", "flux2_pipeline", "edit_latents"),
                                              {"kontext", "pipeline", "kontext_latents"},
                                              {"flux3", "flux3_pipeline", "reference_tokens"},
                                              {"qwen_edit", "qwen_edit_pipeline", "edit_latents"}}) {
    EXPECT_THAT(test::error_of([&] { read(name, pipeline, {"latents"}); }, Exit::config),
                AllOf(HasSubstr(their), HasSubstr("extra_inputs")))
        << name;
  }
  EXPECT_THAT(test::error_of([&] { read("zimage", "pipeline", {"pooled_embedding"}); }), HasSubstr("pooled_prompt_emb"));
}

}  // namespace
