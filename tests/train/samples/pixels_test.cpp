// Pictures are bytes until they lie where a model computes.
#include "train/samples/pixels.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/resize.h"

using namespace burnish;

namespace {

const at::Tensor& tensor_of(const pipeline::Values& values, const std::string& name) { return std::get<at::Tensor>(values.at(name)); }

}  // namespace

TEST(Pixels, PicturesAndListsOfThemAreBroughtIntoTheRangeOfModels) {
  auto pixels = at::arange(0, 2 * 4 * 3, at::kInt).to(at::kByte).view({2, 4, 3});
  auto mask = at::full({1, 1, 2, 4}, 0.5), noise = at::ones({1, 4, 2, 2});
  pipeline::Values bytes{{"image", pixels.unsqueeze(0)},
                         {"reference_images", pipeline::TensorLists{{pixels, pixels.flip({1})}}},
                         {"mask", mask},
                         {"noise", noise},
                         {"prompt", std::string("a")}};
  auto values = train::in_model_range(bytes);
  EXPECT_TRUE(at::equal(tensor_of(values, "image"), data::to_model_range(pixels).unsqueeze(0)));
  const auto& pictures = std::get<pipeline::TensorLists>(values.at("reference_images")).at(0);
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_TRUE(at::equal(pictures[0], data::to_model_range(pixels)));
  EXPECT_TRUE(at::equal(pictures[1], data::to_model_range(pixels).flip({2})));
  EXPECT_TRUE(tensor_of(values, "mask").is_same(mask)) << "numbers stay as they are";
  EXPECT_TRUE(tensor_of(values, "noise").is_same(noise));
  EXPECT_EQ(pipeline::num_bytes(values.at("image")), 4 * pipeline::num_bytes(bytes.at("image")));
}

TEST(Pixels, AllValuesAreBroughtToTheDevice) {
  pipeline::Values bytes{{"image", at::zeros({1, 2, 4, 3}, at::kByte)}, {"mask", at::ones({1, 1, 2, 4})}};
  auto values = train::in_model_range(bytes, c10::Device(c10::kMeta));
  EXPECT_TRUE(tensor_of(values, "image").is_meta());
  EXPECT_EQ(tensor_of(values, "image").sizes(), (std::vector<int64_t>{1, 3, 2, 4}));
  EXPECT_EQ(tensor_of(values, "image").scalar_type(), at::kFloat);
  EXPECT_TRUE(tensor_of(values, "mask").is_meta()) << "units run there, and none has to see to it";
}
