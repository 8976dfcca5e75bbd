// Files of torch.save, read without Python (tests/golden/make_diffsynth_cache.py), and what they are refused for.
#include "io/pth_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "io/checkpoint_files.h"
#include "tests/places.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::AllOf;
using testing::HasSubstr;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(test::kCheckout) / "tests/golden/diffsynth_cache";
std::filesystem::path other(const std::string& name) { return kFolder / "other" / name; }

std::string refusal(const std::filesystem::path& path) {
  return test::error_of([&] { io::PthFile::open(path); });
}

/// A pickle that the allow-list lets through.
io::Pickle plain(std::string_view bytes) {
  return io::Pickle::parse(bytes, "file", [](const std::string& name) { return name == "a b"; });
}

}  // namespace

TEST(PthFile, TensorsOfEveryKind) {
  auto file = io::PthFile::open(other("kinds.pth"));
  auto grid = at::arange(24, at::kFloat).reshape({4, 6});
  auto expect = [&](const char* name, const at::Tensor& expected) {
    auto found = file->tensor(name);
    EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    EXPECT_EQ(found.sizes(), expected.sizes()) << name;
    EXPECT_TRUE(at::equal(found.to(at::kFloat), expected.to(at::kFloat))) << name;
  };
  expect("fp32", grid);
  expect("transposed", grid.t());
  expect("row", grid[2]);
  expect("column", grid.select(1, 3));
  expect("bf16", grid.to(at::kBFloat16));
  expect("fp16", grid.to(at::kHalf));
  expect("int64", at::arange(5));
  expect("uint8", at::arange(5).to(at::kByte));
  expect("bool", at::tensor({1, 0}).to(at::kBool));
  expect("scalar", at::scalar_tensor(2.5));
  expect("empty", at::zeros({0, 3}));
  expect("parameter", grid * 2);
  expect("fp8", grid.to(at::kFloat8_e4m3fn));
  EXPECT_EQ(file->tensors().size(), 13u);
  for (const auto& [name, info] : file->tensors()) file->release(name);
  expect("fp32", grid);
}

TEST(PthFile, ACheckpointIsATableOfTensors) {
  auto source = io::TensorSource::open({other("checkpoint.pth")});
  EXPECT_THAT(source.names(), testing::ElementsAre("bias", "weight"));
  EXPECT_EQ(source.shapes().at("weight"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(source.num_bytes(), 30 * 4);
  EXPECT_TRUE(at::equal(source.tensor("bias"), at::arange(6, at::kFloat)));
}

TEST(PthFile, RunsNothingAndNamesWhatItRefuses) {
  EXPECT_THAT(refusal(other("os_system.pth")), AllOf(HasSubstr("system"), HasSubstr("nothing of it is run")));
  EXPECT_FALSE(std::filesystem::exists("burnish_ran_a_pickle"));
  EXPECT_THAT(refusal(other("module.pth")), HasSubstr("torch.nn.modules.linear.Linear"));
}

TEST(PthFile, PicturesInACacheStayClosed) {
  auto file = io::PthFile::open(kFolder / "0/0.pth");
  ASSERT_EQ(file->root().kind, io::PickleValue::Kind::tuple);
  const auto& shared = *file->root().items[0];
  EXPECT_TRUE(shared.get("input_image")->is_made_by("PIL.Image Image"));
  EXPECT_EQ(shared.get("height")->integer, 48);
  EXPECT_EQ(file->root().items[1]->get("prompt")->text, "red apple");
  file->verify(*shared.get("input_latents"));
}

TEST(PthFile, DamageIsOneSentence) {
  test::Scratch scratch;
  auto good = test::content(other("kinds.pth"));
  EXPECT_THAT(refusal(scratch.write("empty.pth", "")), HasSubstr("too short"));
  EXPECT_THAT(refusal(scratch.write("text.pth", "this is no archive")), HasSubstr("no zip archive"));
  EXPECT_THAT(refusal(scratch / "none.pth"), HasSubstr("cannot read"));
  for (size_t length : {size_t{30}, good.size() / 2, good.size() - 1})
    EXPECT_FALSE(refusal(scratch.write("cut.pth", good.substr(0, length))).empty());
  // Every byte may be wrong: the file is refused in one sentence, or some tensor is another, and nothing worse happens.
  for (size_t at = 0; at < good.size(); at += 13) {
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    scratch.write("bad.pth", bad);
    try {
      auto file = io::PthFile::open(scratch / "bad.pth");
      for (const auto& [name, info] : file->tensors()) file->tensor(name).to(at::kFloat).sum();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data) << at;
    }
  }
  auto cache = test::content(kFolder / "0/0.pth");
  auto file = io::PthFile::open(kFolder / "0/0.pth");
  const auto* latents = file->root().items[0]->get("input_latents");
  auto place = io::PthHeader::parse(cache, "file").tensor(*latents);
  cache[place.begin] = static_cast<char>(cache[place.begin] ^ 1);
  auto flipped = io::PthFile::open(scratch.write("flipped.pth", cache));
  EXPECT_THAT(test::error_of([&] { flipped->verify(*flipped->root().items[0]->get("input_latents")); }),
              HasSubstr("checksum of a tensor differs"));
}

TEST(Pickle, ReadsPlainData) {
  using namespace std::string_view_literals;
  auto pickle = plain(
      "\x80\x02}q\x00(X\x01\0\0\0aK\x05X\x01\0\0\0b](I01\nI-7\nG?\xf8\0\0\0\0\0\0h\x00"
      "eu."sv);
  const auto& root = pickle.root();
  EXPECT_EQ(root.get("a")->integer, 5);
  EXPECT_EQ(root.get("none"), nullptr);
  const auto& list = root.get("b")->items;
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0]->kind, io::PickleValue::Kind::boolean);
  EXPECT_EQ(list[1]->integer, -7);
  EXPECT_EQ(list[2]->real, 1.5);
  EXPECT_EQ(list[3], &root) << "values may contain themselves";
}

TEST(Pickle, RefusesWhatIsBroken) {
  using namespace std::string_view_literals;
  for (auto bytes : {""sv, "."sv, "K"sv, "h\x05."sv, "(K\x01."sv.substr(0, 3), "K\x01K\x02\x52."sv, "}K\x01s."sv, "\xff."sv, "\x80\x09N."sv,
                     "X\xff\xff\xff\x7f."sv, "e."sv, "N(K\x01u."sv, "cos\nsystem\n."sv, "\x8c\x02os\x8c\x06system\x93."sv, "I12x\n."sv})
    EXPECT_FALSE(test::error_of([&] { plain(bytes); }).empty());
  EXPECT_THAT(test::error_of([&] { plain("cposix\nsystem\n(X\x02\0\0\0lst R."sv); }), HasSubstr("posix.system"));
  auto value = plain("ca\nb\n(K\x01tR."sv);
  EXPECT_TRUE(value.root().is_made_by("a b"));
  EXPECT_EQ(value.root().items[1]->integer, 1);
}
