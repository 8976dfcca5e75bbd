#include "adapters/adapter.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>

#include "adapters/adapter_file.h"
#include "adapters/adapter_tensors.h"
#include "base/error.h"
#include "io/safetensors.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::adapters;
using burnish::test::error_of;
using burnish::test::on_device;
using burnish::test::relative_error;
using burnish::test::tolerance;

namespace {

const LayerPrefixes kPrefixes{"transformer.", "lora_transformer_", "lycoris_"};

struct Net : nn::Module {
  Net(int64_t in, int64_t out) : first(in, out, at::TensorOptions()), second(out, in, at::TensorOptions()) {
    own("blocks.0.first", first);
    own("blocks.0.second", second);
    at::manual_seed(11);
    visit_parameters([](const std::string&, at::Tensor& p) { p.normal_(); });
  }
  at::Tensor forward(const at::Tensor& x) { return second.forward(first.forward(x)); }
  static at::Tensor input() { return at::randn({3, 24}); }
  nn::Linear first, second;
};

/// The same with convolutions.
struct ConvNet : nn::Module {
  ConvNet(int64_t in, int64_t out)
      : first(in, out, 3, 2, 1, at::TensorOptions()), second(out, in, 1, 1, 0, at::TensorOptions(), /*with_bias=*/false) {
    own("blocks.0.first", first);
    own("blocks.0.second", second);
    at::manual_seed(11);
    visit_parameters([](const std::string&, at::Tensor& p) { p.normal_(); });
  }
  at::Tensor forward(const at::Tensor& x) { return second.forward(first.forward(x)); }
  static at::Tensor input() { return at::randn({2, 24, 6, 5}); }
  nn::Conv2d first, second;
};

const AliasesOf kNoAliases = [](const std::string&) { return std::vector<std::string>{}; };
const LayersOf kOwnNames = [](const std::string& name) -> Behind {
  for (const char* layer : {"first", "second"}) {
    if (name == std::string("blocks.0.") + layer || name == std::string("lora_transformer_blocks_0_") + layer ||
        name == std::string("lycoris_blocks_0_") + layer)
      return {{std::string("blocks.0.") + layer}};
  }
  return {};
};

/// A file of Net's layers.
std::vector<AdapterWeights> read_own(const std::filesystem::path& path) {
  return read_adapter(
      path, kOwnNames, [](const std::string&) { return int64_t{40}; }, [](const std::string&) { return int64_t{24}; });
}

AdaptedList attach_to(nn::Module& net, const std::string& type, NormAxis axis = NormAxis::output) {
  bool has_scale = type != "oft" && type != "full";
  return attach(net, {.type = type, .rank = 4, .alpha = has_scale ? 2.0 : 0, .dora_norm = axis},
                match_targets(net, "first,second", kNoAliases), 5);
}

/// Moves every adapter away from its start, where it changes nothing.
void shake(const AdaptedList& adapted) {
  at::NoGradGuard no_grad;
  for (const auto& item : adapted) {
    for (auto [name, p] : item.adapter->parameters()) {
      if (name == "lora_magnitude_vector") {
        p.mul_(at::rand_like(p) + 0.5);
      } else {
        p.add_(at::randn_like(p) * 0.2);
      }
    }
  }
}

struct Style {
  const char* type;
  NormAxis axis;
  const char* layout;
};
const std::vector<Style> kStyles{
    {"lora", NormAxis::output, "auto"}, {"lora", NormAxis::output, "kohya"},     {"lora", NormAxis::output, "lycoris"},
    {"dora", NormAxis::output, "auto"}, {"dora", NormAxis::output, "kohya"},     {"dora", NormAxis::input, "auto"},
    {"dora", NormAxis::input, "kohya"}, {"loha", NormAxis::output, "auto"},      {"loha", NormAxis::output, "kohya"},
    {"lokr", NormAxis::output, "auto"}, {"lokr", NormAxis::output, "diffusers"}, {"full", NormAxis::output, "auto"},
    {"oft", NormAxis::output, "auto"},  {"oft", NormAxis::output, "diffusers"}};

}  // namespace

struct OneLayer : nn::Module {
  explicit OneLayer(std::unique_ptr<nn::LinearMap> map) : layer(std::move(map)) { own("layer", *layer); }
  std::unique_ptr<nn::LinearMap> layer;
};

