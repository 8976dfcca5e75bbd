// Parity of LTX-2's text connectors with diffusers' LTX2TextConnectors on small random ones (tests/golden/make_ltx2_connectors.py).
#include <nlohmann/json.hpp>

#include "models/families/ltx2/connectors.h"
#include "tests/golden.h"
#include "tests/models/compared.h"
#include "tests/models/load.h"

namespace burnish::ltx2_connectors_test {
using namespace burnish::models;
using namespace burnish::models::ltx2;
using test::on_device;
using test::relative_error;
using test::tolerance;

namespace {

const at::TensorOptions kMeta = at::TensorOptions().device(at::kMeta);

ModelFiles files_of(const std::vector<io::TensorSource>& all) {
  ModelFiles files;
  for (const auto& tensors : all) {
    files.entries.emplace_back();
    files.entries.back().tensors = tensors;
  }
  return files;
}

struct Golden {
  explicit Golden(const std::string& kind) : file(test::golden("ltx2_connectors_" + kind + ".safetensors")) {
    files = files_of({file.below("w.")});
    files.entries[0].config = nlohmann::json::parse(file.metadata().at("config"));
    source = find_connectors(files);
    config = source.read(connectors_config);
  }
  std::unique_ptr<Connectors> load(Connectors::Part part = Connectors::Part::whole) const {
    auto made = std::make_unique<Connectors>(config, kMeta, part);
    const auto names = source.tensors->names();
    auto own = source.tensors->renamed([&](const std::string& name) {
      const bool is_projection = source.keys.to_ours(name).ours[0].find("proj_in") != std::string::npos;
      const bool is_read = part == Connectors::Part::whole || is_projection == (part == Connectors::Part::projection);
      return is_read ? name : "";
    });
    test::load(*made, own, source.keys);
    return made;
  }
  /// State `i` of a text alone, without what fills it up.
  at::Tensor state(int64_t i, int64_t text) const {
    const auto state_BLC = file.tensor("in.states." + std::to_string(i));
    const auto length = file.tensor("in.lengths")[text].item<int64_t>();
    return on_device(state_BLC.narrow(0, text, 1).narrow(1, state_BLC.size(1) - length, length));
  }
  nn::Tensors features(const Connectors& connectors, int64_t text) const {
    Connectors::Features features(connectors);
    for (int64_t i = 0; i < config.num_states; ++i) features.add(state(i, text));
    return features.take();
  }

  io::TensorSource file;
  ModelFiles files;
  Source source;
  ConnectorsConfig config;
};

void expect_features(const Golden& golden, const nn::Tensors& features, int64_t text) {
  const auto behind = "." + std::to_string(text);
  EXPECT_LE(relative_error(features.front()[0], golden.file.tensor("out.features.video" + behind)), tolerance(1e-5)) << text;
  EXPECT_LE(relative_error(features.back()[0], golden.file.tensor("out.features.audio" + behind)), tolerance(1e-5)) << text;
}

/// The features of both texts, the shorter ones filled up behind with what nobody reads, and which tokens are a text's.
struct Batch {
  Batch(const Golden& golden, const Connectors& connectors) {
    mask_BL = at::zeros({2, 7}, test::device());
    for (int64_t text = 0; text < 2; ++text) {
      auto own = golden.features(connectors, text);
      const auto length = own[0].size(1);
      mask_BL[text].narrow(0, 0, length).fill_(1);
      if (text == 0) streams = {own.front().repeat({2, 1, 1}) * 50, own.back().repeat({2, 1, 1}) * 50};
      for (size_t s = 0; s < 2; ++s) streams[s][text].narrow(0, 0, length).copy_((s == 0 ? own.front() : own.back())[0]);
    }
  }
  nn::Tensors streams;
  at::Tensor mask_BL;
};

}  // namespace

TEST(Ltx2ConnectorsParity, FeaturesOfEachTextAlone) {
  at::NoGradGuard no_grad;
  for (const std::string kind : {"20", "23"}) {
    Golden golden(kind);
    EXPECT_EQ(golden.config.is_shared, kind == "20");
    EXPECT_EQ(golden.source.is_original, kind == "23");
    EXPECT_EQ(golden.config.num_states, 11);
    auto projection = golden.load(Connectors::Part::projection);
    for (int64_t text = 0; text < 2; ++text) expect_features(golden, golden.features(*projection, text), text);
  }
}

TEST(Ltx2ConnectorsParity, FeaturesByAWholeWeightAreThoseOfItsParts) {
  at::NoGradGuard no_grad;
  struct Nothing : nn::Delta {
    at::Tensor forward(const nn::LinearMap& base, const at::Tensor& x) override { return ++count, base.base(x); }
    int64_t count = 0;
  };
  Golden golden("23");
  auto projection = golden.load(Connectors::Part::projection);
  auto delta = std::make_shared<Nothing>();
  projection->visit([&](const std::string&, nn::Module& module) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&module)) linear->delta = delta;
  });
  expect_features(golden, golden.features(*projection, 0), 0);
  EXPECT_EQ(delta->count, 2) << "each projection once, of all states";
}

