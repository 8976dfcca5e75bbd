// Which tensors of a file are vectors of a word, and of which one: files that torch.save wrote (tests/golden/make_embedding_files.py).
#include "loras/embedding_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/golden.h"

using namespace burnish;

namespace {

/// The names of vectors by what is left of them, each of which must be the golden ones.
std::map<std::string, std::string> vectors_of(const std::string& name) {
  const auto path = test::golden_path("embedding_files/" + name + ".pt");
  auto source = io::TensorSource::open({path});
  std::map<std::string, std::string> found;
  for (const auto& tensor : loras::word_tensors(source, path)) {
    EXPECT_EQ(tensor.word, name) << "what the file is called";
    EXPECT_FALSE(tensor.are_states);
    EXPECT_TRUE(at::equal(source.tensor(tensor.tensor), at::arange(8, at::kFloat).view({2, 4}) / 8)) << tensor.tensor;
    found[tensor.name] = tensor.tensor;
  }
  return found;
}

}  // namespace

TEST(EmbeddingFile, VectorsOfPickledFiles) {
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(vectors_of("web_ui"), ElementsAre(Pair("", "string_to_param.*")));
  EXPECT_THAT(vectors_of("first"), ElementsAre(Pair("", "string_to_param.*")));
  EXPECT_THAT(vectors_of("kohya"), ElementsAre(Pair("", "emb_params")));
  EXPECT_THAT(vectors_of("kohya_xl"), ElementsAre(Pair("clip_g", "clip_g"), Pair("clip_l", "clip_l")));
}