class Golden : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Adapters, Golden,
                         testing::Values("peft_lora", "peft_rslora", "peft_dora", "peft_loha", "peft_lokr", "onetrainer_dora_input",
                                         "onetrainer_dora_output", "conv.peft_lora", "conv.peft_dora", "conv.peft_loha", "conv.peft_lokr",
                                         "conv.peft_loha_tucker", "conv.peft_lokr_tucker", "conv.onetrainer_dora_input", "lycoris_oft",
                                         "lycoris_full", "conv.lycoris_oft", "conv.lycoris_full"),
                         [](const auto& info) {
                           auto name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

/// The parameters of a case as a file, read back and hung on its layer.
TEST_P(Golden, OutputAndGradientsAgree) {
  bool convolution = GetParam().starts_with("conv.");
  auto golden = test::golden("adapters.safetensors");
  auto of_layer = convolution ? golden.below("conv.") : golden;
  auto own = golden.below(GetParam() + ".");
  const auto options = at::TensorOptions(test::device());
  OneLayer net(convolution ? std::unique_ptr<nn::LinearMap>(std::make_unique<nn::Conv2d>(20, 12, 3, 2, 1, options))
                           : std::make_unique<nn::Linear>(20, 12, options));
  net.layer->weight.copy_(of_layer.tensor("w"));
  net.layer->bias.copy_(of_layer.tensor("bias"));

  test::Scratch folder;
  io::NamedTensors tensors;
  for (const auto& name : own.below("p.").names()) tensors.emplace_back("layer." + name, own.tensor("p." + name));
  tensors.emplace_back("layer.alpha", own.tensor("scale") * (GetParam().find("lokr") == std::string::npos ? 3 : 1));  // times its rank
  io::save_safetensors(folder / "a.safetensors", tensors);
  auto weights = read_adapter(
      folder / "a.safetensors", [](const std::string& name) { return Behind{{name}}; }, [](const std::string&) { return int64_t{12}; },
      [](const std::string&) { return int64_t{20}; });
  auto adapted = attach_weights(net, weights, "a");
  ASSERT_EQ(adapted.size(), 1u);

  auto x = on_device(of_layer.tensor("x")).clone().requires_grad_(true);
  auto y = net.layer->forward(x);
  torch::autograd::backward({y}, {on_device(of_layer.tensor("dy"))});
  EXPECT_LE(relative_error(y, own.tensor("y")), tolerance(1e-5));
  EXPECT_LE(relative_error(x.grad(), own.tensor("dx")), tolerance(1e-5));
  const std::set<std::string> named = [&] {
    auto names = own.below("g.").names();
    return std::set<std::string>(names.begin(), names.end());
  }();
  bool folded = GetParam().ends_with("_tucker");  // its parameters are others here
  for (const auto& [name, value] : adapted[0].adapter->parameters()) {
    if (folded) continue;
    auto theirs = name == "lora_magnitude_vector" && !named.contains(name) ? "dora_scale" : name;
    EXPECT_LE(relative_error(value.grad().flatten(), own.tensor("g." + theirs).flatten()), tolerance(1e-5)) << name;
  }

  // What is merged computes the same without the adapter.
  net.layer->delta = nullptr;
  merge_into(*net.layer, {{adapted[0].adapter}});
  EXPECT_LE(relative_error(net.layer->forward(x), own.tensor("y")), tolerance(1e-5));
}

TEST(Attach, ChangesNothingAtTheStart) {
  auto check = [](auto net, const char* type, NormAxis axis) {
    auto x = net->input();
    auto before = net->forward(x);
    auto adapted = attach_to(*net, type, axis);
    ASSERT_EQ(adapted.size(), 2u);
    EXPECT_LE(relative_error(net->forward(x), before), 1e-6) << type;
    EXPECT_EQ(adapted[0].adapter->is_dora(), std::string(type) == "dora");
  };
  for (const char* type : {"lora", "dora", "loha", "lokr"}) {
    for (auto axis : {NormAxis::output, NormAxis::input}) {
      check(std::make_unique<Net>(24, 40), type, axis);
      check(std::make_unique<ConvNet>(24, 40), type, axis);
    }
  }
}

TEST(Attach, ScalesWithTheRankOrItsRoot) {
  for (bool stabilised : {false, true}) {
    Net net(24, 40);
    auto adapted = attach(net, {.rank = 16, .alpha = 8, .use_rslora = stabilised}, match_targets(net, "all-linear", kNoAliases), 0);
    EXPECT_DOUBLE_EQ(adapted[0].adapter->update().scale(), stabilised ? 2.0 : 0.5);
  }
}

TEST(Attach, RefusesWhatIsNoAdapter) {
  Net net(24, 40);
  EXPECT_NE(error_of([&] { attach(net, {.type = "dorra"}, {}, 0); }, Exit::config).find("\"dora\""), std::string::npos);
  EXPECT_NE(error_of([&] { attach(net, {.dropout = 1}, {}, 0); }, Exit::config).find("lora_dropout"), std::string::npos);
  EXPECT_NE(error_of([&] { attach(net, {.type = "oft", .alpha = 4}, {}, 0); }, Exit::config).find("lora_alpha means nothing"),
            std::string::npos);
  EXPECT_NE(error_of([&] { attach(net, {.lokr_factor = 0}, {}, 0); }, Exit::config).find("lokr_factor"), std::string::npos);
  EXPECT_NE(error_of([] { parse_norm_axis("row"); }, Exit::config).find("output, input"), std::string::npos);
}

TEST(Lokr, SplitsSidesAsEvenlyAsItMay) {
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(lokr_split(3072, -1), Pair(48, 64));
  EXPECT_EQ(lokr_split(127, -1), Pair(1, 127));
  EXPECT_EQ(lokr_split(250, -1), Pair(10, 25));
  EXPECT_EQ(lokr_split(1024, 4), Pair(4, 256));
  EXPECT_EQ(lokr_split(360, 4), Pair(4, 90));
  EXPECT_EQ(lokr_split(360, 7), Pair(6, 60));
}

void merge_all(nn::Module& net, const std::vector<AdapterWeights>& weights, double strength) {
  for (auto& [path, layer] : all_layers(net)) {
    for (const auto& w : weights) {
      if (w.path == path) merge(*layer, {{w, strength}});
    }
  }
}

template <class AnyNet>
void check_round_trip(const Style& style) {
  test::Scratch folder;
  AnyNet trained(24, 40), fresh(24, 40);
  auto adapted = attach_to(trained, style.type, style.axis);
  shake(adapted);
  auto path = folder / "a.safetensors";
  io::save_safetensors(path, adapter_tensors(adapted, kPrefixes, at::kFloat, parse_layout(style.layout)));
  EXPECT_FALSE(kinds_in(io::TensorSource::open({path})).empty());
  auto weights = read_own(path);
  auto again = attach_weights(fresh, weights, "a.safetensors");
  auto x = AnyNet::input();
  EXPECT_LE(relative_error(fresh.forward(x), trained.forward(x)), 1e-6);
  for (size_t i = 0; i < 2; ++i) {
    auto a = adapted[i].adapter->parameters(), b = again[i].adapter->parameters();
    ASSERT_EQ(a.size(), b.size());
    for (auto& [name, value] : a) {
      auto found = std::find_if(b.begin(), b.end(), [&, n = name](auto& p) { return p.first == n; });
      ASSERT_NE(found, b.end()) << name;
      EXPECT_TRUE(at::equal(found->second, value)) << name;
      EXPECT_TRUE(found->second.requires_grad());
    }
  }
  AnyNet merged(24, 40);
  merge_all(merged, weights, 1.0);
  EXPECT_EQ(merged.first.delta, nullptr);
  EXPECT_LE(relative_error(merged.forward(x), trained.forward(x)), 1e-5);
}

TEST(Files, RoundTripInEveryLayout) {
  for (const auto& style : kStyles) {
    SCOPED_TRACE(std::string(style.type) + " " + style.layout);
    check_round_trip<Net>(style);
    SCOPED_TRACE("convolution");
    check_round_trip<ConvNet>(style);
  }
}

TEST(Files, StrengthMovesBetweenBaseAndAdapter) {
  for (auto axis : {NormAxis::output, NormAxis::input}) {
    Net trained(24, 40), half(24, 40), plain(24, 40);
    auto adapted = attach_to(trained, "dora", axis);
    shake(adapted);
    test::Scratch folder;
    io::save_safetensors(folder / "a.safetensors", adapter_tensors(adapted, kPrefixes, at::kFloat, Layout::kohya));
    auto weights = read_own(folder / "a.safetensors");
    merge_all(half, weights, 0.5);
    merge_into(trained.first, {{adapted[0].adapter}});
    EXPECT_LE(relative_error(half.first.weight, (trained.first.weight + plain.first.weight) / 2), 1e-5);
  }
}

std::map<std::string, std::vector<int64_t>> shapes_of(const AdaptedList& adapted, const char* layout) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (auto& [name, t] : adapter_tensors(adapted, kPrefixes, at::kBFloat16, parse_layout(layout))) shapes[name] = t.sizes().vec();
  return shapes;
}

