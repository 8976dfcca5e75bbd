#include "models/coded_weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::models;
using testing::HasSubstr;

namespace {

io::TensorSource saved(const test::Scratch& scratch, const io::NamedTensors& tensors, const io::Metadata& metadata = {}) {
  io::save_safetensors(scratch / "file.safetensors", tensors, metadata);
  return io::TensorSource::open({scratch / "file.safetensors"});
}

at::Tensor bytes_of(const std::string& text) {
  auto bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::ranges::copy(text, static_cast<char*>(bytes.data_ptr()));
  return bytes;
}

/// What bitsandbytes and gguf make of a weight, and the tensors that are theirs.
void expect_as_published(const std::string& file, const std::vector<std::string>& flat) {
  auto shown = show_weights(test::golden(file));
  auto expected = test::golden("coded/expected.safetensors");
  auto is_flat = [&](const std::string& name) { return std::ranges::find(flat, name) != flat.end(); };
  size_t num_coded = 0;
  for (const auto& name : shown.names()) {
    if (!expected.contains(name)) continue;
    ++num_coded;
    SCOPED_TRACE(name);
    const auto exact = expected.tensor(name);
    EXPECT_EQ(shown.info(name).shape, exact.sizes().vec());
    EXPECT_TRUE(
        at::equal(shown.tensor(name).to(at::kFloat), is_flat(name) ? exact.to(at::kBFloat16).to(at::kFloat) : exact.to(at::kFloat)));
    auto codes = shown.codes(name);
    if (shown.info(name).dtype == at::kBFloat16) continue;
    ASSERT_TRUE(codes.has_value());
    EXPECT_TRUE(at::equal(numbers_of(codes->rows(1, 2)), exact.narrow(0, 1, 2)));
  }
  EXPECT_GE(num_coded, 6u);
}

}  // namespace

TEST(CodedWeights, OfBitsandbytesAreItsNumbersBitForBit) {
  expect_as_published("coded/bitsandbytes.safetensors", {"odd.weight"});
  auto shown = show_weights(test::golden("coded/bitsandbytes.safetensors"));
  EXPECT_EQ(shown.names(),
            (std::vector<std::string>{"a.weight", "b.weight", "c.weight", "kernel.weight", "norm.weight", "odd.weight", "rows.weight"}));
  EXPECT_EQ(shown.info("a.weight").codes, CodeKind::nf4);
  EXPECT_EQ(shown.info("b.weight").codes, CodeKind::fp4);
  EXPECT_EQ(shown.codes("c.weight")->group, 128);
  EXPECT_EQ(io::numbers_name(shown.info("rows.weight")), "INT8");
  EXPECT_FALSE(shown.info("odd.weight").codes.has_value());
}

TEST(CodedWeights, OfGgufAreItsNumbersBitForBit) {
  expect_as_published("coded/blocks.gguf", {"conv.weight", "bf16.weight"});
  auto shown = show_weights(test::golden("coded/blocks.gguf"));
  EXPECT_EQ(shown.info("conv.weight").shape, (std::vector<int64_t>{32, 16, 3, 3}));
}

TEST(CodedWeights, OfComfyAreItsNumbers) {
  auto shown = show_weights(test::golden("coded/comfyui.safetensors"));
  auto expected = test::golden("coded/expected.safetensors");
  EXPECT_EQ(shown.names(),
            (std::vector<std::string>{"int8_few.weight", "int8_plain.weight", "int8_rotated.weight", "mxfp8.weight", "nvfp4.weight"}));
  for (const auto& [name, group] : {std::pair("mxfp8.weight", 32), {"nvfp4.weight", 16}, {"int8_plain.weight", 0}}) {
    EXPECT_TRUE(at::equal(shown.tensor(name), expected.tensor(name))) << name;
    EXPECT_TRUE(at::equal(numbers_of(*shown.codes(name)), expected.tensor(name))) << name;
    EXPECT_EQ(shown.codes(name)->group, group) << name;
    EXPECT_EQ(code_block(*shown.info(name).codes).group, group) << name << ": what plans count by";
  }
  for (const auto& [name, rotation] : {std::pair("int8_few.weight", 16), {"int8_rotated.weight", 256}}) {
    EXPECT_EQ(io::numbers_name(shown.info(name)), "INT8 (ConvRot)");
    EXPECT_EQ(shown.codes(name)->rotation, rotation);
    // It multiplies by a matrix, whose sums are in another order.
    EXPECT_LE(test::relative_error(shown.tensor(name), expected.tensor(name)), 1e-6) << name;
    EXPECT_TRUE(at::equal(numbers_of(shown.codes(name)->rows(1, 2)), shown.tensor(name).narrow(0, 1, 2))) << name;
  }
}

