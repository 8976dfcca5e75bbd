#include "data/cache.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "io/hash.h"
#include "tests/scratch.h"

using namespace burnish;
using data::Cache;
using test::content;
using test::Scratch;
namespace fs = std::filesystem;

namespace {

data::Tensors entry(int64_t i) {
  return {{"a", at::arange(6, at::kFloat).reshape({2, 3}) + static_cast<double>(i)}, {"b", at::full({5}, i, at::kBFloat16)}};
}
std::string key(int64_t i) { return "k" + std::to_string(i); }

std::vector<std::string> keys(int64_t from, int64_t to) {
  std::vector<std::string> list;
  for (auto i = from; i < to; ++i) list.push_back(key(i));
  return list;
}

/// Opens, and computes what is missing, as a run does; the entries computed.
std::vector<std::string> fill(const fs::path& folder, int64_t from, int64_t to, const std::string& weights = "w") {
  Cache cache(folder);
  auto& section = cache.section("encode", {{"weights", weights}});
  section.verify(keys(from, to));
  std::vector<std::string> computed;
  for (auto i = from; i < to; ++i) {
    if (section.contains(key(i))) continue;
    computed.push_back(key(i));
    section.add(key(i), entry(i));
  }
  section.flush();
  for (auto i = from; i < to; ++i) {
    for (const auto& [name, tensor] : entry(i)) EXPECT_TRUE(at::equal(tensor, section.at(key(i)).at(name))) << key(i) << "." << name;
  }
  return computed;
}

std::map<std::string, std::string> all_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.is_regular_file() && item.path().filename() != "lock" && item.path().filename() != "hashes.json")
      files[fs::relative(item.path(), folder).string()] = content(item.path());
  }
  return files;
}

fs::path only_shard(const fs::path& folder) {
  std::vector<fs::path> shards;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.path().extension() == ".safetensors") shards.push_back(item.path());
  }
  EXPECT_EQ(shards.size(), 1u);
  return shards.at(0);
}