TEST(Files, TheScaleLiesInTheFactorsWhereDiffusersTakesNoAlpha) {
  for (const char* type : {"lora", "dora"}) {
    Net trained(24, 40), again(24, 40);
    auto adapted = attach_to(trained, type, NormAxis::output);
    shake(adapted);
    test::Scratch folder;
    auto tensors = adapter_tensors(adapted, {"transformer.", "lora_transformer_", "lycoris_", /*diffusers_alpha=*/false}, at::kFloat);
    for (const auto& [name, tensor] : tensors) EXPECT_NE(name.find("lora"), std::string::npos) << name;
    io::save_safetensors(folder / "a.safetensors", tensors);
    attach_weights(again, read_own(folder / "a.safetensors"), "a.safetensors");
    auto x = at::randn({3, 24});
    EXPECT_LE(relative_error(again.forward(x), trained.forward(x)), 1e-6);
  }
}

TEST(Files, MagnitudesInTextEncodersAreNamedAsTransformersReadsThem) {
  for (const std::string prefix : {"text_encoder.", "text_encoder_2.text_model.", "unet."}) {
    Net net(24, 40);
    auto adapted = attach_to(net, "dora", NormAxis::output);
    auto tensors = adapter_tensors(adapted, {prefix, "lora_te1_", "lycoris_"}, at::kFloat);
    auto ending = prefix == "unet." ? ".lora_magnitude_vector" : ".lora_magnitude_vector.weight";
    auto named = [&](const auto& tensor) { return tensor.first == prefix + "blocks.0.first" + ending; };
    EXPECT_EQ(std::count_if(tensors.begin(), tensors.end(), named), 1) << prefix;
  }
}

