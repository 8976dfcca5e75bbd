#include "models/files/coded_weights.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "io/safetensors.h"
#include "tests/coded_files.h"
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
  EXPECT_EQ(shown.info("a.weight").kind(), CodeKind::nf4);
  EXPECT_EQ(shown.info("b.weight").kind(), CodeKind::fp4);
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
  EXPECT_EQ(shown.names(), (std::vector<std::string>{"int4.weight", "int8_few.weight", "int8_plain.weight", "int8_rotated.weight",
                                                     "mxfp8.weight", "nvfp4.weight"}));
  for (const auto& [name, group] : {std::pair("mxfp8.weight", 32), {"nvfp4.weight", 16}, {"int8_plain.weight", 0}}) {
    EXPECT_TRUE(at::equal(shown.tensor(name), expected.tensor(name))) << name;
    EXPECT_TRUE(at::equal(numbers_of(*shown.codes(name)), expected.tensor(name))) << name;
    EXPECT_EQ(shown.codes(name)->group, group) << name;
  }
  for (const auto& [name, rotation] : {std::pair("int8_few.weight", 16), {"int8_rotated.weight", 256}, {"int4.weight", 64}}) {
    EXPECT_EQ(io::numbers_name(shown.info(name)), rotation == 64 ? "INT4 (ConvRot)" : "INT8 (ConvRot)");
    EXPECT_EQ(shown.codes(name)->rotation, rotation);
    // It multiplies by a matrix, whose sums are in another order.
    EXPECT_LE(test::relative_error(shown.tensor(name), expected.tensor(name)), 1e-6) << name;
    EXPECT_TRUE(at::equal(numbers_of(shown.codes(name)->rows(1, 2)), shown.tensor(name).narrow(0, 1, 2))) << name;
  }
}

/// Four and six bits become levels that INT8 (ConvRot) has.
TEST(CodedWeights, OfGroupsAreItsNumbers) {
  const auto file = test::golden("coded/grouped.safetensors");
  auto shown = show_weights(file);
  for (const auto& [layer, rotation] : {std::pair("four", 256), {"few", 64}, {"six", 256}}) {
    const auto name = layer + std::string(".weight");
    EXPECT_EQ(io::numbers_name(shown.info(name)), "INT8 (ConvRot)") << name;
    EXPECT_EQ(shown.codes(name)->rotation, rotation);
    EXPECT_LE(test::relative_error(shown.tensor(name), file.tensor("expected." + std::string(layer))), 1e-6) << name;
    for (const char* ending : {"_s_rel", "_s_channel", "_codebook"}) EXPECT_FALSE(shown.contains(name + ending)) << name << ending;
  }
  EXPECT_EQ(shown.info("moved.weight").dtype, at::kChar) << "codes around zeros of their own stay as they lie";
  EXPECT_TRUE(shown.contains("moved.weight_s_rel"));
}

TEST(CodedWeights, OfTorchaoQuantoAndBlackForestLabsAreTheirNumbersBitForBit) {
  expect_as_published("coded/rows.safetensors", {});
  auto shown = show_weights(test::golden("coded/rows.safetensors"));
  EXPECT_EQ(shown.names(), (std::vector<std::string>{"ao_fp8.weight", "ao_int8.weight", "bfl.weight", "bfl_fp8.weight", "quanto_fp8.weight",
                                                     "quanto_int8.weight"}));
  EXPECT_EQ(io::numbers_name(shown.info("bfl.weight")), "FP4 (E2M1)");
  EXPECT_EQ(io::numbers_name(shown.info("quanto_int8.weight")), "INT8");
}

