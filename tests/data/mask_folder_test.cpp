#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/load_metadata.h"
#include "tests/scratch.h"

using namespace burnish;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

std::string mask_of(const nlohmann::json& row) { return row.contains("mask") ? row["mask"].get<std::string>() : ""; }

}  // namespace

TEST(MaskFolder, HasMasksUnderTheNamesOfPictures) {
  Scratch scratch;
  for (const char* folder : {"more", "masks", "masks/more"}) fs::create_directory(scratch / folder);
  for (const char* name : {"a.jpg", "b.png", "b-masklabel.png", "more/c.png", "d.png", "masks/a.png", "masks/b.png", "masks/more/c.webp"})
    scratch.write(name, "");
  const auto masks = (scratch / "masks").string();
  const auto m = data::load_metadata(scratch.path(), {.class_tokens = "a dog", .mask_folder = masks});
  ASSERT_EQ(m.rows.size(), 4u) << "masks are no pictures of a folder that they lie in";
  EXPECT_EQ(mask_of(m.rows[0]), masks + "/a.png");
  EXPECT_THAT(mask_of(m.rows[1]), testing::EndsWith("b-masklabel.png")) << "a picture's own mask stays";
  EXPECT_EQ(mask_of(m.rows[2]), "");
  EXPECT_EQ(mask_of(m.rows[3]), masks + "/more/c.webp");
  scratch.write("rows.csv", "image,prompt\nelsewhere/c.png,x\nz.png,y\n");
  const auto rows = data::load_metadata(scratch / "rows.csv", {.mask_folder = masks}).rows;
  EXPECT_EQ(mask_of(rows[0]), masks + "/more/c.webp") << "the only one that is called so";
  EXPECT_EQ(mask_of(rows[1]), "");
  EXPECT_THAT(test::error_of([&] { data::load_metadata(scratch.path(), {.mask_folder = "/nowhere"}); }),
              testing::HasSubstr("is no folder"));
}
