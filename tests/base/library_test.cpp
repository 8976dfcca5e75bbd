#include "base/library.h"

#include <gmock/gmock.h>

#include <stdexcept>

using namespace burnish;

TEST(Library, FindsFunctionsByTheirNames) {
  const Library library("libm.so.6");
  ASSERT_TRUE(library.is_open()) << library.problem();
  EXPECT_EQ(library.problem(), "");
  double (*cube_root)(double) = library.find("cbrt");
  EXPECT_DOUBLE_EQ(cube_root(27), 3);
  EXPECT_THROW(library.find("no_function_of_that_name"), std::logic_error);
}

TEST(Library, OneThatIsNotThereSaysWhyAndHasNothing) {
  const Library library("libburnish_nowhere.so");
  EXPECT_FALSE(library.is_open());
  EXPECT_THAT(library.problem(), testing::HasSubstr("libburnish_nowhere.so"));
  double (*nothing)(double) = library.find("cbrt");
  EXPECT_EQ(nothing, nullptr);
}

TEST(Library, CompanionsLieBesideTheProgram) {
  const auto path = companion("curl");
  EXPECT_EQ(path.filename(), "libburnish_curl.so");
  EXPECT_EQ(path.parent_path(), std::filesystem::read_symlink("/proc/self/exe").parent_path());
}