TEST(CodedWeights, WithoutAMarkAreToldByWhatGoesWithThem) {
  test::Scratch scratch;
  const auto codes = at::randint(0, 256, {128, 32}, at::kByte);
  const auto scales = at::rand({128, 4}).to(at::kFloat8_e4m3fn);
  io::NamedTensors tensors{{"l.weight", codes}, {"l.weight_scale", scales}, {"l.weight_scale_2", at::ones({})}};
  // Both ways of NVFP4 have these shapes: without the scale of its inputs it may be either.
  EXPECT_EQ(show_weights(saved(scratch, tensors)).info("l.weight").dtype, at::kByte);
  auto with_input = tensors;
  with_input.emplace_back("l.input_scale", at::ones({}));
  auto low_first = show_weights(saved(scratch, with_input));
  EXPECT_EQ(low_first.names(), std::vector<std::string>{"l.weight"});
  auto with_mark = with_input;
  with_mark.emplace_back("l.comfy_quant", bytes_of(R"({"format": "nvfp4"})"));
  auto high_first = show_weights(saved(scratch, with_mark));
  EXPECT_EQ(low_first.codes("l.weight")->codes[5][7].item<int64_t>(),
            (codes[5][7].item<int64_t>() % 16) * 16 + codes[5][7].item<int64_t>() / 16);
  EXPECT_TRUE(at::equal(high_first.codes("l.weight")->codes, codes));
  with_input[1].second = scales.narrow(1, 0, 3);
  EXPECT_THAT(test::error_of([&] { show_weights(saved(scratch, with_input)); }), HasSubstr("has not one scale for each 16 numbers"));
  // torchao's numbers around another zero are not those of the codes.
  const auto whole = at::randint(-127, 128, {4, 6}, at::kChar);
  auto moved = show_weights(saved(
      scratch, {{"l._weight_qdata", whole}, {"l._weight_scale", at::ones({4, 1})}, {"l._weight_zero_point", at::ones({4, 1}, at::kChar)}}));
  EXPECT_THAT(test::error_of([&] { moved.tensor("l.weight"); }), HasSubstr("'l._weight_zero_point' moves the zero of 'l.weight'"));
  // Groups of a row have scales in another shape, and stay as they lie.
  auto groups = show_weights(saved(scratch, {{"l._weight_qdata", whole}, {"l._weight_scale", at::ones({4, 2})}}));
  EXPECT_TRUE(groups.contains("l._weight_scale"));
}

TEST(CodedWeights, NumbersHaveTheShapeThatMetadataKeepOfThem) {
  test::Scratch scratch;
  const auto numbers = at::arange(48, at::kFloat);
  auto shown = [&](const char* shape) {
    return show_weights(saved(scratch, {{"patch.weight", numbers.view({4, 12})}, {"other.weight", at::ones({4, 12})}},
                              {{"comfy.gguf.orig_shape.patch.weight", shape}}));
  };
  const auto kept = shown("4,3,1,2,2");
  EXPECT_EQ(kept.info("patch.weight").shape, (std::vector<int64_t>{4, 3, 1, 2, 2}));
  EXPECT_TRUE(at::equal(kept.tensor("patch.weight"), numbers.view({4, 3, 1, 2, 2})));
  EXPECT_EQ(kept.info("other.weight").shape, (std::vector<int64_t>{4, 12}));
  for (const char* damaged : {"4,3,1,2", "4,0,12", "-4,-12", "four"})
    EXPECT_THAT(test::error_of([&] { shown(damaged); }), HasSubstr("which do not make its original shape")) << damaged;
}

/// As ComfyUI-GGUF writes the kernels of Wan's patches.
TEST(CodedWeights, KernelsOfClipsHaveFiveSidesInGguf) {
  test::Scratch scratch;
  const auto kernel = at::arange(48, at::kFloat).view({3, 2, 1, 2, 4});
  test::save_gguf(scratch / "clip.gguf", {{"patch_embedding.weight", kernel}}, [](const auto&, const auto&) { return false; });
  const auto source = show_weights(io::TensorSource::open({scratch / "clip.gguf"}));
  EXPECT_TRUE(at::equal(source.tensor("patch_embedding.weight"), kernel));
}

TEST(CodedWeights, QueriesAndKeysOfLlamaHaveTheirRowsInOrder) {
  auto shown = show_weights(test::golden("coded/llama.gguf"));
  for (const char* part : {"q", "k", "v"}) {
    const auto name = std::string("model.layers.0.self_attn.") + part + "_proj.weight";
    const auto rows = shown.tensor(name).to(at::kFloat);
    const auto expected = at::arange(rows.size(0), at::kFloat).unsqueeze(1).expand(rows.sizes());
    EXPECT_LE((rows - expected).abs().max().item<double>(), *part == 'k' ? 0 : 0.05) << part;
  }
  EXPECT_TRUE(shown.info("model.layers.0.self_attn.q_proj.weight").codes.has_value());
  EXPECT_TRUE(at::equal(numbers_of(*shown.codes("model.layers.0.self_attn.q_proj.weight")),
                        shown.tensor("model.layers.0.self_attn.q_proj.weight")));
}

