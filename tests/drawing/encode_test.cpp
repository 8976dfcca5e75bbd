// Prompts of unequal length, their masks, and reference pictures of their own sizes, as a batch and under guidance.
#include "drawing/encode.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"
#include "tests/skeleton_model.h"

using namespace burnish;
using pipeline::TensorLists;

namespace {

/// The skeleton family, as if its prompts kept their own length and came with pictures.
class OwnLengths : public models::skeleton::SkeletonModel {
 public:
  explicit OwnLengths(const std::string& file) : SkeletonModel(models::open_model_files({{file}, "", ""}), {.dtype = at::kFloat}) {
    names_.values["text_embedding"] = {.of_prompt = true, .padded = true};
    names_.values["text_mask"] = {.of_prompt = true, .padded = true};
    names_.values["references"] = {.of_prompt = true};
  }
  void set_zeros(bool zeros) { names_.zeros_for_no_prompt = zeros; }
};

class PromptBatches : public testing::Test {
 protected:
  PromptBatches() {
    test::save_skeleton(folder / "model.safetensors");
    model = std::make_unique<OwnLengths>((folder / "model.safetensors").string());
    for (const std::string prompt : {"", "a", "cat"}) {
      auto length = std::ssize(prompt) + 1;
      encoded.prompts[{prompt}] = {{"text_embedding", at::full({1, length, 2}, static_cast<double>(length))},
                                   {"text_mask", at::ones({1, length})},
                                   {"references", TensorLists{std::vector<at::Tensor>(prompt.size(), at::ones({1, 3, length, 4}))}}};
    }
  }
  static at::Tensor tensor(const pipeline::Values& values, const char* name) { return std::get<at::Tensor>(values.at(name)); }

  test::Scratch folder;
  std::unique_ptr<OwnLengths> model;
  drawing::Encoded encoded;
};

}  // namespace

TEST_F(PromptBatches, AreFilledToTheLongestUnderTheirMask) {
  auto values = drawing::stack_prompts(*model, encoded, {{"a"}, {"cat"}});
  EXPECT_TRUE(at::equal(tensor(values, "text_mask"), at::tensor({1.0f, 1.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f, 1.0f}).view({2, 4})));
  EXPECT_EQ(tensor(values, "text_embedding").sizes(), at::IntArrayRef({2, 4, 2}));
  const auto& references = std::get<TensorLists>(values.at("references"));
  EXPECT_EQ(references.at(0).size(), 1u);
  EXPECT_EQ(references.at(1).size(), 3u);
}

TEST_F(PromptBatches, ANegativePromptHasItsOwnLengthForThemAll) {
  auto positive = drawing::stack_prompts(*model, encoded, {{"a"}, {"cat"}});
  auto negative = drawing::negative_of(*model, encoded, {""}, positive);
  EXPECT_TRUE(at::equal(tensor(negative, "text_mask"), at::ones({2, 1})));
  EXPECT_TRUE(at::equal(tensor(negative, "text_embedding"), at::ones({2, 1, 2})));
  EXPECT_EQ(std::get<TensorLists>(negative.at("references")).size(), 2u);

  model->set_zeros(true);
  auto zeros = drawing::negative_of(*model, encoded, {""}, positive);
  EXPECT_TRUE(at::equal(tensor(zeros, "text_embedding"), at::zeros({2, 4, 2})));
  EXPECT_TRUE(at::equal(std::get<TensorLists>(zeros.at("references"))[1][2], at::zeros({1, 3, 4, 4})));
  EXPECT_TRUE(at::equal(tensor(positive, "text_mask").sum(1), at::tensor({2.0f, 4.0f}))) << "what it was made from is left alone";
}
