#include <gtest/gtest.h>

#include "tests/fuzz/readers.h"
#include "tests/scratch.h"

using namespace burnish;

namespace {

/// Hands every input that fuzzing has kept to `reader`, whole and cut short; returns how many there are.
template <class F>
size_t replay(const std::string& name, F reader) {
  size_t num_inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BURNISH_SOURCE_DIR) + "/tests/fuzz/corpus/" + name)) {
    SCOPED_TRACE(entry.path().string());
    auto bytes = test::content(entry.path());
    for (size_t length : {bytes.size(), bytes.size() / 2, bytes.size() - bytes.size() / 8})
      reader(std::string_view(bytes).substr(0, length));
    ++num_inputs;
  }
  return num_inputs;
}

}  // namespace

TEST(FuzzCorpus, SafetensorsHeader) { EXPECT_GT(replay("safetensors_header", fuzz::read_safetensors_header), 20u); }

TEST(FuzzCorpus, Pth) { EXPECT_GT(replay("pth", fuzz::read_pth), 20u); }

TEST(FuzzCorpus, Metadata) { EXPECT_GT(replay("metadata", fuzz::read_metadata), 20u); }

TEST(FuzzCorpus, Picture) { EXPECT_GT(replay("picture", fuzz::read_picture), 20u); }

TEST(FuzzCorpus, ColorProfile) { EXPECT_GT(replay("color_profile", fuzz::read_color_profile), 2u); }

TEST(FuzzCorpus, Tar) { EXPECT_GT(replay("tar", fuzz::read_archive), 5u); }
