// Parity of the text encoders with transformers' CLIPTextModel, T5EncoderModel, Qwen2Model and Qwen3Model on small random models.
#include <nlohmann/json.hpp>

#include "models/text/clip.h"
#include "models/text/qwen.h"
#include "models/text/t5.h"
#include "tests/golden.h"
#include "tests/models/compared.h"

namespace burnish::encoders_test {
using namespace burnish::models;
using test::load_weights;
using test::on_device;
using test::relative_error;
using test::tolerance;

TEST(ClipParity, HiddenAndPooled) {
  at::NoGradGuard no_grad;
  for (const char* name : {"clip_l.safetensors", "clip_other.safetensors"}) {
    auto file = test::golden(name);
    auto tensors = text::clip_tensors(file.below("w."));
    auto config = text::clip_config(nlohmann::json::parse(file.metadata().at("config")), tensors.shapes());
    text::ClipTextModel model(config, at::TensorOptions());
    load_weights(model, tensors, {});
    auto out = model.forward(on_device(file.tensor("in.ids")));
    EXPECT_LE(relative_error(out.hidden_BLE, file.tensor("out.hidden")), tolerance(1e-5)) << name;
    EXPECT_LE(relative_error(out.pooled_BE, file.tensor("out.pooled")), tolerance(1e-5)) << name;
  }
}

TEST(ClipParity, ProjectionAndEveryState) {
  at::NoGradGuard no_grad;
  auto file = test::golden("clip_projected.safetensors");
  auto tensors = text::clip_tensors(file.below("w."), text::Projection::keep);
  auto config = text::clip_config(nlohmann::json::parse(file.metadata().at("config")), tensors.shapes());
  EXPECT_EQ(config.projection_dim, 20);
  EXPECT_FALSE(config.quick_gelu);
  text::ClipTextModel model(config, at::TensorOptions());
  load_weights(model, tensors, {});
  auto out = model.forward(on_device(file.tensor("in.ids")));
  EXPECT_LE(relative_error(out.projected_BP, file.tensor("out.projected")), tolerance(1e-5));
  ASSERT_EQ(out.states_BLE.size(), 4);
  for (size_t i = 0; i < out.states_BLE.size(); ++i)
    EXPECT_LE(relative_error(out.states_BLE[i], file.tensor("out.state." + std::to_string(i))), tolerance(1e-5)) << i;
  EXPECT_TRUE(at::equal(model.normalise(out.states_BLE.back()), out.hidden_BLE));
  EXPECT_FALSE(text::clip_tensors(file.below("w.")).contains("text_projection.weight"));
}

TEST(T5Parity, Hidden) {
  at::NoGradGuard no_grad;
  for (const char* name : {"t5_v1_1.safetensors", "t5_plain.safetensors", "t5_umt5.safetensors"}) {
    auto file = test::golden(name);
    auto tensors = text::t5_tensors(file.below("w."));
    auto keys = text::t5_keys(tensors);
    auto config = text::t5_config(nlohmann::json::parse(file.metadata().at("config")), io::shapes_in_our_names(tensors, keys));
    text::T5Encoder model(config, at::TensorOptions());
    load_weights(model, tensors, keys);
    EXPECT_LE(relative_error(model.forward(on_device(file.tensor("in.ids"))), file.tensor("out.hidden")), tolerance(1e-5)) << name;
  }
}

TEST(QwenParity, EveryStateOfAPaddedBatchAndOfItsSamplesAlone) {
  at::NoGradGuard no_grad;
  for (const char* name : {"qwen_3.safetensors", "qwen_2.safetensors"}) {
    auto file = test::golden(name);
    auto tensors = text::qwen_tensors(file.below("w."));
    auto config = text::qwen_config(nlohmann::json::parse(file.metadata().at("config")), tensors.shapes());
    EXPECT_EQ(config.qkv_bias, !config.qk_norm) << name;
    text::QwenEncoder model(config, at::TensorOptions());
    load_weights(model, tensors, {});
    auto ids = on_device(file.tensor("in.ids"));
    auto states = model.forward(ids, {0, 1, 2, 3});
    ASSERT_EQ(states.size(), 4u);
    for (int64_t b = 0; b < ids.size(0); ++b) {
      auto length = file.tensor("in.mask")[b].sum().item<int64_t>();
      auto alone = model.forward(ids.narrow(0, b, 1).narrow(1, 0, length), {2, 3});
      for (int64_t after = 0; after < 4; ++after) {
        auto expected = file.tensor("out." + std::to_string(after))[b].narrow(0, 0, length);
        EXPECT_LE(relative_error(states[static_cast<size_t>(after)][b].narrow(0, 0, length), expected), tolerance(1e-5))
            << name << " " << after;
        if (after < 2) continue;
        EXPECT_LE(relative_error(alone[static_cast<size_t>(after - 2)][0], expected), tolerance(1e-5)) << name << " " << after;
      }
    }
  }
}

TEST(Qwen3VlParity, StatesOfTextsAtGivenPlaces) {
  at::NoGradGuard no_grad;
  auto file = test::golden("qwen_3_vl.safetensors");
  auto tensors = text::qwen_tensors(file.below("w."));
  auto config = text::qwen_config(nlohmann::json::parse(file.metadata().at("config")), tensors.shapes());
  EXPECT_EQ(config.sections, (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(config.rope_theta, 1e5);
  text::QwenEncoder model(config, at::TensorOptions().device(at::kMeta));
  for (auto& [path, slot] : model.parameters()) *slot = on_device(tensors.tensor(path).to(at::kFloat));
  auto ids = on_device(file.tensor("in.ids"));
  auto places = file.tensor("in.places");
  auto expect = [&](const at::Tensor& found, const std::string& name) {
    EXPECT_LE(relative_error(found, file.tensor("out." + name)), tolerance(1e-5)) << name;
  };
  auto states = model.forward(ids, text::QwenReading{.after = {0, 1, 2, 3}, .places_3L = places});
  ASSERT_EQ(states.size(), 4u);
  for (size_t after = 0; after < 4; ++after) expect(states[after], std::to_string(after));
  expect(model.forward(ids, {.after = {3}, .places_3L = places, .norms_last = false}).front(), "not_normed");

  // The picture's places follow from where it is.
  auto cells = states[0].narrow(1, 4, 6);
  for (int64_t b = 0; b < 2; ++b) {
    auto state = model.forward(ids.narrow(0, b, 1), {.after = {2}, .pictures = {{4, cells[b].view({2, 3, -1})}}}).front();
    EXPECT_LE(relative_error(state[0], file.tensor("out.2")[b]), tolerance(1e-5)) << b;
  }
  EXPECT_GT(relative_error(model.forward(ids, {2}).front(), file.tensor("out.2")), 0.01) << "places matter";
}

TEST(Qwen3VlConfig, OfTensorsAloneIsNotQwen3s) {
  auto shapes = text::qwen_tensors(test::golden("qwen_3_vl.safetensors").below("w.")).shapes();
  auto config = text::qwen3_vl_config(nullptr, shapes);
  EXPECT_EQ(config.rope_theta, 5e6);
  EXPECT_EQ(config.sections, (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(text::qwen_config(nullptr, shapes).rope_theta, 1e6);
  auto published = text::qwen3_vl_4b().sections;  // 20 turns, and time the last four pairs
  EXPECT_EQ(published.size(), 61u);
  EXPECT_EQ(published.back(), 4);
  // As transformers 4 writes it.
  auto json = nlohmann::json::parse(
      R"({"text_config": {"rope_theta": 5e6, "rope_scaling": {"mrope_interleaved": true, "mrope_section": [4, 2, 2]}}})");
  EXPECT_EQ(text::qwen_config(json, shapes).sections, config.sections);
  json["text_config"]["rope_scaling"]["mrope_section"] = {2, 3, 3};
  EXPECT_NE(test::error_of([&] { text::qwen_config(json, shapes); }).find("mrope_section"), std::string::npos);
}

TEST(QwenNames, FilesWithAndWithoutThePrefixAreTheSame) {
  auto file = test::golden("qwen_3.safetensors").below("w.");
  auto prefixed = file.renamed([](const std::string& name) { return "model." + name; });
  EXPECT_EQ(text::qwen_tensors(prefixed).names(), text::qwen_tensors(file).names());
  for (const auto& name : file.names()) EXPECT_EQ(text::transformers_qwen_keys().to_ours("model." + name).ours.front(), name);
}

TEST(EncoderConfig, OfClipIsComparedWithTheTensors) {
  auto file = test::golden("clip_projected.safetensors");
  auto good = nlohmann::json::parse(file.metadata().at("config"));
  auto shapes = text::clip_tensors(file.below("w."), text::Projection::keep).shapes();
  auto read = [&](const nlohmann::json& config) { text::clip_config(config, shapes); };
  test::expect_compared(
      good, {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings", "projection_dim"}, read);
  test::expect_refused(good, "num_attention_heads", {0, -3, 7}, read);
  test::expect_refused(good, "eos_token_id", {-1, 50}, read);
  test::expect_refused(good, "layer_norm_eps", {0, -1e-5}, read);
  auto without_projection = text::clip_tensors(file.below("w.")).shapes();
  EXPECT_EQ(text::clip_config(good, without_projection).projection_dim, 0) << "a width is stated of a projection that is not there";
}

TEST(EncoderConfig, OfT5IsComparedWithTheTensors) {
  auto file = test::golden("t5_v1_1.safetensors");
  auto good = nlohmann::json::parse(file.metadata().at("config"));
  auto tensors = text::t5_tensors(file.below("w."));
  auto shapes = io::shapes_in_our_names(tensors, text::t5_keys(tensors));
  auto read = [&](const nlohmann::json& config) { text::t5_config(config, shapes); };
  test::expect_compared(good, {"vocab_size", "d_model", "d_ff", "d_kv", "num_layers", "num_heads", "relative_attention_num_buckets"}, read);
  test::expect_refused(good, "is_gated_act", {false}, read);
  test::expect_refused(good, "layer_norm_epsilon", {0, -1e-6}, read);
  test::expect_refused(good, "relative_attention_max_distance", {0, 8, -128}, read);
}

TEST(EncoderConfig, OfQwenIsComparedWithTheTensors) {
  auto file = test::golden("qwen_3.safetensors");
  auto good = nlohmann::json::parse(file.metadata().at("config"));
  auto shapes = text::qwen_tensors(file.below("w.")).shapes();
  test::expect_compared(
      good,
      {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "head_dim", "num_attention_heads", "num_key_value_heads"},
      [&](const nlohmann::json& config) { text::qwen_config(config, shapes); });
}

}  // namespace burnish::encoders_test