TEST(CodedWeights, EncodersOfGgufHaveTheNamesOfTransformers) {
  auto t5 = show_weights(test::golden("coded/t5.gguf")).names();
  EXPECT_THAT(t5, testing::UnorderedElementsAre(
                      "shared.weight", "encoder.final_layer_norm.weight", "encoder.block.0.layer.0.SelfAttention.q.weight",
                      "encoder.block.0.layer.0.SelfAttention.k.weight", "encoder.block.0.layer.0.SelfAttention.v.weight",
                      "encoder.block.0.layer.0.SelfAttention.o.weight", "encoder.block.0.layer.0.layer_norm.weight",
                      "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", "encoder.block.0.layer.1.layer_norm.weight",
                      "encoder.block.0.layer.1.DenseReluDense.wi_0.weight", "encoder.block.0.layer.1.DenseReluDense.wi_1.weight",
                      "encoder.block.0.layer.1.DenseReluDense.wo.weight"));
  auto qwen = show_weights(test::golden("coded/qwen.gguf"));
  EXPECT_EQ(qwen.names().size(), 14u);
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "model.layers.0.self_attn.q_proj.weight",
                           "model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.k_norm.weight",
                           "model.layers.0.mlp.gate_proj.weight", "model.layers.0.input_layernorm.weight"})
    EXPECT_TRUE(qwen.contains(name)) << name;
}

TEST(CodedWeights, OfComfyAreToldByTheirMarks) {
  test::Scratch scratch;
  auto codes = at::randint(-127, 128, {4, 6}, at::kChar);
  auto scales = at::rand({4, 1});
  auto shown = show_weights(
      saved(scratch, {{"l.weight", codes}, {"l.weight_scale", scales}, {"l.comfy_quant", bytes_of(R"({"format": "int8_tensorwise"})")}}));
  EXPECT_EQ(shown.names(), std::vector<std::string>{"l.weight"});
  EXPECT_TRUE(at::equal(shown.tensor("l.weight"), codes.to(at::kFloat) * scales));
  // What is rotated says by how many; what is of an unknown format stays as it lies.
  for (const char* mark :
       {R"({"format": "int8_tensorwise", "convrot": true})", R"({"format": "int8_tensorwise", "params": {"convrot": true}})",
        R"({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 2})"}) {
    auto source = saved(scratch, {{"l.weight", codes}, {"l.weight_scale", scales}, {"l.comfy_quant", bytes_of(mark)}});
    EXPECT_THAT(test::error_of([&] { show_weights(source); }), HasSubstr("no power of 4 that divides its rows")) << mark;
  }
  for (const char* mark : {R"({"format": "new"})", "no json"}) {
    auto kept = show_weights(saved(scratch, {{"l.weight", codes}, {"l.weight_scale", scales}, {"l.comfy_quant", bytes_of(mark)}}));
    EXPECT_EQ(kept.names().size(), 3u) << mark;
    EXPECT_EQ(kept.info("l.weight").dtype, at::kChar) << mark;
  }
  auto fp8 = at::randn({4, 6}).to(at::kFloat8_e4m3fn);
  const io::Metadata metadata{{"_quantization_metadata", R"({"layers": {"l": {"format": "mxfp8"}}})"}};
  EXPECT_EQ(show_weights(saved(scratch, {{"model.diffusion_model.l.weight", fp8}}, metadata)).info("model.diffusion_model.l.weight").dtype,
            at::kFloat8_e4m3fn);
}

TEST(CodedWeights, OfFp8HaveAScaleOrOneARow) {
  test::Scratch scratch;
  auto fp8 = at::randn({4, 6}).to(at::kFloat8_e4m3fn);
  auto numbers = fp8.to(at::kFloat);
  auto of = [&](const char* ending, const at::Tensor& scale) {
    return show_weights(saved(scratch, {{"l.weight", fp8},
                                        {std::string("l.") + ending, scale},
                                        {"l.scale_input", at::ones({})},
                                        {"scaled_fp8", at::zeros({2}).to(at::kFloat8_e4m3fn)}}));
  };
  for (const char* ending : {"scale_weight", "weight_scale"}) {
    EXPECT_EQ(of(ending, at::full({}, 0.5)).names(), std::vector<std::string>{"l.weight"});
    EXPECT_TRUE(at::equal(of(ending, at::full({}, 0.5)).tensor("l.weight"), numbers * 0.5));
    auto by_row = at::rand({4});
    EXPECT_TRUE(at::equal(of(ending, by_row).tensor("l.weight"), numbers * by_row.unsqueeze(1)));
    auto damaged = of(ending, at::ones({3}));
    EXPECT_THAT(test::error_of([&] { damaged.tensor("l.weight"); }), HasSubstr("has 3 scales for the 4 rows"));
  }
}

