// Models between diffusers folders, single files and FP8, and with LoRAs merged into them.
#include <c10/core/ScalarType.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "convert/compare.h"
#include "io/json.h"
#include "loras/merged.h"
#include "models/files/loading.h"
#include "tests/allocations.h"
#include "tests/convert/convert_files.h"
#include "tests/single_file.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

namespace {

std::string in_folder(const Scratch& folder, const std::string& name) { return (folder / name).string(); }

std::vector<std::string> parts_of(const std::string& pipeline) {
  std::vector<std::string> parts;
  for (const auto& entry : fs::directory_iterator(model_path(pipeline))) {
    if (fs::exists(entry.path() / "config.json")) parts.push_back(entry.path().filename().string());
  }
  return parts;
}

io::TensorSource part_of(const std::string& folder, const std::string& part) {
  // transformers' newer releases write its encoders without the prefix that older ones need.
  const std::string prefix = "text_model.";
  auto all = io::TensorSource::open_folder(folder + "/" + part, {"diffusion_pytorch_model", "model"});
  return all.renamed([&](const std::string& name) { return name.starts_with(prefix) ? name.substr(prefix.size()) : name; });
}

/// Parameters of all components in fp32.
std::map<std::string, at::Tensor> parameters(models::Model& model) {
  std::map<std::string, at::Tensor> all;
  for (const auto& part : model.components().list()) {
    // Without the tokenizer, which Components::check wants and these folders lack.
    auto skeleton = model.components().skeleton(part.name);
    const auto& source = model.components().source(part.name);
    models::load_weights(*skeleton, {.tensors = *source.tensors,
                                     .keys = source.keys,
                                     .what = part.name,
                                     .options = at::TensorOptions().dtype(at::kFloat),
                                     .merge = model.components().holding(part.name).merge.get()});
    for (auto& [name, value] : skeleton->parameters()) all[part.name + "." + name] = *value;
  }
  return all;
}

}  // namespace

TEST(SingleFile, IsWhatTheAuthorsNamesSayAndComesBack) {
  for (const auto& pipeline : kPipelines) {
    SCOPED_TRACE(pipeline);
    Scratch folder;
    auto single = in_folder(folder, "single.safetensors"), back = in_folder(folder, "back");
    convert_to({}, {model_path(pipeline), single});
    if (pipeline != "pipeline") {
      auto found = open_file(single), expected = open_file(single_file(pipeline));
      for (const auto& name : found.names()) {
        ASSERT_TRUE(expected.contains(name)) << name;
        EXPECT_TRUE(at::equal(found.tensor(name), expected.tensor(name))) << name;
      }
      EXPECT_GE(found.names().size() + 10, expected.names().size());  // which has counters and a projection that nobody reads
    }
    convert_to({.config_from = model_path(pipeline)}, {single, back});
    for (const auto& part : parts_of(pipeline)) {
      SCOPED_TRACE(part);
      auto expected = part_of(model_path(pipeline), part), found = part_of(back, part);
      for (const auto& name : expected.names()) {
        EXPECT_TRUE(found.contains(name) || name.ends_with("position_ids")) << name;
      }
      for (const auto& name : found.names()) EXPECT_TRUE(at::equal(found.tensor(name), expected.tensor(name))) << name;
    }
    EXPECT_TRUE(fs::exists(fs::path(back) / "scheduler/scheduler_config.json"));
  }
}

TEST(SingleFile, OfAWholeCheckpointKeepsItsOtherTensors) {
  Scratch folder;
  auto again = in_folder(folder, "again.safetensors");
  convert_to({}, {single_file("sdxl_pipeline"), again});
  expect_same_tensors(open_file(again), open_file(single_file("sdxl_pipeline")));
}