TEST(Files, LayoutsHaveTheNamesOtherProgramsRead) {
  auto names = [](const char* type, NormAxis axis, const char* layout) {
    Net net(24, 40);
    return shapes_of(attach_to(net, type, axis), layout);
  };
  using Shape = std::vector<int64_t>;
  auto dora = names("dora", NormAxis::output, "auto");
  EXPECT_EQ(dora.at("transformer.blocks.0.first.lora_A.weight"), (Shape{4, 24}));
  EXPECT_EQ(dora.at("transformer.blocks.0.first.lora_magnitude_vector"), (Shape{40}));
  EXPECT_EQ(dora.at("transformer.blocks.0.first.alpha"), Shape{});
  EXPECT_EQ(names("dora", NormAxis::input, "auto").at("lora_transformer_blocks_0_first.dora_scale"), (Shape{1, 24}));
  for (const char* layout : {"diffusers", "lycoris", "diffsynth"})
    EXPECT_NE(error_of([&] { names("dora", NormAxis::input, layout); }, Exit::config).find("--lora_format"), std::string::npos) << layout;
  EXPECT_EQ(names("dora", NormAxis::output, "kohya").at("lora_transformer_blocks_0_first.dora_scale"), (Shape{40, 1}));
  EXPECT_EQ(names("dora", NormAxis::input, "kohya").at("lora_transformer_blocks_0_first.lora_down.weight"), (Shape{4, 24}));
  EXPECT_EQ(names("loha", NormAxis::output, "auto").at("lycoris_blocks_0_first.hada_w1_a"), (Shape{40, 4}));
  EXPECT_EQ(names("lokr", NormAxis::output, "auto").at("lycoris_blocks_0_first.lokr_w1"), (Shape{5, 4}));
}

TEST(Files, ConvolutionsOfAnyRankAreReadBack) {
  for (size_t rank : {1, 3}) {
    for (const auto& style : kStyles) {
      SCOPED_TRACE(std::string(style.type) + " " + style.layout);
      auto made = [&] {
        at::manual_seed(11);
        auto net = std::make_unique<OneLayer>(
            std::make_unique<nn::Conv>(24, 40, kernels::Window::cube(rank, 3, 1, 1), at::TensorOptions(), /*with_bias=*/false));
        net->layer->weight.normal_();
        return net;
      };
      auto net = made(), again = made();
      bool has_scale = std::string(style.type) != "oft" && std::string(style.type) != "full";
      auto adapted = attach(*net, {.type = style.type, .rank = 4, .alpha = has_scale ? 2.0 : 0, .dora_norm = style.axis}, {"layer"}, 5);
      shake(adapted);
      test::Scratch folder;
      io::save_safetensors(folder / "a.safetensors",
                           adapter_tensors(adapted, {"", "lora_", "lycoris_"}, at::kFloat, parse_layout(style.layout)));
      auto weights = read_adapter(
          folder / "a.safetensors", [](const std::string&) { return Behind{{"layer"}}; }, [](const std::string&) { return int64_t{40}; },
          [](const std::string&) { return int64_t{24}; });
      attach_weights(*again, weights, "a");
      auto x = rank == 1 ? at::randn({2, 24, 9}) : at::randn({2, 24, 4, 3, 5});
      EXPECT_LE(relative_error(again->layer->forward(x), net->layer->forward(x)), 1e-5);
    }
  }
}

TEST(Files, ConvolutionsHaveTheShapesOtherProgramsRead) {
  auto shapes = [](const char* type, NormAxis axis, const char* layout) {
    ConvNet net(24, 40);
    return shapes_of(attach_to(net, type, axis), layout);
  };
  using Shape = std::vector<int64_t>;
  auto peft = shapes("dora", NormAxis::output, "diffusers");
  EXPECT_EQ(peft.at("transformer.blocks.0.first.lora_A.weight"), (Shape{4, 24, 3, 3}));
  EXPECT_EQ(peft.at("transformer.blocks.0.first.lora_B.weight"), (Shape{40, 4, 1, 1}));
  EXPECT_EQ(peft.at("transformer.blocks.0.first.lora_magnitude_vector"), (Shape{1, 40, 1, 1}));
  EXPECT_EQ(peft.at("transformer.blocks.0.second.lora_A.weight"), (Shape{4, 40, 1, 1}));
  auto kohya = shapes("dora", NormAxis::output, "kohya");
  EXPECT_EQ(kohya.at("lora_transformer_blocks_0_first.lora_down.weight"), (Shape{4, 24, 3, 3}));
  EXPECT_EQ(kohya.at("lora_transformer_blocks_0_first.lora_up.weight"), (Shape{40, 4, 1, 1}));
  EXPECT_EQ(kohya.at("lora_transformer_blocks_0_first.dora_scale"), (Shape{40, 1, 1, 1}));
  EXPECT_EQ(shapes("dora", NormAxis::input, "kohya").at("lora_transformer_blocks_0_first.dora_scale"), (Shape{1, 24, 1, 1}));
  EXPECT_EQ(shapes("loha", NormAxis::output, "auto").at("lycoris_blocks_0_first.hada_w1_b"), (Shape{4, 24 * 9}));
  auto lokr = shapes("lokr", NormAxis::output, "auto");
  EXPECT_EQ(lokr.at("lycoris_blocks_0_first.lokr_w1"), (Shape{5, 4}));
  EXPECT_EQ(lokr.at("lycoris_blocks_0_first.lokr_w2"), (Shape{8, 6, 3, 3}));
}