TEST(CodedWeights, DamageOfBitsandbytesIsNamed) {
  test::Scratch scratch;
  auto file = test::golden("coded/bitsandbytes.safetensors");
  auto with = [&](const std::string& changed, const at::Tensor& tensor) {
    io::NamedTensors tensors;
    for (const auto& name : file.names()) {
      if (name != changed) tensors.emplace_back(name, file.tensor(name));
      else if (tensor.defined()) tensors.emplace_back(name, tensor);
    }
    auto source = saved(scratch, tensors);
    return test::error_of([&] {
      auto shown = show_weights(source);
      for (const auto& name : shown.names()) shown.tensor(name);
    });
  };
  EXPECT_THAT(with("a.weight.absmax", {}),
              HasSubstr("'a.weight', as bitsandbytes stores them, do not fit together: there is no 'a.weight.absmax'"));
  EXPECT_THAT(with("a.weight.nested_absmax", at::ones({7})), HasSubstr("has 7 numbers where 1 were expected"));
  EXPECT_THAT(with("a.weight.quant_map", at::ones({16})), HasSubstr("quant_map is not that of NF4"));
  EXPECT_THAT(with("a.weight", at::zeros({5, 1}, at::kByte)), HasSubstr("5 bytes for 6144 numbers"));
  const std::string mark = "a.weight.quant_state.bitsandbytes__nf4";
  for (const auto& [json, words] : {std::pair("no", "no JSON"),
                                    {R"({"blocksize": 64})", "it has no shape"},
                                    {R"({"shape": [48, -128]})", "a side of -128"},
                                    {R"({"shape": [1099511627776, 1099511627776]})", "a side of"},
                                    {R"({"shape": "48"})", "its shape is"},
                                    {R"({"shape": [48, 128], "blocksize": 0})", "its blocks have 0"}})
    EXPECT_THAT(with(mark, bytes_of(json)), HasSubstr(words)) << json;
  EXPECT_THAT(with("rows.SCB", at::ones({3})), HasSubstr("'rows.SCB' has 3 scales for 16 rows"));
}

TEST(CodedWeights, RowsFollowTheirLayersIntoStores) {
  using Op = io::KeyRule::Op;
  test::Scratch scratch;
  auto given = test::golden("coded/bitsandbytes.safetensors");
  auto blocks = show_weights(test::golden("coded/blocks.gguf"));
  const auto numbers = blocks.tensor("q5_k.weight");
  const io::KeyMap keys({{"q5_k.weight", {"q.weight", "k.weight"}, Op::stack_rows}});
  const io::Shapes wanted{{"q.weight", {2, 512}}, {"k.weight", {1, 512}}};
  auto parts = io::load_from(blocks, "q5_k.weight", keys, wanted);
  EXPECT_TRUE(at::equal(numbers_of(*parts.at("q.weight").codes), numbers.narrow(0, 0, 2)));
  EXPECT_TRUE(at::equal(numbers_of(*parts.at("k.weight").codes), numbers.narrow(0, 2, 1)));
  auto shown = show_weights(given);
  const auto a = shown.tensor("a.weight");
  auto swapped = io::load_from(shown, "a.weight", io::KeyMap({{"a.weight", {"s.weight"}, Op::swap_halves}}), {{"s.weight", {48, 128}}});
  EXPECT_TRUE(at::equal(numbers_of(*swapped.at("s.weight").codes), at::cat({a.narrow(0, 24, 24), a.narrow(0, 0, 24)})));
  auto turned = io::load_from(shown, "a.weight", io::KeyMap({{"a.weight", {"t"}, Op::transpose}}), {{"t", {128, 48}}});
  EXPECT_FALSE(turned.at("t").codes.has_value());
  EXPECT_TRUE(at::equal(turned.at("t").numbers, a.t()));
}
