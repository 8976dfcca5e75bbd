// Reading what is mapped: the file's bytes, past the system's cache where it does not have them.
#include "memory/mapped_reader.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "io/files.h"
#include "io/safetensors.h"
#include "tests/scratch.h"

namespace burnish::mapped_reader_test {

namespace {

constexpr int64_t kNumel = (9 << 20) + 12345;  // several pieces, and no whole number of pages

/// A file of two tensors, of which the second begins inside of a page.
struct File {
  test::Scratch scratch;
  at::Tensor first = at::randint(0, 255, {4321}, at::kByte), second = at::randint(0, 255, {kNumel}, at::kByte);
  std::shared_ptr<io::SafetensorsFile> mapped;

  File() {
    io::save_safetensors(path(), {{"first", first}, {"second", second}});
    mapped = io::SafetensorsFile::open(path());
  }
  std::filesystem::path path() const { return scratch / "weights.safetensors"; }
  void drop_from_cache() const { EXPECT_EQ(::posix_fadvise(io::InputFile(path()).descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0); }
  /// Pages of the second tensor that the system has in its cache.
  int64_t num_cached() const {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(mapped->tensor("second").const_data_ptr()), from = (begin + page - 1) / page * page;
    std::vector<unsigned char> pages((begin + kNumel - from) / page);
    EXPECT_EQ(::mincore(reinterpret_cast<void*>(from), pages.size() * page, pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char of_page) { return (of_page & 1) != 0; });
  }
  bool reads_past_cache() const {
    const int descriptor = ::open(path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (descriptor >= 0) ::close(descriptor);
    return descriptor >= 0;
  }
};

at::Tensor read(memory::MappedReader& reader, const at::Tensor& mapped) {
  auto to = at::zeros_like(mapped);
  reader.expect(mapped);
  reader.read(to, mapped);
  return to;
}

}  // namespace

TEST(MappedReader, ReadsTheFilesBytesWhateverIsInTheCache) {
  const File file;
  memory::MappedReader reader;
  for (bool is_cached : {true, false}) {
    if (!is_cached) file.drop_from_cache();
    for (const auto* name : {"second", "first", "second"}) {
      EXPECT_TRUE(at::equal(read(reader, file.mapped->tensor(name)), name == std::string("first") ? file.first : file.second)) << name;
    }
  }
}

TEST(MappedReader, FillsNoCacheWithWhatHasLeftIt) {
  const File file;
  if (!file.reads_past_cache()) GTEST_SKIP() << "the file system of the folder for temporary files reads all through its cache";
  memory::MappedReader reader;
  read(reader, file.mapped->tensor("second"));
  EXPECT_GT(file.num_cached(), kNumel / 4096 / 2) << "at first";
  file.drop_from_cache();
  const auto before = file.num_cached();  // pages beside the header, which is looked at
  if (before > kNumel / 4096 / 2) GTEST_SKIP() << "nothing leaves the cache of this file system";
  EXPECT_TRUE(at::equal(read(reader, file.mapped->tensor("second")), file.second));
  EXPECT_EQ(file.num_cached(), before);
}

TEST(MappedReader, ReadsThroughTheCacheWhatTheSystemHasThere) {
  const File file;
  memory::MappedReader reader;
  const auto before = file.mapped->tensor("second").sum();  // which reads all of it
  const auto num_cached = file.num_cached();
  EXPECT_GT(num_cached, kNumel / 4096 / 2);
  EXPECT_TRUE(at::equal(read(reader, file.mapped->tensor("second")).sum(), before));
  EXPECT_EQ(file.num_cached(), num_cached);
}

}  // namespace burnish::mapped_reader_test
