// Paths as users type them: "~", and on Linux below Windows its drives.
#include "base/typed_path.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/scratch.h"

using namespace burnish;

TEST(TypedPath, OfWindowsIsToldByItsBeginning) {
  for (const char* path : {"C:/runs", "d:\\runs", "\\\\server\\share", "\\\\wsl$\\Debian\\home"})
    EXPECT_TRUE(is_path_of_windows(path)) << path;
  for (const char* path : {"runs", "/mnt/c", "C:runs", "c", "a:b/c", "\\", ""}) EXPECT_FALSE(is_path_of_windows(path)) << path;
}

TEST(TypedPath, OfWindowsLiesBelowTheFolderOfDrives) {
  const test::Scratch mnt;
  std::filesystem::create_directory(mnt / "c");
  EXPECT_EQ(windows_path_below(mnt.path(), "C:\\Users\\me\\my pictures"), (mnt / "c/Users/me/my pictures").string());
  EXPECT_EQ(windows_path_below(mnt.path(), "c:/x"), (mnt / "c/x").string());
  EXPECT_EQ(windows_path_below(mnt.path(), "E:\\x"), "") << "this drive is not there";
  EXPECT_EQ(windows_path_below(mnt.path(), "\\\\wsl$\\Debian\\home\\me"), "/home/me");
  EXPECT_EQ(windows_path_below(mnt.path(), "\\\\wsl.localhost\\Ubuntu"), "/");
  EXPECT_EQ(windows_path_below(mnt.path(), "\\\\nas\\pictures"), "") << "a share has to be mounted";
}

TEST(TypedPath, OfTheHomeFolderAndOfOthersStay) {
  const char* home = std::getenv("HOME");
  ASSERT_NE(home, nullptr);
  EXPECT_EQ(typed_path("~/x"), std::string(home) + "/x");
  EXPECT_EQ(typed_path("a/~/b"), "a/~/b");
  EXPECT_EQ(typed_path("/mnt/c/x"), "/mnt/c/x");
}
