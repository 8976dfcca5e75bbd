// Weights that lie as codes: held as such, merged into, and written as numbers.
#include "models/coded_weights.h"

#include "models/loading.h"
#include "nn/linear.h"
#include "quant/source.h"
#include "quant/store.h"
#include "tests/coded_files.h"
#include "tests/convert/convert_files.h"

using namespace burnish;
using namespace burnish::models;
using namespace burnish::test;

namespace {

/// The small FLUX whose transformer is in one file, beside its config.json.
class CodedFlux : public testing::Test {
 protected:
  CodedFlux() {
    fs::create_directories(scratch_ / "transformer");
    fs::copy(fs::path(model_path("pipeline")) / "transformer/config.json", scratch_ / "transformer");
    auto source = io::TensorSource::open_folder(model_path("pipeline") + "/transformer", {"diffusion_pytorch_model"});
    for (const auto& name : source.names()) tensors_.emplace_back(name, source.tensor(name));
  }
  static bool is_coded(const std::string& name, const at::Tensor& tensor) {
    return name.ends_with(".weight") && tensor.dim() == 2 && name.find("blocks.") != name.npos && tensor.size(1) % 32 == 0;
  }
  std::string path(const std::string& file) const { return (scratch_ / "transformer" / file).string(); }
  std::unique_ptr<Model> open(const std::string& file) const {
    ModelOptions options;
    options.dtype = at::kFloat;
    options.own = default_options();
    std::vector<std::string> parts{path(file)};
    for (const char* part : {"text_encoder", "text_encoder_2", "vae"}) parts.push_back(model_path("pipeline") + "/" + part);
    return models::open_model(open_model_files({parts, "", ""}), options);
  }

  Scratch scratch_;
  io::NamedTensors tensors_;
};

}  // namespace

TEST_F(CodedFlux, IsHeldAsItLiesAndComputesAsItsNumbers) {
  io::save_safetensors(path("nf4.safetensors"), in_nf4(tensors_, is_coded));
  save_gguf(path("q8.gguf"), tensors_, is_coded);
  for (const auto& [file, kind] : {std::pair<std::string, std::string>("nf4.safetensors", "NF4"), {"q8.gguf", "Q8_0"}}) {
    SCOPED_TRACE(file);
    const auto numbers = "plain-" + kind + ".safetensors";
    io::save_safetensors(path(numbers), numbers_in(path(file)));
    auto coded = open(file), plain = open(numbers);
    coded->components().set_store("dit", std::make_shared<quant::Store>(quant::StoreOptions{}));
    coded->components().check("dit");
    for (auto* model : {coded.get(), plain.get()}) model->components().load("dit");
    size_t num_coded = 0;
    auto layers = adapters::all_layers(plain->components().module("dit"));
    std::map<std::string, nn::LinearMap*> expected(layers.begin(), layers.end());
    for (const auto& [name, layer] : adapters::all_layers(coded->components().module("dit"))) {
      num_coded += dynamic_cast<quant::QuantizedSource*>(&layer->source()) != nullptr;
      const auto out = layer->source().out_features();
      EXPECT_TRUE(at::equal(layer->source().rows(0, out), expected.at(name)->source().rows(0, out))) << name;
    }
    EXPECT_GT(num_coded, 10u);
    EXPECT_LT(coded->components().module("dit").num_bytes(), plain->components().module("dit").num_bytes() * 2 / 3);
    for (const auto& component : coded->components().list()) {
      if (component.name != "dit") continue;
      EXPECT_EQ(component.codes, std::vector<std::string>{kind});
      // Plans count a scale of NF4 for 64 numbers, and these files have one for 32.
      const auto held = coded->components().module("dit").num_bytes();
      EXPECT_NEAR(static_cast<double>(component.num_bytes), static_cast<double>(held),
                  kind == "NF4" ? 0.01 * static_cast<double>(held) : 0);
      EXPECT_EQ(component.num_stored, static_cast<int64_t>(num_coded));
    }
    // In a file of numbers, and with a LoRA merged.
    for (const auto& lora : {std::vector<std::string>{}, {golden_path("flux_extras/lora_0.safetensors") + ":0.7"}}) {
      const auto of_codes = path(kind + "-a.safetensors"), of_numbers = path(kind + "-b.safetensors");
      convert_to({.lora = lora, .weight_format = "none", .dtype = "fp32", .overwrite = true}, {path(file), of_codes});
      convert_to({.lora = lora, .weight_format = "none", .dtype = "fp32", .overwrite = true}, {path(numbers), of_numbers});
      expect_same_tensors(open_file(of_codes), open_file(of_numbers));
    }
  }
}

TEST(CodedWeights, AreHeldAsTheyLieOrBecomeParameters) {
  auto shown = show_weights(test::golden("coded/bitsandbytes.safetensors"));
  auto one = shown.renamed([](const std::string& name) { return name == "a.weight" ? "weight" : name == "norm.weight" ? "bias" : ""; });
  const io::KeyMap keys;
  const auto exact = shown.tensor("a.weight");
  nn::Linear plain(128, 48, at::TensorOptions().device(at::kMeta)), coded(128, 48, at::TensorOptions().device(at::kMeta));
  Reading reading{.tensors = one, .keys = keys, .what = "m", .options = at::TensorOptions().dtype(at::kFloat)};
  load_weights(plain, reading);
  EXPECT_TRUE(at::equal(plain.weight, exact));
  nn::Linear sizes(128, 48, at::TensorOptions().device(at::kMeta));
  quant::Store store({});
  auto plan = plan_storage(sizes, &one, keys, store);
  EXPECT_EQ(plan.codes, std::set<std::string>{"NF4"});
  reading.store = &store;
  load_weights(coded, reading);
  EXPECT_TRUE(at::equal(coded.source().rows(0, 48), exact));
  EXPECT_EQ(coded.source().num_bytes(), 48 * 64 + 48 * 2 * 4);
  EXPECT_EQ(plan.num_bytes, coded.source().num_bytes() + 48 * 4);
  place_shapes(sizes, &one, keys, &store, nullptr);
  EXPECT_EQ(sizes.source().num_bytes(), coded.source().num_bytes());
}
