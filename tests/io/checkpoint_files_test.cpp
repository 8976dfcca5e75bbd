#include "io/checkpoint_files.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

void save(const std::filesystem::path& path, const std::vector<std::string>& names, float value) {
  io::NamedTensors tensors;
  for (const auto& name : names) tensors.emplace_back(name, at::full({2}, value));
  io::save_safetensors(path, tensors);
}

float first(const io::TensorSource& source, const std::string& name) { return source.tensor(name)[0].item<float>(); }

}  // namespace

TEST(TensorSource, ReadsShardsThroughTheirIndex) {
  Scratch scratch;
  save(scratch / "m-00001-of-00002.safetensors", {"a", "b"}, 1);
  save(scratch / "m-00002-of-00002.safetensors", {"c"}, 2);
  save(scratch / "stray.safetensors", {"a"}, 9);  // not in the index, so not read
  scratch.write("m.safetensors.index.json", R"({"metadata":{"total_size":24},"weight_map":{
    "a":"m-00001-of-00002.safetensors","b":"m-00001-of-00002.safetensors","c":"m-00002-of-00002.safetensors"}})");
  auto source = io::TensorSource::open_folder(scratch.path(), {"m"});
  EXPECT_THAT(source.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(first(source, "a"), 1);
  EXPECT_EQ(first(source, "c"), 2);
  EXPECT_EQ(source.num_bytes(), 24);
}

TEST(TensorSource, WeightsOfTorchBesideThoseOfOtherPrograms) {
  Scratch scratch;
  std::filesystem::copy(test::golden_path("diffsynth_cache/other/checkpoint.pth"), scratch / "pytorch_model.bin");
  scratch.write("openvino_model.bin", "raw numbers");
  auto alone = io::TensorSource::open({scratch / "pytorch_model.bin"});
  EXPECT_EQ(io::TensorSource::open_folder(scratch.path(), {"model", "pytorch_model"}).names(), alone.names());
  auto sharded = scratch / "sharded";
  std::filesystem::create_directory(sharded);
  std::filesystem::copy(scratch / "pytorch_model.bin", sharded / "pytorch_model-00001-of-00001.bin");
  std::ofstream(sharded / "openvino_model.bin") << "raw numbers";
  std::ofstream(sharded / "pytorch_model.bin.index.json")
      << nlohmann::json{{"weight_map", {{alone.names().front(), "pytorch_model-00001-of-00001.bin"}}}};
  EXPECT_EQ(io::TensorSource::open_folder(sharded, {"model", "pytorch_model"}).names(), alone.names());
}

TEST(TensorSource, AnIndexThatPromisesTooMuch) {
  Scratch scratch;
  save(scratch / "one.safetensors", {"a"}, 1);
  auto refused = [&](const std::string& index) {
    scratch.write("m.safetensors.index.json", index);
    return error_of([&] { io::TensorSource::open_folder(scratch.path(), {"m"}); });
  };
  EXPECT_THAT(refused(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})"),
              HasSubstr("the shard two.safetensors, which is not there"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})"),
              HasSubstr("promises tensor 'b' in one.safetensors"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":"one.safetensors","b":"x)" + std::string(400, 'x') + R"("}})"),
              HasSubstr("which is not there"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":5}})"), HasSubstr("the shard of 'a' is not a file name"));
  EXPECT_THAT(refused(R"({"weight_map":{}})"), HasSubstr("has no weight_map"));
  EXPECT_THAT(refused(R"({"weight_map":["one.safetensors"]})"), HasSubstr("has no weight_map"));
  EXPECT_THAT(refused("[]"), HasSubstr("has no weight_map"));
  EXPECT_THAT(refused("{"), HasSubstr("not valid JSON"));
}

TEST(TensorSource, ADamagedShardIsNamed) {
  Scratch scratch;
  save(scratch / "m-1.safetensors", {"a"}, 1);
  scratch.write("m-2.safetensors", "garbage that is no header");
  scratch.write("m.safetensors.index.json", R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  EXPECT_THAT(error_of([&] { io::TensorSource::open_folder(scratch.path(), {"m"}); }), HasSubstr("m-2.safetensors"));
}

TEST(TensorSource, VariantsAndFoldersWithoutThem) {
  Scratch scratch;
  EXPECT_THAT(error_of([&] { io::TensorSource::open_folder(scratch.path(), {"model"}); }), HasSubstr("holds no safetensors files"));
  save(scratch / "other.safetensors", {"a"}, 1);
  EXPECT_EQ(first(io::TensorSource::open_folder(scratch.path(), {"model"}), "a"), 1);
  save(scratch / "model.bf16.safetensors", {"a"}, 2);
  EXPECT_EQ(first(io::TensorSource::open_folder(scratch.path(), {"model"}), "a"), 2);
  save(scratch / "model.safetensors", {"a"}, 3);
  EXPECT_EQ(first(io::TensorSource::open_folder(scratch.path(), {"absent", "model"}), "a"), 3);
}

TEST(TensorSource, OneNameInTwoFiles) {
  Scratch scratch;
  save(scratch / "1.safetensors", {"a"}, 1);
  save(scratch / "2.safetensors", {"a"}, 2);
  EXPECT_THAT(error_of([&] {
                io::TensorSource::open({scratch / "1.safetensors", scratch / "2.safetensors"});
              }),
              AllOf(HasSubstr("'a' is both in"), HasSubstr("1.safetensors"), HasSubstr("2.safetensors")));
  EXPECT_THAT(error_of([] { io::TensorSource::open({}); }), HasSubstr("no safetensors file was named"));
}

TEST(TensorSource, BelowAndWithoutPrefixes) {
  Scratch scratch;
  save(scratch / "a.safetensors", {"vae.x", "vae.y", "dit.x"}, 1);
  auto source = io::TensorSource::open({scratch / "a.safetensors"});
  auto vae = source.below("vae.");
  EXPECT_THAT(vae.names(), ElementsAre("x", "y"));
  EXPECT_EQ(first(vae, "x"), 1);
  EXPECT_EQ(vae.num_bytes(), 16);
  EXPECT_THAT(source.without({"vae."}).names(), ElementsAre("dit.x"));
  EXPECT_THAT(error_of([&] { vae.tensor("z"); }), AllOf(HasSubstr("no tensor 'z'"), HasSubstr("a.safetensors")));
}

TEST(WeightFiles, TheFirstLayoutThatIsThere) {
  const std::vector<std::string> stems{"model", "pytorch_model"};
  auto of = [&](const std::vector<std::string>& names) { return io::weight_files(names, stems); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(of({"model.bin", "model.fp16.safetensors", "model.safetensors", "other.safetensors"}), Names{"model.safetensors"});
  EXPECT_EQ(of({"model-00001-of-00002.safetensors", "model.safetensors.index.json"}), Names{"model.safetensors.index.json"});
  EXPECT_EQ(of({"model.safetensors.index.fp16.json", "pytorch_model.bin"}), Names{"model.safetensors.index.fp16.json"});
  EXPECT_EQ(of({"b.safetensors", "a.safetensors", "pytorch_model.bin"}), (Names{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(of({"openvino_model.bin", "pytorch_model.bin"}), Names{"pytorch_model.bin"});
  EXPECT_EQ(of({"pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"}), Names{"pytorch_model.bin.index.json"});
  EXPECT_EQ(of({"config.json"}), Names{});
}