TEST(Ltx2ConnectorsParity, WhatStreamsReadAndTheGradientOfEveryParameter) {
  for (const std::string kind : {"20", "23"}) {
    Golden golden(kind);
    auto projection = golden.load(Connectors::Part::projection), body = golden.load(Connectors::Part::body);
    const Batch batch = [&] {
      at::NoGradGuard no_grad;
      return Batch(golden, *projection);
    }();
    for (auto& [path, slot] : body->parameters()) slot->set_requires_grad(true);
    const auto out = body->forward(batch.streams[0], batch.streams[1], batch.mask_BL, 12);
    at::Tensor loss;
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_LE(relative_error(out[s], golden.file.tensor(s == 0 ? "out.video" : "out.audio")), tolerance(1e-5)) << kind;
      const auto wave = at::cos(at::arange(out[s].numel(), out[s].options()).view_as(out[s]) * 0.7);
      const auto part = (out[s] * wave).sum();
      loss = loss.defined() ? loss + part : part;
    }
    loss.backward();
    test::expect_digests(*body, golden.file.below("grad."));
  }
}

TEST(Ltx2Connectors, AreFoundInEveryLayout) {
  const Golden golden("23");
  const auto original = golden.file.below("w.");
  auto found_in = [&](const std::vector<io::TensorSource>& files) {
    const auto all = files_of(files);
    const auto source = find_connectors(all);
    return source.entry == nullptr ? io::Shapes{} : source.shapes();
  };
  const auto expected = golden.source.shapes();
  EXPECT_TRUE(expected.contains("audio_connector.transformer_blocks.1.attn1.norm_q.weight"));
  EXPECT_EQ(found_in({original}), expected);
  EXPECT_EQ(found_in({original.renamed([](const std::string& name) { return name.substr(name.starts_with("model.") ? 22 : 0); })}),
            expected);
  // LTX-2.5 has the projection in the text encoder's file and the connectors in the transformer's.
  auto only = [&](bool projection) {
    return original.renamed([projection](const std::string& name) { return name.starts_with("text_") == projection ? name : ""; });
  };
  EXPECT_EQ(found_in({only(true), only(false)}), expected);
  EXPECT_EQ(found_in({only(true)}).size(), 4u);
  EXPECT_EQ(found_in({original.renamed([](const std::string& name) {
              if (name.starts_with("text_")) return "feature_extractor." + name.substr(26);
              return "connectors." + name.substr(22, 6) + "connector." + name.substr(name.find("connector.") + 10);
            })}),
            expected);
  EXPECT_TRUE(found_in({test::golden("gemma_3.safetensors")}).empty());
}