TEST(SingleFile, MarksWhatItPredicts) {
  Scratch folder;
  auto model = folder / "model";
  fs::copy(model_path("sdxl_pipeline"), model, fs::copy_options::recursive);
  auto path = model / "scheduler/scheduler_config.json";
  auto scheduler = io::read_json(path);
  scheduler["prediction_type"] = "v_prediction";
  fs::remove(path);  // the copy of a file that may not be written
  std::ofstream(path) << scheduler;
  convert_to({}, {model.string(), in_folder(folder, "v.safetensors")});
  EXPECT_TRUE(open_file(in_folder(folder, "v.safetensors")).contains("v_pred"));
  convert_to({}, {model_path("sdxl_pipeline"), in_folder(folder, "epsilon.safetensors")});
  EXPECT_FALSE(open_file(in_folder(folder, "epsilon.safetensors")).contains("v_pred"));
}

TEST(SingleFile, OfOnePartHasNoPrefix) {
  Scratch folder;
  auto alone = in_folder(folder, "flux.safetensors"), back = in_folder(folder, "back");
  auto transformer = model_path("pipeline") + "/transformer";
  convert_to({}, {transformer, alone});
  EXPECT_TRUE(open_file(alone).contains("double_blocks.0.img_attn.qkv.weight"));
  convert_to({.config_from = model_path("pipeline")}, {alone, back});
  expect_same_tensors(part_of(back, "transformer"), part_of(model_path("pipeline"), "transformer"));
  expect_same_tensors(part_of(back, "vae"), part_of(model_path("pipeline"), "vae"));  // of --config_from
  EXPECT_THAT([&] { convert_to({}, {alone, in_folder(folder, "no")}); }, Throws<Error>(Property(&Error::what, HasSubstr("--config_from"))));
  EXPECT_FALSE(fs::exists(folder / "no"));
}

TEST(Fp8, CodesAndScalesComeBack) {
  for (const auto& pipeline : kPipelines) {
    for (const std::string format : {"fp8_tensor", "fp8", "fp8_plain", "fp8_e5m2"}) {
      SCOPED_TRACE(pipeline + " " + format);
      Scratch folder;
      auto single = in_folder(folder, "single.safetensors"), split = in_folder(folder, "split"),
           back = in_folder(folder, "back.safetensors");
      convert_to({.weight_format = format}, {model_path(pipeline), single});
      convert_to({.config_from = model_path(pipeline)}, {single, split});
      convert_to({}, {split, back});
      expect_same_tensors(open_file(back), open_file(single));
      auto expected = parameters(*open_model(model_path(pipeline))), found = parameters(*open_model(single)),
           again = parameters(*open_model(split));
      double largest = 0;
      for (const auto& [name, value] : expected) {
        EXPECT_TRUE(at::equal(found.at(name), again.at(name))) << name;
        auto error = relative_error(found.at(name), value);
        EXPECT_LE(error, format == "fp8_e5m2" ? 0.13 : 0.07) << name;
        largest = std::max(largest, error);
      }
      EXPECT_GT(largest, 0.01);
      // Numbers again, which are those of the codes.
      auto numbers = in_folder(folder, "numbers.safetensors");
      convert_to({.weight_format = "none", .dtype = "fp32"}, {single, numbers});
      auto plain = parameters(*open_model(numbers));
      for (const auto& [name, value] : found) EXPECT_TRUE(at::equal(plain.at(name), value)) << name;
      auto file = open_file(numbers);
      for (const auto& name : file.names()) EXPECT_EQ(file.info(name).dtype, at::kFloat) << name;
    }
  }
}

TEST(Merge, GivesTheWeightsThatDrawingWouldHave) {
  for (const auto& pipeline : kPipelines) {
    SCOPED_TRACE(pipeline);
    Scratch folder;
    auto one = in_folder(folder, "one.safetensors"), two = in_folder(folder, "two.safetensors");
    write_adapters(one, pipeline, {.type = "lora", .rank = 2}, 2);
    write_adapters(two, pipeline, {.type = "dora", .rank = 2}, 3);
    auto model = open_model(model_path(pipeline));
    loras::merge(*model, {{one, 0.7}, {two, 0.4}});
    auto expected = parameters(*model), before = parameters(*open_model(model_path(pipeline)));
    for (const std::string out : {"out", "out.safetensors"}) {
      convert_to({.lora = {one + ":0.7", two + ":0.4"}, .dtype = "fp32"}, {model_path(pipeline), in_folder(folder, out)});
      auto found = parameters(*open_model(in_folder(folder, out)));
      int64_t changed = 0;
      for (const auto& [name, value] : expected) {
        EXPECT_TRUE(at::equal(found.at(name), value)) << name;
        changed += !at::equal(before.at(name), value);
      }
      EXPECT_GT(changed, 10);
    }
  }
}

