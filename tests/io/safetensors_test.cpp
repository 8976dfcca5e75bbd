#include "io/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/files.h"
#include "io/json.h"
#include "tests/scratch.h"

using namespace burnish;
using test::content;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

std::string file_bytes(const std::string& json, const std::string& data) {
  uint64_t length = json.size();
  return std::string(reinterpret_cast<char*>(&length), 8) + json + data;
}

std::string refusal(const Scratch& scratch, const std::string& bytes) {
  auto path = scratch.write("bad.safetensors", bytes);
  auto text = error_of([&] { io::SafetensorsFile::open(path); });
  EXPECT_THAT(text, HasSubstr("bad.safetensors"));
  return text;
}

/// While it lives, no file can grow beyond `bytes`: the same failure of write() as a full disk's.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  sighandler_t old_handler_;
};

/// A file system of 256 KiB, seen by this process alone; needs root.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder) : folder_(folder) {
    bool own = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    mounted_ = own && mount("small", folder.c_str(), "tmpfs", 0, "size=256k") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount(folder_.c_str());
  }
  bool mounted() const { return mounted_; }

 private:
  std::string folder_;
  bool mounted_ = false;
};

}  // namespace

TEST(Safetensors, EveryDtypeComesBackWithItsBytes) {
  Scratch scratch;
  io::NamedTensors saved;
  for (auto dtype :
       {c10::kDouble, c10::kFloat, c10::kHalf, c10::kBFloat16, c10::kComplexFloat, c10::kLong, c10::kInt, c10::kShort, c10::kChar,
        c10::kUInt64, c10::kUInt32, c10::kUInt16, c10::kByte, c10::kBool, c10::kFloat8_e4m3fn, c10::kFloat8_e5m2, c10::kFloat8_e8m0fnu}) {
    auto t = at::empty({3, 5}, at::TensorOptions().dtype(dtype));
    for (size_t i = 0; i < t.nbytes(); ++i)
      static_cast<uint8_t*>(t.data_ptr())[i] = static_cast<uint8_t>(dtype == c10::kBool ? i % 2 : 37 * i + 11);
    saved.emplace_back(std::string("t.") + c10::toString(dtype), t);
  }
  saved.emplace_back("empty", at::empty({0, 4}));
  saved.emplace_back("scalar", at::full({}, 2.5));
  io::Metadata metadata{{"format", "pt"}, {"caption", "a \"quoted\" 🦊\n second line"}};
  io::save_safetensors(scratch / "all.safetensors", saved, metadata);

  auto file = io::SafetensorsFile::open(scratch / "all.safetensors");
  EXPECT_EQ(file->metadata(), metadata);
  ASSERT_EQ(file->tensors().size(), saved.size());
  for (const auto& [name, expected] : saved) {
    auto found = file->tensor(name);
    EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    if (expected.nbytes() > 0) {
      EXPECT_EQ(std::memcmp(found.const_data_ptr(), expected.const_data_ptr(), expected.nbytes()), 0) << name;
    }
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found.const_data_ptr()) % expected.element_size(), 0u) << name;
  }
}

TEST(Safetensors, SavesViewsAsTheyRead) {
  Scratch scratch;
  auto whole = at::arange(24, at::kFloat).view({4, 6});
  io::save_safetensors(scratch / "v.safetensors", {{"columns", whole.t()}, {"part", whole.narrow(1, 2, 3)}});
  auto file = io::SafetensorsFile::open(scratch / "v.safetensors");
  EXPECT_TRUE(at::equal(file->tensor("columns"), whole.t()));
  EXPECT_TRUE(at::equal(file->tensor("part"), whole.narrow(1, 2, 3)));
}

TEST(Safetensors, ReadsAHeaderOfOddLength) {
  Scratch scratch;
  std::string data(8, '\0');
  float values[2] = {1.5f, -2.0f};
  std::memcpy(data.data(), values, 8);
  auto path = scratch.write("odd.safetensors", file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"
                                                          " ",
                                                          data));
  EXPECT_TRUE(at::equal(io::SafetensorsFile::open(path)->tensor("a"), at::tensor({1.5f, -2.0f})));
}