TEST(Files, TuckerLoraIsMultipliedOut) {
  auto down = at::randn({4, 24, 1, 1}), mid = at::randn({4, 4, 3, 3}), up = at::randn({40, 4, 1, 1});
  test::Scratch folder;
  const std::string layer = "lora_transformer_blocks_0_first";
  auto path = folder / "a.safetensors";
  io::save_safetensors(path, {{layer + ".lora_down.weight", down},
                              {layer + ".lora_mid.weight", mid},
                              {layer + ".lora_up.weight", up},
                              {layer + ".alpha", at::full({}, 2.0f)}});
  auto weights = read_own(path);
  ConvNet plain(24, 40), adapted(24, 40);
  attach_weights(adapted, weights, "a");
  auto x = ConvNet::input();
  auto expected = plain.first.forward(x) + at::conv2d(at::conv2d(at::conv2d(x, down), mid, {}, 2, 1), up) * 0.5;
  EXPECT_LE(relative_error(adapted.first.forward(x), expected), 1e-5);
  io::save_safetensors(path, {{layer + ".lora_mid.weight", mid}, {layer + ".lora_up.weight", up}});
  EXPECT_NE(error_of([&] { read_own(path); }).find("lacks its"), std::string::npos);
}

TEST(Files, AlphaKeepsTheScaleOfRankStabilisedAdapters) {
  Net net(24, 40);
  auto adapted = attach(net, {.rank = 4, .alpha = 2, .use_rslora = true}, match_targets(net, "all-linear", kNoAliases), 0);
  for (auto& [name, value] : adapter_tensors(adapted, {}, at::kFloat)) {
    if (name.ends_with(".alpha")) {
      EXPECT_FLOAT_EQ(value.item<float>(), 4.0f);  // 2 / √4 · 4
    }
  }
}

/// Layers a (8 rows) and b (4), which other programs have stacked as qkv.
struct Fused : nn::Module {
  nn::Linear a{6, 8, {}}, b{6, 4, {}};
  Fused() {
    own("a", a);
    own("b", b);
    at::manual_seed(4);
    for (auto* layer : {&a, &b}) {
      at::NoGradGuard no_grad;
      layer->weight.normal_();
      layer->bias.normal_();
    }
  }
  at::Tensor forward(const at::Tensor& x) { return at::cat({a.forward(x), b.forward(x)}, -1); }
  at::Tensor weight() { return at::cat({a.weight, b.weight}); }
};
const LayerPrefixes kFusedNames{
    "transformer.",        "lora_transformer_",     "lycoris_", true,
    {{"qkv", {"a", "b"}}}, {{"x.qkv", {"a", "b"}}}, {},         [](const std::string& path) { return int64_t{path == "a" ? 8 : 4}; }};

int64_t kFusedColumns(const std::string&) { return 6; }

std::vector<AdapterWeights> read_fused(const io::NamedTensors& tensors) {
  test::Scratch folder;
  io::save_safetensors(folder / "f.safetensors", tensors);
  auto layers = [](const std::string& name) { return name.ends_with("qkv") ? Behind{{"a", "b"}} : Behind{{name}}; };
  return read_adapter(folder / "f.safetensors", layers, kFusedNames.rows_of, kFusedColumns);
}

/// Blocks of rows of w turned by (I + Q)(I - Q)⁻¹, Q = B - Bᵀ, transposed.
at::Tensor turned(const at::Tensor& w, const at::Tensor& blocks) {
  auto q = blocks - blocks.transpose(1, 2), one = at::eye(blocks.size(1));
  return at::bmm(at::bmm(one + q, at::inverse(one - q)).transpose(1, 2), w.view({blocks.size(0), blocks.size(1), -1})).flatten(0, 1);
}

/// What a file of the fused layer says, and that layer's weight under it.
std::vector<std::pair<io::NamedTensors, std::function<at::Tensor(const at::Tensor& w)>>> fused_files() {
  at::manual_seed(5);
  auto down = at::randn({2, 6}), up = at::randn({12, 2}), m = at::rand({12, 1}) + 1, m_in = at::rand({1, 6}) + 1;
  auto p1 = at::randn({12, 2}), q1 = at::randn({2, 6}), p2 = at::randn({12, 2}), q2 = at::randn({2, 6});
  auto v = [=](const at::Tensor& w) { return w + at::mm(up, down); };
  io::NamedTensors lora{{"qkv.lora_down.weight", down}, {"qkv.lora_up.weight", up}};
  auto dora = lora, dora_in = lora;
  dora.emplace_back("qkv.dora_scale", m);
  dora_in.emplace_back("qkv.dora_scale", m_in);
  std::vector<std::pair<io::NamedTensors, std::function<at::Tensor(const at::Tensor&)>>> files{
      {lora, v},
      {dora, [=](const at::Tensor& w) { return v(w) * m / v(w).norm(2, {1}, true); }},
      {dora_in, [=](const at::Tensor& w) { return v(w) * m_in / v(w).norm(2, {0}, true); }},
      {{{"qkv.hada_w1_a", p1}, {"qkv.hada_w1_b", q1}, {"qkv.hada_w2_a", p2}, {"qkv.hada_w2_b", q2}},
       [=](const at::Tensor& w) { return w + at::mm(p1, q1) * at::mm(p2, q2); }}};
  for (int64_t rows : {1, 2, 3, 4, 6, 12}) {  // of W1; its groups end within a layer's rows or with them
    auto w1 = at::randn({rows, 2}), w2 = at::randn({12 / rows, 3});
    files.push_back({{{"qkv.lokr_w1", w1}, {"qkv.lokr_w2", w2}}, [=](const at::Tensor& w) { return w + at::kron(w1, w2); }});
  }
  auto diff = at::randn({12, 6});
  files.push_back({{{"qkv.diff", diff}}, [=](const at::Tensor& w) { return w + diff; }});
  for (int64_t side : {1, 2, 4}) {
    auto blocks = at::randn({12 / side, side, side});
    files.push_back({{{"qkv.oft_blocks", blocks}}, [=](const at::Tensor& w) { return turned(w, blocks); }});
  }
  return files;
}

