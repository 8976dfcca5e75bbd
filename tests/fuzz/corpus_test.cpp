#include <gtest/gtest.h>

#include "tests/fuzz/readers.h"
#include "tests/places.h"
#include "tests/scratch.h"

using namespace burnish;

namespace {

/// Hands every input that fuzzing has kept to `reader`, whole and cut short; returns how many there are.
template <class F>
size_t replay(const std::string& name, F reader) {
  auto archive = std::string(test::kCheckout) + "/tests/fuzz/corpus/" + name + ".tar";
  auto inputs = data::read_tar(archive);
  auto content = test::content(archive);
  for (const auto& input : inputs) {
    SCOPED_TRACE(archive + "/" + input.name);
    auto bytes = std::string_view(content).substr(input.offset, input.size);
    for (size_t length : {bytes.size(), bytes.size() / 2, bytes.size() - bytes.size() / 8}) reader(bytes.substr(0, length));
  }
  return inputs.size();
}

}  // namespace

TEST(FuzzCorpus, SafetensorsHeader) { EXPECT_GT(replay("safetensors_header", fuzz::read_safetensors_header), 20u); }

TEST(FuzzCorpus, Pth) { EXPECT_GT(replay("pth", fuzz::read_pth), 20u); }

TEST(FuzzCorpus, Gguf) { EXPECT_GT(replay("gguf", fuzz::read_gguf), 20u); }

TEST(FuzzCorpus, Metadata) { EXPECT_GT(replay("metadata", fuzz::read_metadata), 20u); }

TEST(FuzzCorpus, Picture) { EXPECT_GT(replay("picture", fuzz::read_picture), 20u); }

TEST(FuzzCorpus, ColorProfile) { EXPECT_GT(replay("color_profile", fuzz::read_color_profile), 2u); }

TEST(FuzzCorpus, Tar) { EXPECT_GT(replay("tar", fuzz::read_archive), 5u); }