TEST(Safetensors, TensorsOutliveTheFileAndNeverWriteToIt) {
  Scratch scratch;
  auto path = scratch / "w.safetensors";
  io::save_safetensors(path, {{"w", at::ones({4})}});
  auto before = content(path);
  auto w = io::SafetensorsFile::open(path)->tensor("w");
  w.add_(1);
  EXPECT_EQ(w.sum().item<float>(), 8);
  EXPECT_EQ(content(path), before);
}

TEST(Safetensors, TruncatedAtEveryLength) {
  Scratch scratch;
  auto path = scratch / "whole.safetensors";
  io::save_safetensors(path, {{"a", at::ones({3})}, {"b", at::ones({2}, at::kLong)}}, {{"format", "pt"}});
  auto whole = content(path);
  for (size_t length = 0; length < whole.size(); ++length) refusal(scratch, whole.substr(0, length));
  refusal(scratch, whole + '\0');
}

TEST(Safetensors, HeaderLengthIsChecked) {
  Scratch scratch;
  EXPECT_THAT(refusal(scratch, ""), HasSubstr("too short for a safetensors file"));
  EXPECT_THAT(refusal(scratch, std::string(8, '\xff') + "{}"), AllOf(HasSubstr("18446744073709551615"), HasSubstr("file of 10")));
  EXPECT_THAT(refusal(scratch, std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("claims a header of 3 bytes"));
  EXPECT_THAT(refusal(scratch, std::string(8, '\0')), HasSubstr("not JSON"));
  EXPECT_NO_THROW(io::SafetensorsFile::open(scratch.write("none.safetensors", file_bytes("{}", ""))));
}

TEST(Safetensors, OtherKindsOfPath) {
  Scratch scratch;
  EXPECT_THAT(error_of([&] { io::SafetensorsFile::open(scratch.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { io::SafetensorsFile::open("/dev/null"); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of([&] { io::SafetensorsFile::open(scratch / "absent"); }), HasSubstr("No such file"));
  io::save_safetensors(scratch / "a.safetensors", {{"a", at::ones({1})}});
  EXPECT_THAT(error_of([&] { io::SafetensorsFile::open(scratch / "a.safetensors")->tensor("b"); }), HasSubstr("holds no tensor 'b'"));
}

TEST(Safetensors, RefusesToSaveWhatItCouldNotRead) {
  Scratch scratch;
  auto one = at::ones({1});
  EXPECT_THAT(error_of([&] { io::save_safetensors(scratch / "a", {{"x", one}, {"x", one}}); }), HasSubstr("two tensors are named 'x'"));
  EXPECT_THAT(error_of([&] { io::save_safetensors(scratch / "a", {{"x", one.to(at::kComplexDouble)}}); }), HasSubstr("no dtype"));
  EXPECT_EQ(scratch.num_files(), 0u);
}

TEST(Safetensors, MetadataThatIsNotUtf8DoesNotCostTheWeights) {
  Scratch scratch;
  io::save_safetensors(scratch / "a.safetensors", {{"x", at::ones({2})}}, {{"path", "caf\xe9"}});
  auto file = io::SafetensorsFile::open(scratch / "a.safetensors");
  EXPECT_EQ(file->metadata().at("path"), "caf\xef\xbf\xbd");
  EXPECT_TRUE(at::equal(file->tensor("x"), at::ones({2})));
}

TEST(Safetensors, AFailedWriteLeavesTheOldFile) {
  Scratch scratch;
  auto path = scratch / "step.safetensors";
  io::save_safetensors(path, {{"w", at::ones({4})}});
  auto before = content(path);
  std::string text;
  {
    FileSizeLimit full(64 << 10);
    text = error_of([&] { io::save_safetensors(path, {{"w", at::ones({1 << 20})}}); });
  }
  EXPECT_THAT(text, AllOf(HasSubstr("step.safetensors"), HasSubstr("64.00 KiB"), HasSubstr("unchanged")));
  EXPECT_EQ(content(path), before);
  EXPECT_EQ(scratch.num_files(), 1u) << "a partial file was left";
}

TEST(Safetensors, AFullFileSystemLeavesTheOldFile) {
  Scratch scratch;
  SmallDisk disk(scratch.path());
  if (!disk.mounted()) GTEST_SKIP() << "only root can mount a small file system; the test above makes write() fail without one";
  auto path = scratch / "step.safetensors";
  io::save_safetensors(path, {{"w", at::ones({4})}});
  auto before = content(path);
  EXPECT_THAT(error_of([&] {
                io::save_safetensors(path, {{"w", at::ones({1 << 20})}});
              }),
              AllOf(HasSubstr("No space left"), HasSubstr("step.safetensors"), HasSubstr("unchanged")));
  EXPECT_EQ(content(path), before);
  EXPECT_EQ(scratch.num_files(), 1u) << "a partial file was left";
  io::save_safetensors(path, {{"w", at::zeros({4})}});
  EXPECT_NE(content(path), before);
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  Scratch scratch;
  auto path = scratch.write("a.txt", "old");
  { io::AtomicFile(path).write("new", 3); }
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(scratch.num_files(), 1u);
  io::write_text_atomic(path, "new");
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(scratch.num_files(), 1u);
}

TEST(AtomicFile, ATargetThatCannotBe) {
  Scratch scratch;
  auto file = scratch.write("file", "");
  EXPECT_THAT(error_of([&] { io::write_text_atomic(file / "below", "x"); }), HasSubstr("cannot create"));
  EXPECT_THAT(error_of([&] { io::write_text_atomic(scratch / std::string(300, 'x'), "x"); }), HasSubstr("cannot create"));
  std::filesystem::create_directories(scratch / "folder/inside");
  EXPECT_THAT(error_of([&] { io::write_text_atomic(scratch / "folder", "x"); }), HasSubstr("cannot write"));
  EXPECT_EQ(scratch.num_files(), 2u);
  io::write_text_atomic(scratch / "new/folders/a.txt", "made");
  EXPECT_EQ(content(scratch / "new/folders/a.txt"), "made");
}

TEST(Files, ReadTextNamesWhatItCannotRead) {
  Scratch scratch;
  EXPECT_THAT(error_of([&] { io::read_text(scratch / "absent"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { io::read_text(scratch.path()); }), HasSubstr("it is a folder, not a regular file"));
  EXPECT_THAT(error_of([&] { io::read_text(scratch / std::string(300, 'x')); }), HasSubstr("too long"));
}

TEST(Json, NamesFileAndPlace) {
  Scratch scratch;
  auto refused = [&](const std::string& text) { return error_of([&] { io::read_json(scratch.write("c.json", text)); }); };
  EXPECT_THAT(refused("{\n \"a\": ,\n}"), AllOf(HasSubstr("c.json is not valid JSON"), HasSubstr("line 2")));
  EXPECT_THAT(refused(R"({"a": 1e999})"), HasSubstr("number overflow"));
  EXPECT_THAT(refused(""), HasSubstr("c.json is not valid JSON"));
  EXPECT_THAT(refused("{\"a\": \"\xff\"}"), HasSubstr("c.json is not valid JSON"));
}

TEST(SafetensorsWriter, TakesTensorsOneByOneInAnyOrder) {
  Scratch scratch;
  auto path = scratch / "a.safetensors";
  const std::vector<io::TensorSpec> specs{{"bytes", at::kByte, {3}}, {"numbers", at::kFloat, {2, 2}}, {"one", at::kBFloat16, {}}};
  {
    io::SafetensorsWriter writer(path, specs, {{"key", "value"}});
    writer.write("one", at::full({}, 1.5).to(at::kBFloat16));
    writer.write("numbers", at::arange(4, at::kFloat).view({2, 2}).t());
    EXPECT_THROW(writer.write("numbers", at::ones({2, 2})), std::logic_error);
    EXPECT_THROW(writer.write("bytes", at::ones({3})), std::logic_error);
    EXPECT_THROW(writer.commit(), std::logic_error);
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.write("bytes", at::ones({3}, at::kByte));
    writer.commit();
  }
  auto file = io::SafetensorsFile::open(path);
  EXPECT_EQ(file->metadata().at("key"), "value");
  EXPECT_TRUE(at::equal(file->tensor("numbers"), at::arange(4, at::kFloat).view({2, 2}).t()));
  EXPECT_TRUE(at::equal(file->tensor("bytes"), at::ones({3}, at::kByte)));
  EXPECT_EQ(file->tensor("one").item<float>(), 1.5);
  EXPECT_THAT(error_of([&] { io::SafetensorsWriter(path, {{"a"}, {"a"}}); }), HasSubstr("two tensors are named 'a'"));
}
