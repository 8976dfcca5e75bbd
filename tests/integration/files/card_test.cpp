// What files of weights say of themselves to programs that list models, and `burnish card`.
#include <gmock/gmock.h>

#include "io/hash.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

io::Metadata metadata_of(const fs::path& file) { return io::SafetensorsFile::open(file)->metadata(); }

class CardVerb : public testing::Test {
 protected:
  CardVerb() {
    folder.write("prompts.txt", "red apple\n");
    const auto out = run_burnish("train " + golden_model() + golden_data() +
                                 "--max_steps 2 --lora_rank 2 --trigger_word zwx --metadata_author Ann --preview_num_inference_steps 1 " +
                                 option("preview_prompts", folder / "prompts.txt") + option("output_path", folder / "run"));
    EXPECT_EQ(out.exit_code, 0) << out.output;
  }
  Scratch folder;
};

}  // namespace

TEST_F(CardVerb, FilesSayWhatProgramsSortThemBy) {
  auto said = metadata_of(folder / "run/step-2.safetensors");
  const io::Metadata expected{{"modelspec.sai_model_spec", "1.0.1"},
                              {"modelspec.architecture", "flux-1-dev/lora"},
                              {"modelspec.implementation", "https://github.com/black-forest-labs/flux"},
                              {"modelspec.author", "Ann"},
                              {"modelspec.trigger_phrase", "zwx"},
                              {"ss_base_model_version", "flux1"},
                              {"ss_network_module", "networks.lora"},
                              {"ss_network_dim", "2"},
                              {"ss_steps", "2"},
                              {"ss_epoch", "1"}};
  for (const auto& [key, value] : expected) EXPECT_EQ(said[key], value) << key;
  const auto tags = nlohmann::json::parse(said["ss_tag_frequency"]).at("dataset 1");
  EXPECT_EQ(tags.at("zwx red apple"), 2) << tags;
  io::NamedTensors tensors;
  auto file = io::SafetensorsFile::open(folder / "run/step-2.safetensors");
  for (const auto& [name, info] : file->tensors()) tensors.emplace_back(name, file->tensor(name));
  EXPECT_EQ(said["sshs_model_hash"], io::tensors_sha256(tensors));
  const auto bytes = read_file(folder / "run/step-2.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(said["modelspec.hash_sha256"], "0x" + io::sha256(std::string_view(bytes).substr(8 + header)));
}

TEST_F(CardVerb, WritesTheFolderOfAHub) {
  auto out = run_burnish("card " + quoted(folder / "run") + " --license mit");
  EXPECT_EQ(out.exit_code, 0) << out.output;
  const auto readme = read_file(folder / "run/card/README.md");
  for (const char* line : {"base_model: \"black-forest-labs/FLUX.1-dev\"", "instance_prompt: \"zwx\"", "license: \"mit\"",
                           "- text: \"red apple\"", "| rank | 2 |"})
    EXPECT_THAT(readme, HasSubstr(line));
  EXPECT_EQ(read_file(folder / "run/card/pytorch_lora_weights.safetensors"), read_file(folder / "run/step-2.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "run/card/samples/00.png"));
}

TEST_F(CardVerb, RefusesInOneSentence) {
  fs::create_directories(folder / "empty");
  const std::vector<std::tuple<std::string, int, std::string>> refused{
      {"", 2, "no run given"},
      {quoted(folder / "empty"), 3, "holds no config.toml"},
      {quoted(folder / "run") + " --output " + quoted(folder / "empty"), 2, "no model card"}};
  for (const auto& [arguments, code, words] : refused) {
    auto out = run_burnish("card " + arguments);
    EXPECT_EQ(out.exit_code, code) << out.output;
    EXPECT_THAT(out.output, HasSubstr(words));
  }
}
