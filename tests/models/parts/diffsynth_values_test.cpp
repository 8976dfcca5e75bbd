#include "models/parts/diffsynth_values.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;
using testing::HasSubstr;

namespace {

at::Tensor places(const std::vector<std::pair<int64_t, int64_t>>& pictures) {
  std::vector<double> numbers;
  for (const auto& [rows, columns] : pictures) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c)
        for (const auto number : {int64_t{1}, r, c}) numbers.push_back(static_cast<double>(number));
    }
  }
  return at::tensor(numbers).view({-1, 3});
}

std::string shown(const std::vector<TokenGrid>& grids) {
  std::string text;
  for (const auto& grid : grids)
    text += std::to_string(grid.first) + ":" + std::to_string(grid.rows) + "x" + std::to_string(grid.columns) + " ";
  return text;
}

}  // namespace

TEST(TokenGrids, AreToldByTheirCorners) {
  EXPECT_EQ(shown(grids_at(places({{2, 3}}))), "0:2x3 ");
  EXPECT_EQ(shown(grids_at(places({{2, 3}, {1, 1}, {4, 2}, {4, 2}}).unsqueeze(0))), "0:2x3 6:1x1 7:4x2 15:4x2 ");
  // Numbers above 256 are rounded in bf16, and zeros are not.
  EXPECT_EQ(shown(grids_at(places({{2, 300}, {300, 1}}).to(at::kBFloat16))), "0:2x300 600:300x1 ");
}

TEST(TokenGrids, RefuseWhatIsNoPicture) {
  EXPECT_THAT(test::error_of([] { grids_at(places({{2, 3}}).narrow(0, 0, 5)); }), HasSubstr("no picture"));
  EXPECT_THAT(test::error_of([] { grids_at(places({{2, 3}}).narrow(0, 1, 5)); }), HasSubstr("corner"));
  EXPECT_THAT(test::error_of([] { grids_at(places({{2, 3}}).narrow(1, 0, 2)); }), HasSubstr("places"));
}

TEST(ReferencesInAList, MayHaveADimensionOfABatch) {
  const auto value = references_in_list("latents");
  const auto latents = at::tensor(std::vector<double>(24, 1.0)).view({2, 3, 4});
  const auto found = std::get<pipeline::TensorLists>(value.make([&](const std::string&) {
    return std::vector{latents, latents.unsqueeze(0)};
  }));
  ASSERT_EQ(found.at(0).size(), 2u);
  for (const auto& picture : found[0]) EXPECT_TRUE(at::equal(picture, latents));
  EXPECT_THAT(test::error_of([&] { value.make([&](const std::string&) { return std::vector{latents[0]}; }); }),
              HasSubstr("latents have [1, C, H, W] or [C, H, W]"));
}