TEST(FusedLayers, AdaptersGiveWhatTheyGiveTheFusedLayer) {
  auto x = at::randn({5, 6});
  for (const auto& [tensors, expected] : fused_files()) {
    SCOPED_TRACE(tensors.back().first + " of " + std::to_string(tensors[0].second.size(0)) + " rows");
    Fused plain, hung, merged;
    auto weights = read_fused(tensors);
    attach_weights(hung, weights, "f");
    auto bias = at::cat({plain.a.bias, plain.b.bias});
    EXPECT_LE(relative_error(hung.forward(x), at::linear(x, expected(plain.weight()), bias)), 1e-5);
    for (const auto& w : weights) {
      auto weight_of = [&](const std::string& path) { return (path == "a" ? plain.a : plain.b).weight.clone(); };
      merge(w.path == "a" ? merged.a : merged.b, {{w, 1, sharing_norms(w, weights)}}, weight_of);
    }
    EXPECT_LE(relative_error(merged.weight(), expected(plain.weight())), 1e-5);
  }
}

TEST(FusedLayers, ShareOneParameterAndItsGradient) {
  auto x = at::randn({5, 6}), dy = at::randn({5, 12});
  for (const auto& [tensors, expected] : fused_files()) {
    SCOPED_TRACE(tensors.back().first + " of " + std::to_string(tensors[0].second.size(0)) + " rows");
    Fused net;
    auto adapted = attach_weights(net, read_fused(tensors), "f");
    auto a = adapted[0].adapter->parameters(), b = adapted[1].adapter->parameters();
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(a[i].second.is_same(b[i].second)) << a[i].first;
      EXPECT_EQ(a[i].second.numel(), tensors[i].second.numel());
    }
    if (tensors.back().first.ends_with("dora_scale")) continue;  // its norms carry no gradient
    at::Tensor value = a[0].second, leaf = tensors[0].second.clone().view_as(value);
    (net.forward(x) * dy).sum().backward();
    // The same by a difference in the direction of the gradient, of a length at which a turn is still straight and fp32 still exact.
    auto g = value.grad().clone();
    auto norm = g.norm().item<double>(), length = 1e-2;
    at::NoGradGuard no_grad;
    auto at_step = [&](double step) {
      value.copy_(leaf + g * (step / std::max(norm, 1e-9)));  // turns of one row have no gradient
      return (net.forward(x).to(at::kDouble) * dy).sum().item<double>();
    };
    EXPECT_NEAR((at_step(length) - at_step(-length)) / (2 * length), norm, 2e-3 * norm);
  }
}

TEST(FusedLayers, AreWrittenAsTheyAre) {
  for (const auto& [tensors, expected] : fused_files()) {
    SCOPED_TRACE(tensors.back().first);
    Fused net;
    auto adapted = attach_weights(net, read_fused(tensors), "f");
    auto written = adapter_tensors(adapted, kFusedNames, at::kFloat, Layout::kohya);
    std::map<std::string, at::Tensor> found(written.begin(), written.end());
    for (const auto& [name, value] : tensors) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_TRUE(at::equal(found.at(name), value)) << name;
    }
  }
}

TEST(FusedLayers, AreCutWhereALayoutHasOurLayers) {
  auto files = fused_files();
  auto x = at::randn({5, 6});
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& tensors = files[i].first;
    auto rows_of_w2 = tensors[0].first == "qkv.lokr_w1" ? tensors[1].second.size(0) : 1;
    bool by_input = i == 2, is_cut_within = 8 % rows_of_w2 != 0 || 4 % rows_of_w2 != 0;
    SCOPED_TRACE(std::to_string(i));
    Fused net, again;
    auto adapted = attach_weights(net, read_fused(tensors), "f");
    auto write = [&] { return adapter_tensors(adapted, kFusedNames, at::kFloat, i < 3 ? Layout::onetrainer : Layout::lycoris); };
    if (by_input || is_cut_within) {
      EXPECT_NE(error_of(write, Exit::config).find("cannot be cut"), std::string::npos);
      continue;
    }
    test::Scratch folder;
    io::save_safetensors(folder / "f.safetensors", write());
    auto layers = [](const std::string& name) { return Behind{{name.substr(name.size() - 1)}}; };
    attach_weights(again, read_adapter(folder / "f.safetensors", layers, kFusedNames.rows_of, kFusedColumns), "f");
    EXPECT_LE(relative_error(again.forward(x), net.forward(x)), 1e-6);
  }
}