void flip(const fs::path& path, size_t at) {
  auto bytes = content(path);
  bytes.at(at) = static_cast<char>(bytes[at] ^ 0x10);
  fs::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST(Hash, Sha256OfTheStandardsExamples) {
  EXPECT_EQ(io::sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(io::sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(io::sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(io::sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Xxh64OfTheSpecification) {
  EXPECT_EQ(io::xxh64(""), 0xEF46DB3751D8E999ull);
  EXPECT_EQ(io::xxh64("a"), 0xD24EC4F1A98C6E5Bull);
  EXPECT_EQ(io::xxh64("abc"), 0x44BC2CF5AD770999ull);
  EXPECT_EQ(io::xxh64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1ull);
}

TEST(Hash, OfAFileFollowsItsContent) {
  Scratch scratch;
  auto one = scratch.write("one", std::string(40 << 20, 'x')), two = scratch.write("two", std::string(40 << 20, 'x'));
  data::FileHashes hashes(scratch / "hashes.json");
  EXPECT_EQ(hashes.hash(one), hashes.hash(two));
  auto before = hashes.hash(one);
  flip(one, 39 << 20);
  EXPECT_NE(hashes.hash(one), before);
  EXPECT_NE(io::file_hash(scratch.write("short", "x")), io::file_hash(scratch.write("none", "")));
}

TEST(Cache, KeepsEntriesAndComputesOnlyWhatIsMissing) {
  Scratch scratch;
  EXPECT_EQ(fill(scratch / "c", 0, 5), keys(0, 5));
  EXPECT_TRUE(fill(scratch / "c", 0, 5).empty());
  EXPECT_EQ(fill(scratch / "c", 0, 7), keys(5, 7));
  EXPECT_EQ(fill(scratch / "c", 0, 7, "other weights"), keys(0, 7));
  EXPECT_TRUE(fill(scratch / "c", 0, 7).empty());
}

TEST(Cache, InMemoryWritesNothing) {
  Cache cache("");
  auto& section = cache.section("encode", {});
  section.add("k", entry(1));
  section.flush();
  EXPECT_TRUE(section.contains("k"));
  EXPECT_EQ(cache.num_bytes(), 6 * 4 + 5 * 2);
}

TEST(Cache, ShardsAreTheSameHoweverOftenTheWriterStopped) {
  Scratch scratch;
  int64_t many = Cache::kShardEntries * 2 + 100;
  fill(scratch / "whole", 0, many);
  {  // stops in the middle of the second shard: what was not flushed is lost
    Cache cache(scratch / "parts");
    auto& section = cache.section("encode", {{"weights", "w"}});
    for (int64_t i = 0; i < Cache::kShardEntries + 500; ++i) section.add(key(i), entry(i));
  }
  EXPECT_EQ(fill(scratch / "parts", 0, many).size(), static_cast<size_t>(many - Cache::kShardEntries));
  EXPECT_EQ(all_files(scratch / "whole"), all_files(scratch / "parts"));
}

TEST(Cache, AFlippedByteAnywhereInAShardIsFoundAndMended) {
  Scratch scratch;
  fill(scratch / "c", 0, 3);
  auto shard = only_shard(scratch / "c");
  auto good = content(shard);
  auto files = all_files(scratch / "c");
  for (size_t at = 0; at < good.size(); at += 11) {
    flip(shard, at);
    auto computed = fill(scratch / "c", 0, 3);
    ASSERT_FALSE(computed.empty()) << "byte " << at << " of " << good.size();
    ASSERT_EQ(all_files(scratch / "c"), files) << "byte " << at;
  }
}

TEST(Cache, AFlippedByteOfATensorCostsThatEntryAlone) {
  Scratch scratch;
  fill(scratch / "c", 0, 3);
  auto shard = only_shard(scratch / "c");
  auto files = all_files(scratch / "c");
  flip(shard, content(shard).size() - 1);
  testing::internal::CaptureStdout();
  EXPECT_EQ(fill(scratch / "c", 0, 3), keys(2, 3));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::AllOf(testing::HasSubstr("k2"), testing::HasSubstr(shard.string())));
  EXPECT_EQ(all_files(scratch / "c"), files);
}

TEST(Cache, ADamagedEntryThatNobodyWantsIsLeftOut) {
  Scratch scratch;
  fill(scratch / "c", 0, 3);
  auto shard = only_shard(scratch / "c");
  auto tail = content(shard).size();
  flip(shard, tail - 1);               // k2.b
  flip(shard, tail - 3 * 5 * 2 - 1);   // k2.a
  flip(shard, tail - 3 * 5 * 2 - 25);  // k1.a
  EXPECT_EQ(fill(scratch / "c", 0, 2), keys(1, 2));
  EXPECT_EQ(fill(scratch / "c", 0, 3), keys(2, 3));
}

TEST(Cache, TwoWritersAtOnceLeaveOneWholeCache) {
  Scratch scratch;
  fill(scratch / "one", 0, 40);
  Cache first(scratch / "both"), second(scratch / "both");
  auto& a = first.section("encode", {{"weights", "w"}});
  auto& b = second.section("encode", {{"weights", "w"}});
  for (int64_t i = 0; i < 40; ++i) {
    a.add(key(i), entry(i));
    b.add(key(i), entry(i));
  }
  a.flush();
  b.flush();
  EXPECT_TRUE(fill(scratch / "both", 0, 40).empty());
  auto one = all_files(scratch / "one"), both = all_files(scratch / "both");
  EXPECT_EQ(one, both);
}

TEST(Cache, LeftOversOfAKilledWriterAreRemovedAndThoseOfALiveOneAreNot) {
  Scratch scratch;
  fill(scratch / "c", 0, 2);
  fs::create_directories(scratch / "c/writing-dead00");
  std::ofstream(scratch / "c/writing-dead00/half.safetensors") << "half";
  Cache live(scratch / "c");
  auto& section = live.section("encode", {{"weights", "w"}});
  section.add(key(7), entry(7));
  section.flush();
  EXPECT_FALSE(fs::exists(scratch / "c/writing-dead00"));
  fill(scratch / "c", 0, 4);
  section.add(key(8), entry(8));
  section.flush();
  EXPECT_TRUE(fill(scratch / "c", 7, 9).empty());
}

TEST(Cache, FullDiskIsOneSentenceAndLosesNothing) {
  Scratch scratch;
  fill(scratch / "c", 0, 2);
  auto files = all_files(scratch / "c");
  rlimit old{}, small{};
  getrlimit(RLIMIT_FSIZE, &old);
  small = {1000, old.rlim_max};
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  auto message = test::error_of([&] { fill(scratch / "c", 0, 60); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, testing::HasSubstr("the cache cannot grow"));
  EXPECT_EQ(all_files(scratch / "c"), files);
  EXPECT_EQ(fill(scratch / "c", 0, 60), keys(2, 60));
}

TEST(Cache, AnotherFolderIsRefused) {
  Scratch scratch;
  scratch.write("manifest.json", "{\"format\": \"something else\"}");
  EXPECT_THAT(test::error_of([&] { Cache cache(scratch.path()); }), testing::HasSubstr("is no cache"));
}