TEST(Merge, ChangesNormsAndBiases) {
  Scratch folder;
  auto out = in_folder(folder, "out.safetensors");
  for (const std::string kind : {"norm", "full", "ia3"}) {
    SCOPED_TRACE(kind);
    auto lora = golden_path("wild/kinds/lycoris_" + kind + ".safetensors");
    auto model = open_model(model_path("sdxl_pipeline"));
    auto before = parameters(*model);
    loras::merge(*model, {{lora, 0.5}});
    convert_to({.lora = {lora + ":0.5"}, .dtype = "fp32", .overwrite = true}, {model_path("sdxl_pipeline"), out});
    auto expected = parameters(*model), found = parameters(*open_model(out));
    int64_t changed = 0;
    for (const auto& [name, value] : expected) {
      EXPECT_TRUE(at::equal(found.at(name), value)) << name;
      changed += value.dim() == 1 && !at::equal(before.at(name), value);
    }
    EXPECT_EQ(changed > 0, kind != "ia3");
  }
}

TEST(Merge, IntoFp8StaysFp8) {
  Scratch folder;
  auto lora = in_folder(folder, "lora.safetensors"), base = in_folder(folder, "base.safetensors"),
       out = in_folder(folder, "out.safetensors");
  write_adapters(lora, "pipeline", {.type = "lora", .rank = 2}, 2);
  convert_to({.weight_format = "fp8_tensor"}, {model_path("pipeline"), base});
  convert_to({.lora = {lora}}, {base, out});
  auto model = open_model(base);
  loras::merge(*model, {{lora, 1}});
  auto expected = parameters(*model), found = parameters(*open_model(out));
  for (const auto& [name, value] : expected) EXPECT_LE(relative_error(found.at(name), value), 0.04) << name;
  auto before = open_file(base), after = open_file(out);
  for (const auto& name : before.names()) EXPECT_EQ(after.info(name).dtype, before.info(name).dtype) << name;
}

TEST(Merge, HoldsATensorAtATime) {
  Scratch folder;
  auto lora = in_folder(folder, "lora.safetensors");
  write_adapters(lora, "tiny-flux", {.type = "lora", .rank = 2});
  auto out = in_folder(folder, "out.safetensors");
  Allocations allocations;
  auto before = allocations.live();
  convert_to({.lora = {lora}}, {model_path("tiny-flux"), out});
  EXPECT_LT(allocations.peak() - before, fs::file_size(out) / 2);
}

TEST(Folder, HoldsWhatItIsMadeOfUnderTheSameNames) {
  auto tensors_in = [](const fs::path& part) {
    std::map<std::string, std::string> kinds;
    const auto tensors = io::TensorSource::open_folder(part, {"diffusion_pytorch_model", "model"});
    for (const auto& name : tensors.names()) {
      const auto& info = tensors.info(name);
      kinds[name] = std::string(c10::toString(info.dtype)) + " " + testing::PrintToString(info.shape);
    }
    return kinds;
  };
  size_t num_families = 0;
  for (const auto& family : small_families()) {
    if (!family.has_own_model() || !fs::exists(family.folder() / "model_index.json")) continue;
    Scratch folder;
    const auto out = folder / "out";
    convert_to({}, {family.folder().string(), out.string()});
    for (const auto& part : family.parts)
      EXPECT_EQ(tensors_in(out / part), tensors_in(family.folder() / part)) << family.name << "'s " << part;
    ++num_families;
  }
  EXPECT_GT(num_families, 15u);
}