TEST(FusedLayers, AdaptersOfTheirPartsAreStacked) {
  auto x = at::randn({5, 6});
  for (const char* type : {"lora", "dora", "loha", "full", "oft"}) {
    bool has_scale = std::set<std::string>{"lora", "dora", "loha"}.contains(type);
    for (bool both : {true, false}) {
      if (!both && std::string(type) == "dora") continue;
      SCOPED_TRACE(type);
      Fused net, again;
      auto options_of = [&](const std::string& path) {
        return AdapterOptions{.type = type, .rank = 2, .alpha = !has_scale ? 0 : path == "a" ? 4.0 : 3.0};
      };
      auto adapted = attach(net, options_of, both ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"b"}, 3);
      shake(adapted);
      attach_weights(again, read_fused(adapter_tensors(adapted, kFusedNames, at::kFloat, Layout::kohya)), "f");
      EXPECT_LE(relative_error(again.forward(x), net.forward(x)), 1e-5);
    }
  }
  Fused net;
  auto lokr = attach(net, {.type = "lokr", .rank = 2}, {"a", "b"}, 3);
  EXPECT_NE(error_of([&] { adapter_tensors(lokr, kFusedNames, at::kFloat, Layout::kohya); }, Exit::config).find("cannot be stacked"),
            std::string::npos);
  auto sides = [](const std::string& path) { return AdapterOptions{.type = "oft", .rank = path == "a" ? 2 : 1}; };
  auto oft = attach(net, sides, {"a", "b"}, 3);
  EXPECT_NE(error_of([&] { adapter_tensors(oft, kFusedNames, at::kFloat, Layout::kohya); }, Exit::config).find("cannot be stacked"),
            std::string::npos);
}

TEST(FusedLayers, NewAdaptersStartAsThatOfTheFusedLayer) {
  auto x = at::randn({5, 6});
  for (const char* type : {"lora", "dora", "loha", "lokr", "full", "oft"}) {
    for (auto axis : {NormAxis::output, NormAxis::input}) {
      Fused net, plain;
      auto options_of = [&](const std::string&) { return AdapterOptions{.type = type, .rank = 2, .dora_norm = axis}; };
      auto adapted = attach(net, options_of, {"a", "b"}, 3, nullptr, {{"a", "b"}});
      ASSERT_EQ(adapted.size(), 2u);
      EXPECT_TRUE(adapted[0].adapter->parameters()[0].second.is_same(adapted[1].adapter->parameters()[0].second));
      EXPECT_LE(relative_error(net.forward(x), plain.forward(x)), 1e-6) << type;
    }
  }
  Fused net;  // blocks of three rows, and parts of eight and four
  auto wide = [](const std::string&) { return AdapterOptions{.type = "oft", .rank = 3}; };
  EXPECT_NE(error_of(
                [&] {
                  attach(net, wide, {"a", "b"}, 3, nullptr, {{"a", "b"}});
                },
                Exit::config)
                .find("reach over the border of 'b'"),
            std::string::npos);
}

TEST(FusedLayers, ChangesThatAreOnlyMergedTakeTheirRows) {
  at::manual_seed(6);
  auto g = at::randn({12}), rescale = at::rand({12, 1}) + 0.5, blocks = at::randn({6, 2, 2});
  auto a1 = at::randn({6, 2}), a2 = at::randn({2, 6}), b1 = at::randn({12, 2}), b2 = at::randn({2, 6}), diff_b = at::randn({12});
  auto above = at::randn({3, 1}) * 0.1;
  const std::vector<std::pair<io::NamedTensors, std::function<at::Tensor(const at::Tensor& w)>>> files{
      {{{"qkv.weight", g}, {"qkv.on_input", at::zeros({1})}}, [=](const at::Tensor& w) { return w * (1 + g).unsqueeze(1); }},
      {{{"qkv.oft_blocks", blocks}, {"qkv.rescale", rescale}}, [=](const at::Tensor& w) { return turned(w, blocks) * rescale; }},
      {{{"qkv.a1.weight", a1}, {"qkv.a2.weight", a2}, {"qkv.b1.weight", b1}, {"qkv.b2.weight", b2}},
       [=](const at::Tensor& w) { return w + at::mm(at::mm(w, a1), a2) + at::mm(b1, b2); }}};
  for (const auto& [tensors, expected] : files) {
    SCOPED_TRACE(tensors[0].first);
    Fused plain, merged;
    auto weights = read_fused(tensors);
    ASSERT_EQ(weights.size(), 2u);
    check_fit(merged, weights, "f");
    for (const auto& w : weights) merge(w.path == "a" ? merged.a : merged.b, {{w, 1}});
    EXPECT_LE(relative_error(merged.weight(), expected(plain.weight())), 1e-5);
  }
  // What turns the inputs does so for each part.
  Fused plain, merged;
  for (const auto& w : read_fused({{"qkv.oft_R", above}})) merge(w.path == "a" ? merged.a : merged.b, {{w, 1}});
  nn::Linear whole(6, 12, {});
  at::NoGradGuard no_grad;
  whole.weight.copy_(plain.weight());
  auto alone = read_fused({{"qkv.oft_R", above}})[0];
  alone.fused_rows = {};
  merge(whole, {{alone, 1}});
  EXPECT_LE(relative_error(merged.weight(), whole.weight), 1e-6);
  EXPECT_FALSE(at::equal(merged.weight(), plain.weight()));
  // A change of biases is one of a matrix of one column.
  Fused biased;
  for (const auto& w : read_fused({{"qkv.diff_b", diff_b}})) {
    EXPECT_EQ(w.target, "bias");
    auto& bias = (w.path == "a" ? biased.a : biased.b).bias;
    nn::LinearMap column(bias.detach().clone().unsqueeze(1), kernels::matrix_product());
    merge(column, {{w, 1}});
    bias.copy_(column.weight.squeeze(1));
  }
  EXPECT_LE(relative_error(at::cat({biased.a.bias, biased.b.bias}), at::cat({plain.a.bias, plain.b.bias}) + diff_b), 1e-6);
}

