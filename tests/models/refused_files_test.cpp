// Files that look like those of a family and are another's, or are packed as no code reads, are refused by name.
#include "models/refused_files.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/safetensors.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/scratch.h"
#include "tests/small_families.h"

namespace burnish::refused_files_test {
using namespace burnish::models;
using testing::HasSubstr;

namespace {

ModelFiles files_of(const io::NamedTensors& tensors, const nlohmann::json& config = nullptr, const io::Metadata& metadata = {}) {
  test::Scratch scratch;
  auto file = scratch / "file.safetensors";
  io::save_safetensors(file, tensors, metadata);
  return {{{.label = "file", .folder = {}, .component = "", .config = config, .tensors = io::TensorSource::open({file})}}, {}};
}

bool is_taken(const ModelFiles& files) {
  return std::ranges::any_of(all_families(), [&](const Family* family) { return family->recognises(files); });
}

at::Tensor of_mark(const Mark& mark) {
  std::vector<int64_t> shape(mark.dim + 1, 1);
  if (mark.length > 0) shape[mark.dim] = mark.length;
  return at::zeros(shape);
}

/// What is said of them, or nothing.
std::string refusal(const ModelFiles& files) try {
  refuse_unread(files);
  return "";
} catch (const Error& error) {
  EXPECT_EQ(error.code(), Exit::data);
  return error.what();
}

/// What makes a row of the table: the tensors by which it is told, below a prefix, and that by which a family would take it.
io::NamedTensors tensors_of(const LookAlike& model, const std::string& prefix) {
  io::NamedTensors tensors;
  for (const auto& mark : model.has) tensors.emplace_back(prefix + std::string(mark.tensor), of_mark(mark));
  const auto taken = prefix + std::string(model.taken_by);
  const bool is_there = std::ranges::any_of(tensors, [&](const auto& tensor) { return tensor.first == taken; });
  if (!model.taken_by.empty() && !is_there) tensors.emplace_back(taken, at::zeros({1}));
  if (tensors.empty()) tensors.emplace_back("something", at::zeros({1}));
  return tensors;
}

class LookAlikeOf : public testing::TestWithParam<LookAlike> {};

}  // namespace

TEST_P(LookAlikeOf, IsRefusedByItsNameThoughAFamilyWouldTakeIt) {
  const auto& model = GetParam();
  const auto said = "file is a transformer of " + std::string(model.name) + ", which is not trained here";
  for (const std::string prefix : {"", "model.diffusion_model."}) {
    if (!model.taken_by.empty()) {
      EXPECT_TRUE(is_taken(files_of({{prefix + std::string(model.taken_by), at::zeros({1})}}))) << model.taken_by;
    }
    if (model.has.empty()) continue;
    auto tensors = tensors_of(model, prefix);
    EXPECT_EQ(is_taken(files_of(tensors)), !model.taken_by.empty());
    EXPECT_THAT(refusal(files_of(tensors)), HasSubstr(said));
    // Without any one of them it is not told, nor where a family says its own class.
    for (size_t i = 0; i < model.has.size(); ++i) {
      auto others = tensors;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (!others.empty()) {
        EXPECT_THAT(refusal(files_of(others)), testing::Not(HasSubstr(said))) << model.has[i].tensor;
      }
    }
    EXPECT_EQ(refusal(files_of(tensors, {{"_class_name", "FluxTransformer2DModel"}})), "");
  }
  for (const auto name : model.classes)
    EXPECT_THAT(refusal(files_of(tensors_of(model, ""), {{"_class_name", std::string(name)}})), HasSubstr(said)) << name;
}

INSTANTIATE_TEST_SUITE_P(Rows, LookAlikeOf, testing::ValuesIn(look_alikes()), [](const auto& info) {
  std::string name(info.param.name);
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name + "_" + std::to_string(info.index);
});

TEST(LookAlikes, AreNoneOfTheFamilies) {
  for (const auto& family : test::small_families()) {
    ModelNames names;
    names.model = {family.folder().string()};
    EXPECT_EQ(refusal(open_model_files(names)), "") << family.name;
  }
  for (const auto& name : published_models()) {
    auto model = open_published_model(name);
    EXPECT_EQ(refusal(model->files()), "") << name;
  }
}

TEST(LookAlikes, WhatAFamilyHasToo) {
  // Z-Image has the width of Ming-Image, and a token that fills up captions.
  const io::NamedTensors tensors{{"cap_embedder.1.weight", at::zeros({3840, 1})}, {"x_pad_token", at::zeros({1, 1})}};
  EXPECT_THAT(refusal(files_of(tensors)), HasSubstr("Ming-Image"));
  auto with_token = tensors;
  with_token.emplace_back("cap_pad_token", at::zeros({1, 1}));
  EXPECT_EQ(refusal(files_of(with_token)), "");
  // Qwen-Image has Mage-Flow's names.
  EXPECT_EQ(refusal(files_of({{"txt_norm.weight", at::zeros({3584})},
                              {"proj_out.weight", at::zeros({64, 1})},
                              {"transformer_blocks.0.txt_mod.1.weight", at::zeros({1, 1})}})),
            "");
}

namespace {

io::NamedTensors marked(const std::string& json, at::ScalarType dtype) {
  auto bytes = at::empty({static_cast<int64_t>(json.size())}, at::kByte);
  std::ranges::copy(json, static_cast<char*>(bytes.data_ptr()));
  return {{"layer.weight", at::zeros({4, 4}).to(dtype)}, {"layer.comfy_quant", bytes}, {"layer.weight_scale", at::ones({4})}};
}

}  // namespace

TEST(PackedFiles, AreRefusedByTheirFormats) {
  auto of = [](const std::string& ending, const at::Tensor& tensor) {
    return refusal(files_of({{"layer.weight", at::zeros({4, 4}, at::kByte)}, {"layer" + ending, tensor}}));
  };
  for (const auto& [ending, words] : {std::pair(".weight_scale_2", "NVFP4 ('layer.weight_scale_2')"),
                                      {".weight_scale_inv", "FP8 with a scale for each block"},
                                      {".weight_s_rel", "W4A8"},
                                      {".wscales", "SVDQuant"},
                                      {".qweight", "packed integers"},
                                      {".weight._scale", "quanto"},
                                      {"._weight_scale", "torchao"},
                                      {".svd_up", "SDNQ"},
                                      {".pre_quant_scale", "scaled inputs (AWQ)"}})
    EXPECT_THAT(of(ending, at::zeros({1})), HasSubstr(words)) << ending;
  EXPECT_THAT(of(".weight_scale", at::zeros({4, 1}, at::kByte)), HasSubstr("MXFP8"));
  EXPECT_THAT(refusal(files_of({{"layer.weight", at::zeros({4, 4}, at::kChar)}, {"layer.weight_scale", at::ones({4})}})),
              HasSubstr("INT8 ('layer.weight_scale')"));
  EXPECT_THAT(refusal(files_of({{"layer.weight", at::zeros({4, 4}, at::kChar)}, {"layer.scale", at::ones({4, 1})}})), HasSubstr("SDNQ"));
  for (const auto& [json, words] : {std::pair(R"({"format": "awq_w4a16"})", "awq_w4a16")}) {
    EXPECT_THAT(refusal(files_of(marked(json, at::kChar))), HasSubstr(words)) << json;
    const io::Metadata metadata{{"_quantization_metadata", std::string(R"({"layers": {"layer": )") + json + "}}"}};
    EXPECT_THAT(refusal(files_of({{"layer.weight", at::zeros({4, 4})}}, nullptr, metadata)), HasSubstr(words)) << json;
  }
  EXPECT_THAT(of(".weight_scale_2", at::zeros({1})), HasSubstr("take the model's files in bf16, fp16, FP8, INT8, NF4 or GGUF"));
}

TEST(PackedFiles, OfFp8AreRead) {
  EXPECT_EQ(refusal(files_of(marked(R"({"format": "float8_e4m3fn"})", at::kFloat8_e4m3fn))), "");
  EXPECT_EQ(refusal(files_of(marked("no json", at::kFloat8_e4m3fn))), "");
  const io::Metadata metadata{{"_quantization_metadata", R"({"layers": {"layer": {"format": "float8_e4m3fn"}}})"}};
  EXPECT_EQ(refusal(files_of({{"layer.weight", at::zeros({4, 4})}}, nullptr, metadata)), "");
}

}  // namespace burnish::refused_files_test
