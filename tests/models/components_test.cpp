// What is loaded of a model: names without building, trees built once, parts, and stores that change what is held.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "io/safetensors.h"
#include "models/registry.h"
#include "nn/linear.h"
#include "tests/scratch.h"

namespace burnish::components_test {
using namespace burnish::models;
using testing::ElementsAre;

namespace {

/// Two layers, "body" and "head", or one of them.
class Encoder : public nn::Module {
 public:
  Encoder(const std::string& part, const at::TensorOptions& options) : body_(4, 4, options), head_(4, 2, options) {
    if (part != "encoder.head") own("body", body_);
    if (part != "encoder.body") own("head", head_);
  }

 private:
  nn::Linear body_, head_;
};

/// Holds every linear weight in a single byte.
class OneByte : public nn::WeightStore {
 public:
  std::shared_ptr<nn::WeightSource> store(const std::string&, const nn::FileWeight&, c10::Device) override { return nullptr; }
  int64_t num_bytes(const std::string&, const nn::FileWeight&) const override { return 1; }
  std::string settings() const override { return "in a byte"; }
};

class ComponentsTest : public testing::Test {
 protected:
  ComponentsTest() {
    Encoder whole("encoder", {});
    io::NamedTensors tensors;
    whole.visit_parameters([&](const std::string& path, at::Tensor& p) { tensors.emplace_back(path, p.fill_(0.5)); });
    io::save_safetensors(folder / "encoder.safetensors", tensors);
    files = open_model_files({{(folder / "encoder.safetensors").string()}, "", ""});
    options.dtype = at::kFloat;
    components.add(recipe("encoder", {&files.entries[0], *files.entries[0].tensors, {}}));
    components.add(recipe("decoder", {}));
  }
  Recipe recipe(const std::string& name, const Source& source) {
    return {.name = name,
            .what = "small " + name,
            .source = source,
            .build =
                [this](const std::string& part, const at::TensorOptions& o) {
                  ++num_built;
                  return std::make_unique<Encoder>(part, o);
                },
            .parts = {name + ".body", name + ".head"}};
  }

  test::Scratch folder;
  ModelFiles files;
  ModelOptions options;
  Components components{files, options};
  int num_built = 0;
};

}  // namespace

TEST_F(ComponentsTest, NamesAreKnownWithoutBuilding) {
  EXPECT_TRUE(components.has("encoder"));
  EXPECT_TRUE(components.has("encoder.head"));
  EXPECT_FALSE(components.has("decoder")) << "declared, and not among the files";
  EXPECT_FALSE(components.has("vae"));
  EXPECT_THAT(components.parts("encoder"), ElementsAre("encoder.body", "encoder.head"));
  EXPECT_EQ(num_built, 0);
}

TEST_F(ComponentsTest, TreesAreBuiltOnceForTheirSizes) {
  for (int i = 0; i < 3; ++i) {
    auto list = components.list();
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].num_bytes, (4 * 4 + 4 + 2 * 4 + 2) * 4);
    EXPECT_EQ(components.num_bytes("encoder.head"), (2 * 4 + 2) * 4);
  }
  EXPECT_EQ(components.num_bytes("decoder"), 0);
  EXPECT_EQ(num_built, 2);
}

TEST_F(ComponentsTest, AStoreOrOtherPartsMakeThemBeFoundOutAgain) {
  EXPECT_EQ(components.list()[0].num_stored, 0);
  components.set_store("encoder", std::make_shared<OneByte>());
  EXPECT_EQ(components.list()[0].num_stored, 2);
  EXPECT_EQ(components.num_bytes("encoder"), (4 + 2) * 4 + 2);
  EXPECT_THAT(components.provenance("encoder").settings, testing::EndsWith("fp32, in a byte"));
  components.set_store("encoder", nullptr);
  EXPECT_EQ(components.list()[0].num_stored, 0);
  num_built = 0;
  components.set_parts("encoder", {"encoder"});
  EXPECT_THAT(components.parts("encoder"), ElementsAre("encoder"));
  components.list();
  EXPECT_EQ(num_built, 1);
  EXPECT_THROW(components.set_parts("vae", {}), std::logic_error);
}

TEST_F(ComponentsTest, APartIsLoadedAlone) {
  components.load("encoder.head");
  EXPECT_TRUE(components.is_loaded("encoder.head"));
  EXPECT_FALSE(components.is_loaded("encoder"));
  std::vector<std::string> paths;
  for (const auto& [path, weight] : components.module("encoder").parameters()) {
    paths.push_back(path);
    EXPECT_TRUE(at::equal(*weight, at::full(weight->sizes(), 0.5)));
  }
  EXPECT_THAT(paths, testing::UnorderedElementsAre("head.weight", "head.bias"));
  EXPECT_THROW(components.module("encoder.body"), std::logic_error);
  auto* head = &components.module("encoder.head");
  components.load("encoder.head");
  EXPECT_EQ(&components.module("encoder.head"), head) << "loading what is loaded does nothing";
  components.unload("encoder.head");
  EXPECT_THROW(components.module("encoder"), std::logic_error);
}

TEST_F(ComponentsTest, WhatTheFilesLackIsNamed) {
  auto message = [&](const std::string& name) {
    try {
      components.check(name);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("encoder"), "");
  EXPECT_THAT(message("decoder"), testing::HasSubstr("this run needs a small decoder, and there is none in "));
}

TEST_F(ComponentsTest, WithoutWeightsThereMustBeSomethingToInitialise) {
  ModelEntry config_only{"folder", {}, "", {{"_class_name", "Encoder"}}, {}};
  auto source = Source{&config_only, {}, {}};
  EXPECT_THROW(components.add(recipe("drawn", source)), Error);
  options.init = "random";
  EXPECT_THROW(components.add(recipe("drawn", source)), Error);
  auto drawn = recipe("drawn", source);
  drawn.initialise = [](nn::Module& whole) {
    whole.visit_parameters([](const std::string&, at::Tensor& p) { p = at::full(p.sizes(), 2.0); });
  };
  components.add(drawn);
  EXPECT_TRUE(components.find("drawn")->initialise != nullptr);
  EXPECT_FALSE(components.find("encoder")->initialise != nullptr);
  components.load("drawn");
  for (const auto& [path, weight] : components.module("drawn").parameters())
    EXPECT_TRUE(at::equal(*weight, at::full(weight->sizes(), 2.0)));
}

}  // namespace burnish::components_test
