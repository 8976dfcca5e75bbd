// Parity of Gemma's text encoders with transformers' Gemma3TextModel and Gemma4UnifiedTextModel on small random models
// (tests/golden/make_gemma.py).
#include "models/text/gemma.h"

#include <nlohmann/json.hpp>

#include "models/text/qwen.h"
#include "tests/golden.h"
#include "tests/models/compared.h"
#include "tests/models/load.h"

namespace burnish::gemma_test {
using namespace burnish::models;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const at::TensorOptions kMeta = at::TensorOptions().device(at::kMeta);

struct Golden {
  explicit Golden(const std::string& kind) : file(test::golden("gemma_" + kind + ".safetensors")) { test::load(encoder, tensors); }
  at::Tensor expected(const std::string& text, int64_t after) const { return file.tensor(text + "." + std::to_string(after)); }

  io::TensorSource file;
  nlohmann::json json = nlohmann::json::parse(file.metadata().at("config"));
  io::TensorSource tensors = text::gemma_tensors(file.below("w."));
  text::GemmaConfig config = text::gemma_config(json, tensors.shapes());
  text::GemmaEncoder encoder{config, kMeta};
};

io::Shapes shapes_of(nn::Module&& module) {
  io::Shapes shapes;
  for (auto& [path, slot] : module.parameters()) shapes[path] = slot->sizes().vec();
  return shapes;
}

void expect_equal(const text::GemmaAttention& found, const text::GemmaAttention& expected) {
  EXPECT_EQ(found.num_kv_heads, expected.num_kv_heads);
  EXPECT_EQ(found.head_dim, expected.head_dim);
  EXPECT_EQ(found.rope_theta, expected.rope_theta);
  EXPECT_EQ(found.rope_factor, expected.rope_factor);
  EXPECT_EQ(found.rotated, expected.rotated);
  EXPECT_EQ(found.has_values, expected.has_values);
  EXPECT_EQ(found.window, expected.window);
  EXPECT_EQ(found.scale, expected.scale);
}

}  // namespace

TEST(GemmaParity, EveryStateOfATextAndOfOneThatIsLongerThanTheWindow) {
  at::NoGradGuard no_grad;
  for (const std::string kind : {"3", "4"}) {
    Golden golden(kind);
    for (const auto& [ids, states] : std::map<std::string, std::string>{{"in.ids", "out"}, {"long.ids", "long"}}) {
      int64_t next = 0;
      golden.encoder.each_state(on_device(golden.file.tensor(ids)), [&](int64_t layer, const at::Tensor& state_BLE) {
        EXPECT_EQ(layer, next++);
        EXPECT_LE(relative_error(state_BLE, golden.expected(states, layer)), tolerance(1e-5)) << kind << " " << states << " " << layer;
      });
      EXPECT_EQ(next, golden.encoder.num_states());
    }
  }
}

TEST(GemmaParity, ChosenStatesAreThoseOfAllAndTheWindowMatters) {
  at::NoGradGuard no_grad;
  for (const std::string kind : {"3", "4"}) {
    Golden golden(kind);
    auto chosen = golden.encoder.forward(on_device(golden.file.tensor("long.ids")), {0, 4});
    ASSERT_EQ(chosen.size(), 2u);
    EXPECT_LE(relative_error(chosen[0], golden.expected("long", 0)), tolerance(1e-5)) << kind;
    EXPECT_LE(relative_error(chosen[1], golden.expected("long", 4)), tolerance(1e-5)) << kind;
    auto wide = golden.config;
    wide.sliding.window = 13;
    text::GemmaEncoder other(wide, kMeta);
    test::load(other, golden.tensors);
    EXPECT_GT(relative_error(other.forward(on_device(golden.file.tensor("long.ids")), {1})[0], golden.expected("long", 1)), 1e-3) << kind;
  }
}

TEST(Gemma, EmbeddingsAreScaledAsBf16RoundsTheRoot) {
  at::NoGradGuard no_grad;
  text::GemmaEncoder encoder({.vocab_size = 3, .width = 3840, .hidden = 2, .num_layers = 1}, at::TensorOptions());
  for (auto& [path, slot] : encoder.parameters()) slot->fill_(1);
  EXPECT_EQ(encoder.forward(at::zeros({1, 1}, at::kLong), {0})[0].max().item<double>(), 62);
}

TEST(Gemma, PublishedModelsHaveThePublishedSizesAndAreReadOffTheirTensors) {
  auto gemma3 = shapes_of(text::GemmaEncoder(text::GemmaConfig(), kMeta)),
       gemma4 = shapes_of(text::GemmaEncoder(text::gemma4_12b(), kMeta));
  EXPECT_EQ(gemma3.size(), 626u);
  int64_t count = 0;
  for (const auto& [name, shape] : gemma3) count += c10::multiply_integers(shape);
  EXPECT_NEAR(static_cast<double>(count) / 1e9, 11.766, 0.0005);
  for (const auto& [shapes, published] : {std::pair{gemma3, text::GemmaConfig()}, std::pair{gemma4, text::gemma4_12b()}}) {
    auto found = text::gemma_config(nullptr, shapes);
    expect_equal(found.sliding, published.sliding);
    expect_equal(found.full, published.full);
    EXPECT_EQ(found.num_layers, 48);
    EXPECT_EQ(found.num_heads, 16);
    EXPECT_EQ(found.is_gemma4, published.is_gemma4);
    EXPECT_EQ(found.vocab_size, published.vocab_size);
  }
}

TEST(Gemma, ConfigsOfTransformers4AreRead) {
  Golden golden("3");
  auto json = golden.json;
  json.erase("rope_parameters");
  json.erase("layer_types");
  json["rope_local_base_freq"] = 2e4;
  json["rope_theta"] = 3e6;
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 4.0}};
  json["sliding_window_pattern"] = 3;
  json.erase("_sliding_window_pattern");
  auto found = text::gemma_config({{"text_config", json}, {"vision_config", {{"hidden_size", 1}}}}, golden.tensors.shapes());
  EXPECT_EQ(found.sliding.rope_theta, 2e4);
  EXPECT_EQ(found.full.rope_theta, 3e6);
  EXPECT_EQ(found.full.rope_factor, 4);
  EXPECT_EQ(found.full_every, 3);
}

TEST(Gemma, OtherNumbersThanTheTensorsAndRelativesAreRefused) {
  for (const std::string kind : {"3", "4"}) {
    Golden golden(kind);
    auto read = [&](const nlohmann::json& config) { text::gemma_config(config, golden.tensors.shapes()); };
    test::expect_compared(
        golden.json,
        {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim", "num_key_value_heads"},
        read);
    test::expect_refused(golden.json, "hidden_activation", {"silu"}, read);
    test::expect_refused(golden.json, "use_bidirectional_attention", {"all", 3}, read);
    test::expect_refused(golden.json, "attention_bias", {true}, read);
    test::expect_refused(golden.json, "num_kv_shared_layers", {2}, read);
    test::expect_refused(golden.json, "rms_norm_eps", {0, -1.0}, read);
    test::expect_refused(golden.json, "sliding_window", {0}, read);
    test::expect_refused(golden.json, "layer_types", {{"full_attention"}, {"sliding_attention"}, 7}, read);
    auto damaged = golden.json;
    damaged["rope_parameters"]["full_attention"]["rope_type"] = "yarn";
    EXPECT_NE(test::error_of([&] { read(damaged); }).find("yarn"), std::string::npos);
  }
}

}  // namespace burnish::gemma_test