TEST(Output, IsWholeOrNotThere) {
  Scratch folder;
  auto out = in_folder(folder, "out");
  fs::create_directories(folder / "out");
  auto refused = [&](convert::Options options, const std::string& words) {
    EXPECT_THAT([&] { convert_to(options, {model_path("pipeline"), out}); }, Throws<Error>(Property(&Error::what, HasSubstr(words))));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  };
  refused({}, "is there already");
  refused({.lora_rank = 4, .overwrite = true}, "--lora_rank has no meaning where a model is written");
  refused({.weight_format = "nf4", .overwrite = true}, "weight_format must be one of");
  refused({.config_from = in_folder(folder, "nothing"), .overwrite = true}, "is no diffusers folder");
  refused({.lora = {model_path("pipeline") + "/nothing.safetensors"}, .overwrite = true}, "nothing.safetensors");
  convert_to({.overwrite = true}, {model_path("pipeline"), out});
  EXPECT_TRUE(fs::exists(fs::path(out) / "model_index.json"));
}

TEST(Compare, TellsWhatDiffers) {
  Scratch folder;
  auto a = in_folder(folder, "a.safetensors"), b = in_folder(folder, "b.safetensors");
  auto ones = at::ones({2, 2});
  io::save_safetensors(a, {{"same", ones}, {"moved", ones}, {"cast", ones}, {"shape", ones}, {"gone", ones}, {"nan", ones}}, {{"k", "1"}});
  io::save_safetensors(b,
                       {{"same", ones},
                        {"moved", ones * 1.5},
                        {"cast", ones.to(at::kHalf)},
                        {"shape", at::ones({4})},
                        {"new", ones},
                        {"nan", ones * std::nan("")}},
                       {{"k", "2"}});
  auto found = convert::compare(a, b, {});
  EXPECT_EQ(found.only_in_a, std::vector<std::string>{"gone"});
  EXPECT_EQ(found.only_in_b, std::vector<std::string>{"new"});
  EXPECT_EQ(found.other_shapes.size(), 1u);
  EXPECT_EQ(found.other_dtypes.size(), 1u);
  EXPECT_EQ(found.other_metadata, std::vector<std::string>{"k: 1 | 2"});
  EXPECT_EQ(found.num_equal, 2);
  ASSERT_EQ(found.differences.size(), 2u);
  EXPECT_EQ(found.differences[0].name, "nan");
  EXPECT_EQ(found.differences[1].name, "moved");
  EXPECT_DOUBLE_EQ(found.differences[1].relative, 0.5);
  EXPECT_DOUBLE_EQ(found.differences[1].largest, 0.5);
  EXPECT_FALSE(found.equal());
  EXPECT_TRUE(convert::compare(a, a, {}).equal());
  EXPECT_THAT(convert::text_of(found, "a", "b", 1), HasSubstr("  ...\n"));
}

TEST(Compare, ChangesThatDependOnTheWeightByTheirParameters) {
  auto file = [](const std::string& kind) { return golden_path("wild/kinds/lycoris_" + kind + ".safetensors"); };
  for (const std::string kind : {"ia3", "oft", "boft", "glora", "tlora", "norm", "full"})
    EXPECT_TRUE(convert::compare(file(kind), file(kind), {}).equal()) << kind;
  Scratch folder;
  auto other = in_folder(folder, "other.safetensors");
  auto source = open_file(file("boft"));
  io::NamedTensors tensors;
  for (const auto& name : source.names()) {
    bool is_scale = name.ends_with("rescale");
    tensors.emplace_back(name, is_scale ? source.tensor(name) * 1.5 : source.tensor(name));
  }
  io::save_safetensors(other, tensors, source.metadata());
  auto found = convert::compare(file("boft"), other, {});
  ASSERT_EQ(found.differences.size(), 2u);
  EXPECT_NEAR(found.differences[0].relative, 0.5, 1e-6);
}
