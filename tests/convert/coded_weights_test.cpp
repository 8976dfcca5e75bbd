// Weights that lie as codes: held as such, merged into, and written as numbers.
#include "models/files/coded_weights.h"

#include "models/files/loading.h"
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
      EXPECT_EQ(component.num_bytes, coded->components().module("dit").num_bytes());
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
  auto plan = plan_storage(sizes, &one, keys, store, nullptr);
  EXPECT_EQ(plan.codes, std::set<std::string>{"NF4"});
  reading.store = &store;
  load_weights(coded, reading);
  EXPECT_TRUE(at::equal(coded.source().rows(0, 48), exact));
  EXPECT_EQ(coded.source().num_bytes(), 48 * 64 + 48 * 2 * 4);
  EXPECT_EQ(plan.num_bytes, coded.source().num_bytes() + 48 * 4);
  place_shapes(sizes, &one, keys, &store, nullptr);
  EXPECT_EQ(sizes.source().num_bytes(), coded.source().num_bytes());
  // Of a matrix whose rows are columns here there are numbers, which this store leaves parameters.
  const io::KeyMap turned({{"weight", {"weight"}, io::KeyRule::Op::transpose}});
  nn::Linear across(48, 128, at::TensorOptions().device(at::kMeta));
  EXPECT_EQ(plan_storage(across, &one, turned, store, nullptr).num_stored, 0);
}

namespace {

at::IntArrayRef sizes_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.sizes() : at::IntArrayRef(); }

/// Expects that the headers of files say how codes lie that a rule makes of theirs, and that a plan counts the bytes that are held.
void expect_counted(const io::TensorSource& shown, const io::KeyRule& rule, const io::Shapes& wanted) {
  SCOPED_TRACE(rule.theirs + ", rule " + std::to_string(static_cast<int>(rule.op)));
  const io::KeyMap keys({rule});
  const auto planned = io::codes_in_our_names(shown, keys, wanted);
  quant::Store store(quant::StoreOptions{});
  for (const auto& [name, in_file] : io::load_from(shown, rule.theirs, keys, wanted)) {
    ASSERT_EQ(planned.contains(name), in_file.codes.has_value());
    if (!in_file.codes) continue;
    const auto &said = planned.at(name), &read = *in_file.codes;
    EXPECT_EQ(std::tie(said.kind, said.sizes, said.group, said.rotation), std::tie(read.kind, read.sizes, read.group, read.rotation));
    EXPECT_EQ(sizes_of(said.codes), sizes_of(read.codes));
    EXPECT_EQ(sizes_of(said.scales), sizes_of(read.scales));
    EXPECT_EQ(store.num_bytes(name, {.codes = said}), store.store(name, {.codes = read}, at::kCPU)->num_bytes());
  }
}

/// A source of one weight with scales beside it.
io::TensorSource with_scales(const fs::path& path, const at::Tensor& codes, const at::Tensor& scales) {
  io::NamedTensors tensors{{"l.weight", codes}};
  if (scales.defined()) tensors.emplace_back("l.weight_scale", scales);
  if (codes.scalar_type() == at::kChar) tensors.emplace_back("l.comfy_quant", text_tensor(R"({"format": "int8_tensorwise"})"));
  io::save_safetensors(path, tensors);
  return show_weights(io::TensorSource::open({path}));
}

}  // namespace

TEST(CodedWeights, TakeTheBytesThatPlansCount) {
  using Op = io::KeyRule::Op;
  Scratch scratch;
  std::vector<io::TensorSource> sources;
  for (const char* file : {"bitsandbytes.safetensors", "comfyui.safetensors", "rows.safetensors", "blocks.gguf"})
    sources.push_back(show_weights(test::golden(std::string("coded/") + file)));
  const auto numbers = at::randint(-100, 100, {8, 32});
  int number = 0;
  for (auto dtype : {at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kChar}) {
    for (const auto& scales : {at::Tensor(), at::ones({}), at::ones({8}), at::ones({8, 1})}) {
      if (dtype == at::kChar && !scales.defined()) continue;
      sources.push_back(with_scales(scratch / (std::to_string(number++) + ".safetensors"), numbers.to(dtype), scales));
    }
  }
  std::set<std::string> kinds;
  for (const auto& shown : sources) {
    for (const auto& name : shown.names()) {
      const auto& info = shown.info(name);
      if (!info.codes) continue;
      kinds.insert(io::numbers_name(info));
      auto half = info.shape;
      half[0] /= 2;
      expect_counted(shown, {name, {"w"}}, {{"w", info.shape}});
      if (info.shape.size() == 2) expect_counted(shown, {name, {"w"}, Op::transpose}, {{"w", {info.shape[1], info.shape[0]}}});
      if (info.shape[0] % 2 != 0) continue;
      expect_counted(shown, {name, {"w"}, Op::swap_halves}, {{"w", info.shape}});
      expect_counted(shown, {name, {"q", "k"}, Op::stack_rows}, {{"q", half}, {"k", half}});
    }
  }
  EXPECT_GE(kinds.size(), 19u) << "of codes";
}
