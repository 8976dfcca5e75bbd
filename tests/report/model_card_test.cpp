// The folder of a model card: front matter that hubs read, weights under the name that diffusers looks for, the last previews.
#include "report/model_card.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/report/fake_run.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using testing::HasSubstr;
using testing::Not;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Card : public testing::Test {
 protected:
  Card() {
    test::make_run(folder / "run", 2);
    test::draw_preview(folder / "run", 2, "a \"cat\": one\nof clay");
    card.title = "Clay";
    card.base_title = "FLUX.1-dev";
    card.base_id = "black-forest-labs/FLUX.1-dev";
    card.pipeline_tag = "text-to-image";
    card.weights = {folder.write("step-2.safetensors", "weights")};
    card.for_diffusers = true;
    card.run = folder / "run";
  }
  std::string written(size_t most = 8, bool overwrite = false) {
    report::write_model_card(folder / "card", card, most, overwrite);
    return text_of(folder / "card/README.md");
  }

  test::Scratch folder;
  report::ModelCard card;
};

}  // namespace

TEST_F(Card, HasWhatHubsRead) {
  card.trigger = "clay cat";
  card.license = "cc-by-4.0";
  card.facts = {{"steps", "2"}};
  const auto readme = written();
  EXPECT_TRUE(readme.starts_with("---\ntags:\n- \"text-to-image\"\n- \"lora\"\n- \"diffusers\"\n"));
  for (const char* line :
       {"\nbase_model: \"black-forest-labs/FLUX.1-dev\"\nbase_model_relation: adapter\n", "\ninstance_prompt: \"clay cat\"\n",
        "\nlicense: \"cc-by-4.0\"\n", "\n- text: \"a \\\"cat\\\": one\\nof clay\"\n  output:\n    url: \"samples/00.png\"\n",
        "weight_name=\"pytorch_lora_weights.safetensors\"", "| steps | 2 |"})
    EXPECT_THAT(readme, HasSubstr(line));
  EXPECT_EQ(text_of(folder / "card/pytorch_lora_weights.safetensors"), "weights");
  EXPECT_EQ(text_of(folder / "card/samples/00.png"), text_of(folder / "run/samples/step-000002/00.png")) << "the last, and not the first";
}

TEST_F(Card, LeavesOutWhatIsNotKnown) {
  card.base_id = "";
  card.for_diffusers = false;
  const auto readme = written(0);
  for (const char* word : {"base_model:", "instance_prompt", "license:", "widget:", "<Gallery", "load_lora_weights"})
    EXPECT_THAT(readme, Not(HasSubstr(word)));
  EXPECT_TRUE(std::filesystem::exists(folder / "card/step-2.safetensors")) << "diffusers does not look for it";
  EXPECT_FALSE(std::filesystem::exists(folder / "card/samples"));
}

TEST_F(Card, NamesTheFilesOfWords) {
  card.words = {{"<cat>", folder.write("step-2.embedding.cat.safetensors", "vectors")}};
  auto readme = written();
  EXPECT_THAT(readme, HasSubstr("| `<cat>` | `step-2.embedding.cat.safetensors` |"));
  EXPECT_THAT(readme, HasSubstr("load_lora_weights"));
  EXPECT_EQ(text_of(folder / "card/step-2.embedding.cat.safetensors"), "vectors");
  card.weights.clear();
  card.kind = "textual_inversion";
  readme = written(8, true);
  EXPECT_THAT(readme, HasSubstr("\nTextual inversion over [FLUX.1-dev]"));
  EXPECT_THAT(readme, Not(HasSubstr("LoRA")));
}

TEST_F(Card, ReplacesACardAloneAndWhenAsked) {
  written();
  EXPECT_THAT(error_of([&] { written(); }, Exit::config), HasSubstr("--overwrite"));
  card.title = "Other";
  EXPECT_THAT(written(8, true), HasSubstr("# Other"));
  std::filesystem::create_directories(folder / "mine");
  EXPECT_THAT(error_of([&] { report::write_model_card(folder / "mine", card, 8, true); }, Exit::config), HasSubstr("no model card"));
  card.weights = {folder / "nowhere.safetensors"};
  EXPECT_THAT(error_of([&] { report::write_model_card(folder / "third", card, 8, false); }), HasSubstr("cannot be written"));
  EXPECT_FALSE(std::filesystem::exists(folder / "third")) << "nothing is left of it";
}
