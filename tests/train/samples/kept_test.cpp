// How values lie in cache entries, lists of tensors too.
#include "train/samples/kept.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"

using namespace burnish;
using pipeline::TensorLists;

TEST(Kept, ListsComeBackFromTheDiskAsTheyWere) {
  test::Scratch folder;
  TensorLists two{{at::rand({1, 3, 4, 4}), at::rand({1, 3, 2, 6})}}, none{{}};
  auto latents = at::rand({1, 4, 2, 2});
  for (int i = 0; i < 2; ++i) {  // the second time from the files alone
    data::Cache cache(folder / "cache");
    auto& section = cache.section("encode_references", {{"version", 1}});
    if (i == 0) {
      data::Tensors with, without;
      train::put(with, "references", two);
      train::put(with, "latents", latents);
      train::put(without, "references", none);
      train::put(without, "latents", latents);
      section.add("aa", with);
      section.add("bb", without);
      section.flush();
    }
    auto references = std::get<TensorLists>(train::take(section.at("aa"), "references"));
    ASSERT_EQ(references.size(), 1u);
    ASSERT_EQ(references[0].size(), 2u);
    for (size_t j = 0; j < 2; ++j) EXPECT_TRUE(at::equal(references[0][j], two[0][j]));
    EXPECT_TRUE(at::equal(std::get<at::Tensor>(train::take(section.at("aa"), "latents")), latents));
    EXPECT_TRUE(std::get<TensorLists>(train::take(section.at("bb"), "references")).at(0).empty());
  }
}

TEST(Kept, TextsAreNoTensors) {
  data::Tensors entry;
  EXPECT_THROW(train::put(entry, "prompt", std::string("cat")), std::logic_error);
}
