#include "io/json.h"

#include <gmock/gmock.h>

#include "tests/scratch.h"

using namespace burnish;

TEST(Json, IsReadWithoutOneOfItsValues) {
  test::Scratch scratch;
  const auto file = scratch.write("list.json", R"({"schema": 2, "samples": [{"schema": 3}], "sets": {"samples": 4}})");
  EXPECT_EQ(io::read_json_without(file, "samples"), nlohmann::json::parse(R"({"schema": 2, "sets": {"samples": 4}})"));
  EXPECT_EQ(io::read_json_without(file, "none"), io::read_json(file));
  EXPECT_THAT(test::error_of([&] { io::read_json_without(scratch.write("broken.json", R"({"samples": [)"), "samples"); }),
              testing::HasSubstr("broken.json is not valid JSON"));
}