namespace {

/// Ways in which a tensor of a file may be wrong; undefined: it is not there.
std::vector<at::Tensor> damages(const at::Tensor& tensor) {
  std::vector<at::Tensor> all{at::Tensor(), tensor.to(at::kFloat).to(at::kShort), tensor.to(at::kFloat), tensor.unsqueeze(0).contiguous()};
  if (tensor.dim() > 0 && tensor.size(0) > 1) all.push_back(tensor.narrow(0, 0, tensor.size(0) - 1).contiguous());
  if (tensor.dim() > 1 && tensor.size(-1) > 1) all.push_back(tensor.narrow(-1, 0, tensor.size(-1) - 1).contiguous());
  if (tensor.scalar_type() == at::kByte && tensor.dim() == 1) {
    for (const char* mark : {"", "[]", R"({"format": 3})", R"({"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": -4})",
                             R"({"format": "nvfp4", "params": 1})", R"({"format": "convrot_w4a4", "convrot_groupsize": "many"})",
                             R"({"format": "mxfp8", "params": {"convrot": []}})", R"({"shape": [1, -3], "blocksize": "x"})"})
      all.push_back(bytes_of(mark));
  }
  return all;
}

}  // namespace

TEST(CodedWeights, DamagedPartsEndInASentence) {
  test::Scratch scratch;
  int num_refused = 0, num_read = 0;
  for (const char* file : {"bitsandbytes", "comfyui", "rows", "grouped"}) {
    const auto source = test::golden(std::string("coded/") + file + ".safetensors");
    io::NamedTensors tensors;
    for (const auto& name : source.names()) tensors.emplace_back(name, source.tensor(name));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto damaged = damages(tensors[i].second);
      for (size_t way = 0; way < damaged.size(); ++way) {
        SCOPED_TRACE(std::string(file) + ", " + tensors[i].first + ", way " + std::to_string(way));
        auto others = tensors;
        if (damaged[way].defined()) others[i].second = damaged[way];
        else others.erase(others.begin() + static_cast<int64_t>(i));
        try {
          const auto shown = show_weights(saved(scratch, others));
          for (const auto& name : shown.names()) {
            const auto codes = shown.info(name).codes ? shown.codes(name) : std::nullopt;
            EXPECT_EQ(codes ? numbers_of(*codes).sizes() : shown.tensor(name).sizes(), at::IntArrayRef(shown.info(name).shape)) << name;
          }
          ++num_read;  // as another weight, or as what no coding takes
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Exit::data);
          EXPECT_THAT(error.what(), HasSubstr((scratch / "file.safetensors").string()));
          ++num_refused;
        }
      }
    }
  }
  EXPECT_GT(num_refused, 50);
  EXPECT_GT(num_read, 20);
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
    EXPECT_THAT(test::error_of([&] { of(ending, at::ones({3})); }), HasSubstr("has 3 scales for the 4 rows"));
  }
}

/// Bytes that are taken for scales would be numbers of another size.
TEST(CodedWeights, ScalesAreFloatingPointNumbers) {
  test::Scratch scratch;
  auto refusal = [&](const char* file, const std::string& scale) {
    const auto source = test::golden(std::string("coded/") + file + ".safetensors");
    io::NamedTensors tensors;
    for (const auto& name : source.names())
      tensors.emplace_back(name, name == scale ? source.tensor(name).to(at::kFloat).to(at::kByte) : source.tensor(name));
    const auto damaged = saved(scratch, tensors);
    return test::error_of([&] {
      const auto shown = show_weights(damaged);
      for (const auto& name : shown.names()) shown.tensor(name);
    });
  };
  for (const auto& [file, scale] : {std::pair("comfyui", "int8_plain.weight_scale"),
                                    {"comfyui", "int4.weight_scale"},
                                    {"comfyui", "nvfp4.weight_scale_2"},
                                    {"rows", "quanto_int8.weight._scale"},
                                    {"rows", "ao_fp8._weight_scale"},
                                    {"bitsandbytes", "rows.SCB"},
                                    {"bitsandbytes", "a.weight.nested_absmax"},
                                    {"bitsandbytes", "a.weight.quant_map"}})
    EXPECT_THAT(refusal(file, scale), HasSubstr("floating-point numbers were expected")) << scale;
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
  EXPECT_THAT(with("rows.SCB", at::ones({3})), HasSubstr("'rows.SCB' has 3 scales for the 16 rows"));
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