TEST(Ltx2Connectors, LayersHaveTheirNamesInAdaptersOfOthers) {
  using Layers = std::vector<std::string>;
  const auto of_23 = connector_names(ConnectorsConfig()), of_20 = connector_names(connectors_20());
  EXPECT_EQ(of_20.foreign_layer("text_embedding_projection.aggregate_embed"), Layers{"text_proj_in"});
  EXPECT_EQ(of_23.foreign_layer("text_embedding_projection.audio_aggregate_embed"), Layers{"audio_text_proj_in"});
  EXPECT_TRUE(of_23.foreign_layer("text_embedding_projection.aggregate_embed").empty()) << "2.3 has none that both streams share";
  EXPECT_EQ(of_23.foreign_layer("video_embeddings_connector.transformer_1d_blocks.7.attn1.to_out.0"),
            Layers{"video_connector.transformer_blocks.7.attn1.to_out.0"});
  EXPECT_EQ(of_23.layers.diffusers, "connectors.");
  const auto& written = of_20.written.at("comfyui");
  EXPECT_TRUE(written.contains("text_embedding_projection.aggregate_embed")) << "the authors' own LoRAs have it so";
  EXPECT_TRUE(written.contains("diffusion_model.audio_embeddings_connector.transformer_1d_blocks.1.ff.net.2"));
}

TEST(Ltx2Connectors, PublishedOnesHaveThePublishedSizesAndAreReadOffTheirTensors) {
  for (const auto& [published, millions, count] : {std::tuple{connectors_20(), 1431, 59}, std::tuple{ConnectorsConfig(), 3172, 262}}) {
    Connectors connectors(published, kMeta);
    io::Shapes shapes;
    int64_t numbers = 0;
    for (auto& [path, slot] : connectors.parameters()) {
      shapes[path] = slot->sizes().vec();
      numbers += slot->numel();
    }
    EXPECT_EQ(std::ssize(shapes), count);
    EXPECT_NEAR(static_cast<double>(numbers) / 1e6, millions, 0.6);
    const auto found = connectors_config(nullptr, shapes);
    EXPECT_EQ(found.num_states, 49);
    EXPECT_EQ(found.is_shared, published.is_shared);
    EXPECT_EQ(found.has_gates, published.has_gates);
    EXPECT_EQ(found.frames.num_heads, published.frames.num_heads);
    EXPECT_EQ(found.sound.head_dim, published.sound.head_dim);
  }
}

TEST(Ltx2Connectors, WithoutAConfigStatesAreThoseOfTheTextEncoder) {
  const Golden golden("23");
  const auto bare = connectors_config(nullptr, golden.source.shapes());
  EXPECT_EQ(bare.state_width * bare.num_states, 12 * 11);
  const auto found = with_states(bare, 12, 11);
  EXPECT_EQ(found.state_width, 12);
  EXPECT_EQ(found.num_states, 11);
  EXPECT_EQ(found.frames.head_dim, golden.config.frames.head_dim);
  EXPECT_NE(test::error_of([&] { with_states(bare, 12, 12); }).find("12 states of 12"), std::string::npos);
}

TEST(Ltx2Connectors, OtherNumbersThanTheTensorsAreRefused) {
  for (const std::string kind : {"20", "23"}) {
    const Golden golden(kind);
    const auto shapes = golden.source.shapes();
    const auto& json = golden.source.entry->config;
    auto read = [&](const nlohmann::json& config) { connectors_config(config, shapes); };
    test::expect_refused(json, "caption_channels", {7, 0, "x"}, read);
    test::expect_refused(json, "text_proj_in_factor", {10, -1}, read);
    test::expect_refused(json, "rope_type", {"interleaved"}, read);
    test::expect_refused(json, "per_modality_projections", {kind == "20"}, read);
    test::expect_refused(json, "video_gated_attn", {kind == "20"}, read);
    test::expect_refused(json, "audio_connector_num_layers", {3}, read);
    test::expect_refused(json, "video_connector_num_attention_heads", {0, 5}, read);
    test::expect_refused(json, "connector_rope_base_seq_len", {0}, read);
    test::expect_refused(json, "rope_theta", {-1.0}, read);
  }
}

}  // namespace burnish::ltx2_connectors_test