TEST(FusedLayers, WhatTurnsTheirRowsTogetherIsRefused) {
  auto refused = [](const io::NamedTensors& tensors) {
    EXPECT_NE(error_of([&] { read_fused(tensors); }).find("parts of a fused layer together"), std::string::npos) << tensors[0].first;
  };
  refused({{"qkv.oft_blocks", at::randn({4, 3, 3})}});
  refused({{"qkv.oft_blocks", at::randn({4, 3, 3})}, {"qkv.rescale", at::rand({12, 1})}});
  refused({{"qkv.oft_blocks", at::randn({2, 6, 2, 2})}});
  refused({{"qkv.p_layer.weight", at::randn({12, 2})}, {"qkv.q_layer.weight", at::randn({2, 6})}, {"qkv.lambda_layer", at::randn({1, 2})}});
}

TEST(Files, ChangesOfRowsInAnotherOrderAreOnesOfTheirHalves) {
  at::manual_seed(7);
  auto blocks = at::randn({6, 2, 2});
  auto files = std::vector<io::NamedTensors>{{{"x.oft_blocks", blocks}},
                                             {{"x.oft_blocks", blocks}, {"x.rescale", at::rand({12, 1}) + 0.5}},
                                             {{"x.diff", at::randn({12, 6})}},
                                             {{"x.weight", at::randn({12})}, {"x.on_input", at::zeros({1})}}};
  test::Scratch folder;
  auto read = [&](const io::NamedTensors& tensors, bool swapped) {
    io::save_safetensors(folder / "f.safetensors", tensors);
    return read_adapter(
        folder / "f.safetensors",
        [&](const std::string& name) {
          return Behind{{name}, swapped};
        },
        [](const std::string&) { return int64_t{12}; }, kFusedColumns)[0];
  };
  for (const auto& tensors : files) {
    SCOPED_TRACE(tensors.back().first);
    nn::Linear ours(6, 12, {}), theirs(6, 12, {});
    at::NoGradGuard no_grad;
    ours.weight.normal_();
    theirs.weight.copy_(ours.weight.roll(6, 0));
    merge(ours, {{read(tensors, true), 1}});
    merge(theirs, {{read(tensors, false), 1}});
    EXPECT_LE(relative_error(ours.weight, theirs.weight.roll(6, 0)), 1e-6);
  }
  EXPECT_NE(error_of([&] { read({{"x.oft_blocks", at::randn({3, 4, 4})}}, true); }).find("in another order"), std::string::npos);
}

TEST(FusedLayers, BrokenFilesAreRefused) {
  auto refused = [](const io::NamedTensors& tensors, const char* why) {
    EXPECT_NE(error_of([&] {
                Fused net;
                attach_weights(net, read_fused(tensors), "f");
              }).find(why),
              std::string::npos);
  };
  refused({{"qkv.lora_down.weight", at::randn({2, 6})}}, "lacks its lora_B.weight");
  refused({{"qkv.hada_w1_a", at::randn({2, 6})}}, "lacks its");
  refused({{"qkv.lora_mid.weight", at::randn({2, 2, 3, 3})}}, "lacks its");
  auto loha = [](int64_t rows, int64_t columns) {
    return io::NamedTensors{{"qkv.hada_w1_a", at::randn({12, 2})},
                            {"qkv.hada_w1_b", at::randn({2, 6})},
                            {"qkv.hada_w2_a", at::randn({rows, 2})},
                            {"qkv.hada_w2_b", at::randn({2, columns})}};
  };
  refused(loha(10, 6), "differ in their sides, 12 × 6 and 10 × 6");
  refused(loha(12, 5), "differ in their sides");
  refused({{"qkv.lora_down.weight", at::ones({2, 6}, at::kLong)}, {"qkv.lora_up.weight", at::ones({12, 2}, at::kLong)}}, "whole numbers");
  refused({{"qkv.lora_down.weight", at::randn({2, 6})}, {"qkv.lora_up.weight", at::randn({10, 2})}}, "another model");
}

TEST(DropoutMask, IsTheSameForTheSameDrawAndOffOutsideTraining) {
  Net net(64, 64);
  auto dropout = std::make_shared<Dropout>(Dropout{.probability = 0.25, .seed = 3});
  for (const char* type : {"lora", "dora", "lokr"}) {
    AdapterOptions options{.type = type, .rank = 4, .dropout = 0.25};
    auto adapted = attach(net, options, match_targets(net, "all-linear", kNoAliases), 0, dropout);
    shake(adapted);
    auto x = at::randn({8, 64});
    dropout->active = false;
    auto plain = net.first.forward(x);
    dropout->active = true;
    auto dropped = net.first.forward(x);
    EXPECT_TRUE(at::equal(net.first.forward(x), dropped)) << type;
    EXPECT_GT(relative_error(dropped, plain), 1e-3) << type;
    ++dropout->draw;
    EXPECT_FALSE(at::equal(net.first.forward(x), dropped)) << type;
    // The mean over draws is what is computed without dropout.
    auto sum = at::zeros_like(plain);
    for (int i = 0; i < 100; ++i, ++dropout->draw) sum += net.first.forward(x).detach();
    EXPECT_LE(((sum / 100 - plain).norm() / plain.norm()).item<double>(), 0.1) << type;
  }
}
