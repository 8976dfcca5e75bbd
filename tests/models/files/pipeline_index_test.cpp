// What lists the components of a diffusers folder.
#include "models/files/pipeline_index.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;

TEST(PipelineIndex, ListsComponentsWithoutSettings) {
  auto found = components_in(nlohmann::json::parse(R"({"_class_name": "APipeline", "is_distilled": false, "layers": [1, 2],
    "transformer": ["diffusers", "ATransformer"], "tokenizer": ["transformers", "ATokenizer"], "text_processor": ["transformers", "AProcessor"]})"));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "text_processor");
  EXPECT_EQ(found[1].name, "tokenizer");
  for (size_t i : {0, 1}) EXPECT_TRUE(found[i].is_processor());
  EXPECT_FALSE(found[2].is_processor());
  EXPECT_EQ(found[2].folder, "transformer");
  EXPECT_EQ(found[2].class_name, "ATransformer");
  EXPECT_FALSE(found[2].may_lie_elsewhere);
}

TEST(PipelineIndex, OfAModularPipelineSaysWhereComponentsLie) {
  auto found = components_in(nlohmann::json::parse(R"({"_blocks_class_name": "Blocks",
    "tokenizer": ["transformers", "AutoProcessor", {"pretrained_model_name_or_path": "author/model", "subfolder": "text_encoder"}],
    "upsampler": [null, null, {"pretrained_model_name_or_path": "author/other", "subfolder": ""}],
    "vae": ["diffusers", "AutoencoderKLFlux2", {"pretrained_model_name_or_path": "author/model", "subfolder": null}]})"));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].folder, "text_encoder");
  EXPECT_EQ(found[1].folder, "upsampler");
  EXPECT_EQ(found[1].class_name, "");
  EXPECT_EQ(found[2].folder, "vae");
  for (const auto& component : found) EXPECT_EQ(component.may_lie_elsewhere, component.name == "upsampler");
}

TEST(PipelineIndex, OfAPipelineComesBeforeThatOfItsBlocks) {
  test::Scratch scratch;
  EXPECT_FALSE(index_in(scratch.path()));
  std::ofstream(scratch / "modular_model_index.json") << "{}";
  EXPECT_EQ(index_in(scratch.path())->filename(), "modular_model_index.json");
  std::ofstream(scratch / "model_index.json") << "{}";
  EXPECT_EQ(index_in(scratch.path())->filename(), "model_index.json");
}
