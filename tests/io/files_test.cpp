#include "io/files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "io/hash.h"
#include "io/pth_file.h"
#include "io/safetensors.h"
#include "io/told_file.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using ::testing::HasSubstr;

TEST(Files, PointersOfGitLfsAreSaidToBeOnes) {
  test::Scratch scratch;
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') + "\nsize 9\n";
  auto path = scratch.write("model.safetensors", pointer);
  EXPECT_THAT(error_of([&] { io::SafetensorsFile::open(path); }), HasSubstr("pointer of git-lfs"));
  EXPECT_THAT(error_of([&] { io::PthFile::open(path); }), HasSubstr("git lfs pull"));
  EXPECT_THAT(error_of([&] { io::read_text(path); }), HasSubstr(path.string()));
  auto text = pointer + std::string(2000, 'x');  // a text that begins so
  EXPECT_EQ(io::read_text(scratch.write("text", text)), text);
}

TEST(Files, OnlyRegularFilesAreRead) {
  test::Scratch scratch;
  auto pipe = scratch / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(scratch / "loop", scratch / "loop");
  for (const std::filesystem::path& path : {pipe, std::filesystem::path("/dev/zero"), std::filesystem::path("/dev/null")}) {
    EXPECT_THAT(error_of([&] { io::read_text(path); }), HasSubstr("not a regular file")) << path;
    EXPECT_THAT(error_of([&] { io::SafetensorsFile::open(path); }), HasSubstr("not a regular file")) << path;
    EXPECT_THAT(error_of([&] { io::PthFile::open(path); }), HasSubstr("not a regular file")) << path;
    EXPECT_THAT(error_of([&] { io::file_hash(path); }), HasSubstr("not a regular file")) << path;
  }
  EXPECT_THAT(error_of([&] { io::read_text(scratch / "loop"); }), HasSubstr("symbolic links"));
  EXPECT_FALSE(io::is_folder(scratch / "loop"));
  EXPECT_FALSE(io::is_there(scratch / "loop"));
  EXPECT_TRUE(io::is_folder(scratch.path()));
  EXPECT_EQ(io::read_text(scratch.write("text", std::string(200000, 'x'))), std::string(200000, 'x'));
}

TEST(Files, WhatIsToldReplacesWhatWasToldBefore) {
  test::Scratch scratch;
  auto path = scratch / "status";
  for (const auto& text : {std::string(3000, 'x'), std::string("short"), std::string()}) {
    io::tell(path, text);
    EXPECT_EQ(io::read_text(path), text);
    EXPECT_EQ(scratch.num_files(), 1u);
  }
  std::filesystem::create_directory(scratch / "folder");
  scratch.write("folder/inside", "");
  EXPECT_THAT(error_of([&] { io::tell(scratch / "folder", "text"); }), HasSubstr("cannot write"));
  EXPECT_THAT(error_of([&] { io::tell(scratch / "nowhere/status", "text"); }), HasSubstr("No such file"));
  EXPECT_EQ(scratch.num_files(), 2u) << "a half-written file is left";
}

TEST(Files, AFolderAppearsWhenItIsComplete) {
  test::Scratch scratch;
  auto path = scratch / "out";
  {
    io::AtomicFolder folder(path);
    io::write_text_atomic(folder.place() / "text", "lost");
    EXPECT_FALSE(io::is_there(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  for (const char* text : {"first", "second"}) {
    io::AtomicFolder folder(path);
    io::write_text_atomic(folder.place() / "text", text);
    folder.commit();
    EXPECT_EQ(io::read_text(std::filesystem::path(path) / "text"), text);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(Files, SpaceIsLookedForBeforeItIsTaken) {
  test::Scratch scratch;
  io::check_space(scratch / "folder/that/is/not/there/yet", 1);
  EXPECT_THAT(error_of([&] { io::check_space(scratch / "large", uint64_t{1} << 62); }),
              HasSubstr("large will take 4194304.00 TiB, and there are"));
}

TEST(Files, WritingFollowsLinksAndTheUmask) {
  test::Scratch scratch;
  std::filesystem::create_directory(scratch / "elsewhere");
  std::filesystem::create_symlink("elsewhere/target", scratch / "link");  // which is not there yet
  const auto before = umask(002);
  for (const char* text : {"first", "second"}) {
    io::write_text_atomic(scratch / "link", text);
    EXPECT_EQ(io::read_text(scratch / "elsewhere/target"), text);
  }
  umask(before);
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "link"));
  struct stat status {};
  ASSERT_EQ(stat((scratch / "elsewhere/target").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0664U);
}

TEST(Files, DevicesAreWrittenToAndStay) {
  io::write_text_atomic("/dev/null", "lost");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THAT(error_of([] { io::write_text_atomic("/dev/full", std::string(1 << 20, 'x')); }), HasSubstr("No space left on device"));
}
