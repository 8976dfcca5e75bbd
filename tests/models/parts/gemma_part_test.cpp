// A Gemma among a run's files: how it is told from a Qwen, what its names are, and where its tokenizer lies.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include "io/files.h"
#include "io/safetensors.h"
#include "models/parts/find_components.h"
#include "models/parts/shared_components.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tokenizers/gemma.h"

using namespace burnish;
using namespace burnish::models;
namespace fs = std::filesystem;

namespace {

class GemmaPart : public testing::Test {
 protected:
  /// The golden encoder's weights under its own names as a file of these and further tensors, in a folder of its own.
  ModelFiles files_with(const io::NamedTensors& more = {}) const {
    auto tensors = more;
    const auto golden = test::golden("gemma_4.safetensors"), weights = golden.below("w.");
    for (const auto& name : weights.names()) tensors.emplace_back(name, weights.tensor(name));
    io::save_safetensors(scratch_ / "gemma.safetensors", tensors);
    ModelFiles files;
    files.entries.emplace_back();
    files.entries[0].label = "gemma.safetensors";
    files.entries[0].folder = scratch_.path();
    files.entries[0].config = nlohmann::json::parse(golden.metadata().at("config"));
    files.entries[0].tensors = io::TensorSource::open({scratch_ / "gemma.safetensors"});
    return files;
  }
  /// The ids of a text by the tokenizer that belongs to the files.
  std::vector<int64_t> ids(const ModelFiles& files) const {
    const auto source = find_gemma(files, {""});
    const ModelOptions options;
    const auto part = gemma_part(source, source.read(text::gemma_config), {.length = 1024}, files, options);
    const auto& tokenizer = *part.recipe.tokenizer;
    return tokenizer.load(tokenizer.folder())->encode("red apple");
  }
  static io::NamedTensors carried(const std::string& name, const std::string& file) {
    auto bytes = io::read_text(kTokenizers / file);
    return {{name, at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte).clone()}};
  }

  inline static const fs::path kTokenizers = test::golden_path("tokenizers");
  const std::vector<int64_t> expected_ = tokenizers::load_gemma(kTokenizers / "gemma")->encode("red apple");
  test::Scratch scratch_;
};

}  // namespace

TEST_F(GemmaPart, IsNoQwenThoughItsQueriesHaveNorms) {
  const auto files = files_with();
  EXPECT_NE(find_gemma(files, {""}).entry, nullptr);
  EXPECT_EQ(find_qwen(files, {""}, kQwen3Mark).entry, nullptr);
  EXPECT_EQ(find_mistral(files, {""}, {}).entry, nullptr);
  ModelFiles qwen;
  qwen.entries.emplace_back();
  qwen.entries[0].tensors = test::golden("qwen_3.safetensors").below("w.");
  EXPECT_EQ(find_gemma(qwen, {""}).entry, nullptr);
  EXPECT_NE(find_qwen(qwen, {""}, kQwen3Mark).entry, nullptr);
}

TEST_F(GemmaPart, ItsTokenizerMayBeCarriedInItsFile) {
  EXPECT_EQ(ids(files_with(carried("spiece_model", "gemma/tokenizer.model"))), expected_);
  EXPECT_EQ(ids(files_with(carried("tokenizer_json", "gemma_json/tokenizer.json"))), expected_);
}

TEST_F(GemmaPart, ItsTokenizerMayLieBesideItsWeightsOrInAPipeline) {
  auto files = files_with();
  EXPECT_NE(test::error_of([&] { ids(files); }).find("no Gemma tokenizer"), std::string::npos);
  fs::copy(kTokenizers / "gemma_json/tokenizer.json", scratch_ / "tokenizer.json");
  EXPECT_EQ(ids(files), expected_);
  fs::remove(scratch_ / "tokenizer.json");
  fs::create_directories(scratch_ / "pipeline/tokenizer");
  fs::copy(kTokenizers / "gemma/tokenizer.model", scratch_ / "pipeline/tokenizer/tokenizer.model");
  files.pipeline_folders = {scratch_ / "pipeline"};
  EXPECT_EQ(ids(files), expected_);
}

TEST_F(GemmaPart, HasTheNamesOfTransformersInAFolder) {
  const auto files = files_with();
  const auto source = find_gemma(files, {""});
  const auto config = source.read(text::gemma_config);
  const auto part = gemma_part(source, config, {.comfyui = "text_encoders.gemma."}, files, {});
  EXPECT_EQ(part.names.folder_file.keys.to_ours("model.language_model.layers.2.layer_scalar").ours,
            std::vector<std::string>{"layers.2.layer_scalar"});
  EXPECT_EQ(part.names.single_file.keys.to_ours("model.layers.2.mlp.up_proj.weight").ours,
            std::vector<std::string>{"layers.2.mlp.up_proj.weight"});
  const auto module = part.recipe.build("text_encoder", at::TensorOptions().device(at::kMeta));
  EXPECT_EQ(module->parameters().size(), source.shapes().size());
}
