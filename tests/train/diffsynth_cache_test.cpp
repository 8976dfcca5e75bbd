// Caches of DiffSynth-Studio for every family, beside the numbers that they were made of (tests/golden/make_diffsynth_caches.py).
#include "train/samples/diffsynth_cache.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "io/files.h"
#include "models/family.h"
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

struct Cached {
  const char* name;      ///< of the files
  const char* pipeline;  ///< whose model reads them
  size_t num_values;
};

/// What a cache of that one file holds, under the names that are to be carried.
pipeline::Values read(const std::string& name, const std::string& pipeline, const std::vector<std::string>& carried) {
  test::Scratch scratch;
  fs::create_directories(scratch / "0");
  fs::copy_file(test::golden_path("diffsynth_caches/" + name + ".pth"), scratch / "0/0.pth");
  data::Cache cache(scratch / "cache");
  auto listed = import_diffsynth(scratch / "0", carried, values_of(pipeline), {}, cache);
  EXPECT_EQ(listed.samples.list.at(0).extent, (Extent{.height = 48, .width = 64}));
  return listed.kept.values({0}, carried);
}

class DiffsynthCache : public testing::TestWithParam<Cached> {};

TEST_P(DiffsynthCache, IsReadToTheBit) {
  const auto& given = GetParam();
  auto golden = test::golden("diffsynth_caches/" + std::string(given.name) + ".safetensors");
  std::map<std::string, std::vector<at::Tensor>> expected;
  for (const auto& name : golden.names()) expected[name.substr(0, name.find('.'))].push_back(golden.tensor(name));
  ASSERT_EQ(expected.size(), given.num_values);
  std::vector<std::string> carried;
  for (const auto& [name, tensors] : expected) carried.push_back(name);

  for (const auto& [name, value] : read(given.name, given.pipeline, carried)) {
    auto is_list = std::holds_alternative<pipeline::TensorLists>(value);
    auto found = is_list ? std::get<pipeline::TensorLists>(value).at(0) : std::vector<at::Tensor>{std::get<at::Tensor>(value)};
    EXPECT_EQ(is_list, name == "latents_of_references") << name;
    ASSERT_EQ(found.size(), expected[name].size()) << name;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[name][i])) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DiffsynthCache,
                         testing::Values(Cached{"zimage", "zimage_pipeline", 3}, Cached{"flux2", "flux2_pipeline", 2},
                                         Cached{"flux2_references", "flux2_pipeline", 3}, Cached{"kontext", "pipeline", 4},
                                         Cached{"qwen_edit", "qwen_edit_pipeline", 4}, Cached{"qwen_edit_one", "qwen_edit_pipeline", 4},
                                         Cached{"sd15", "sd15_pipeline", 2}, Cached{"sdxl", "sdxl_pipeline", 5}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DiffsynthCaches, OfASampleWithoutReferencesHaveAnEmptyList) {
  auto values = read("flux2", "flux2_pipeline", {"latents_of_references"});
  EXPECT_TRUE(std::get<pipeline::TensorLists>(values.at("latents_of_references")).at(0).empty());
}

TEST(DiffsynthCaches, AreRefusedWhereWhatTheyHoldWouldNotBeRead) {
  for (const auto& [name, pipeline, their] : {std::tuple("flux2_references", "flux2_pipeline", "edit_latents"),
                                              {"kontext", "pipeline", "kontext_latents"},
                                              {"qwen_edit", "qwen_edit_pipeline", "edit_latents"}}) {
    EXPECT_THAT(test::error_of([&] { read(name, pipeline, {"latents"}); }, Exit::config),
                AllOf(HasSubstr(their), HasSubstr("extra_inputs")))
        << name;
  }
  EXPECT_THAT(test::error_of([&] { read("zimage", "pipeline", {"pooled_embedding"}); }), HasSubstr("pooled_prompt_emb"));
}

}  // namespace
