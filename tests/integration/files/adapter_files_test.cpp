// Adapter files of other programs, merged into the weights of real families: what those programs make of them (tests/golden/make_wild.py).
#include <gmock/gmock.h>

#include "adapters/adapter_tensors.h"
#include "io/safetensors.h"
#include "loras/lora_file.h"
#include "loras/merged.h"
#include "models/registry.h"
#include "tests/golden.h"
#include "tests/integration/program.h"
#include "tests/places.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kWild = fs::path(test::kCheckout) / "tests/golden/wild";

std::unique_ptr<models::Model> open(const std::string& pipeline) {
  models::ModelOptions options;
  options.dtype = at::kFloat;
  options.own = models::default_options();
  options.tokenizer_path = (kAssets / "tokenizer").string();
  if (pipeline == "pipeline") options.tokenizer_2_path = (kAssets / "tokenizer_2").string();
  return models::open_model(models::open_model_files({{golden_path(pipeline + "/model")}, "", ""}), options);
}

std::unique_ptr<models::Model> flux() { return open("pipeline"); }

/// Expects of a case of expected.safetensors that merging these gives its weights.
void expect_case(const std::string& name, const std::vector<loras::LoraFile>& files) {
  auto model = flux();
  loras::merge(*model, files);
  auto expected = io::TensorSource::open({kWild / "expected.safetensors"}).below(name + "/");
  ASSERT_FALSE(expected.names().empty());
  for (const auto& theirs : expected.names()) {
    auto dot = theirs.find('.');
    std::string component = theirs.starts_with("transformer.") ? "dit" : theirs.substr(0, dot);
    if (!model->components().is_loaded(component)) model->components().load(component);
    auto weight = *model->components().module(component).parameters().at(theirs.substr(dot + 1) + ".weight");
    EXPECT_LE(relative_error(weight.narrow(0, 0, 6), expected.tensor(theirs)), tolerance(1e-5)) << name << " " << theirs;
  }
}

/// Adapters on every layer of every component but the autoencoder, by component, all of whose numbers are drawn.
std::map<std::string, adapters::AdaptedList> adapt_all(models::Model& model, const adapters::AdapterOptions& options) {
  std::map<std::string, adapters::AdaptedList> all;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  at::NoGradGuard no_grad;
  for (const auto& [component, names] : model.names().components) {
    if (component == "vae") continue;
    model.components().load(component);
    std::vector<std::string> paths;
    for (const auto& [path, layer] : adapters::all_layers(model.components().module(component))) paths.push_back(path);
    all[component] = adapters::attach(model.components().module(component), options, paths, 1);
    for (const auto& item : all[component]) {
      for (auto& [name, value] : item.adapter->parameters()) value.add_(at::empty_like(value).normal_(0, 0.3, generator).abs_());
    }
  }
  return all;
}

/// What names in a file mean: a LoRA of rank 1 on each of them, whose sides are those of the layers "component/path" that it should mean.
void expect_meaning(const std::string& pipeline, const std::string& name, const std::vector<std::string>& meaning,
                    const std::string& down = ".lora_down.weight", const std::string& up = ".lora_up.weight") {
  auto model = open(pipeline);
  int64_t in = 0, out = 0;
  for (const auto& layer : meaning) {
    auto slash = layer.find('/');
    auto skeleton = model->components().skeleton(layer.substr(0, slash));
    for (const auto& [path, linear] : adapters::all_layers(*skeleton)) {
      if (path != layer.substr(slash + 1)) continue;
      in = linear->in_features();
      out += linear->out_features();
    }
  }
  Scratch folder;
  io::save_safetensors(folder / "lora.safetensors", {{name + down, at::ones({1, in})}, {name + up, at::ones({out, 1})}});
  std::vector<std::string> found;
  for (const auto& [component, weights] : loras::read(*model, folder / "lora.safetensors")) {
    for (const auto& w : weights) found.push_back(component + "/" + w.path);
  }
  EXPECT_EQ(found, meaning) << name;
}

std::string wild(const std::string& name) { return (kWild / name).string(); }

}  // namespace

TEST(AdapterFiles, HaveTheScalesOfDiffusersMetadata) {
  expect_case("patterns", {{wild("patterns.safetensors")}});
  expect_case("dora", {{wild("dora.safetensors")}});
}

TEST(AdapterFiles, HaveTheScalesOfPeftsConfig) {
  expect_case("peft", {{wild("peft")}});
  expect_case("peft", {{wild("peft/adapter_model.safetensors")}});
  expect_case("peft_lokr", {{wild("peft_lokr")}});
}

TEST(AdapterFiles, OfPeftAreRefusedWhereTheirConfigContradictsThem) {
  auto refused = [](const std::string& find, const std::string& replace) {
    Scratch folder;
    auto config = read_file(kWild / "peft/adapter_config.json");
    auto at = config.find(find);
    if (at == config.npos) throw std::logic_error("no such text in the config");
    folder.write("adapter_config.json", config.replace(at, find.size(), replace));
    fs::copy(kWild / "peft/adapter_model.safetensors", folder / "adapter_model.safetensors");
    return error_of([&] { loras::merge(*flux(), {{folder.path()}}); });
  };
  EXPECT_THAT(refused("\"r\": 2", "\"r\": 8"), HasSubstr("has rank 2, and 8 by the settings beside it"));
  EXPECT_THAT(refused("\"r\": 2", "\"r\": \"two\""), HasSubstr("cannot be read"));
  EXPECT_THAT(refused("\"to_q\": 1", "\"to_(q\": 1"), HasSubstr("nor a regular expression"));
  EXPECT_THAT(refused("\"r\": 2", "\"r\": 2, \"num_cayley_neumann_terms\": 4611686018427387904"), HasSubstr("can be 1 to 100"));
  EXPECT_THAT(refused("\"use_dora\": false", "\"use_dora\": true"), HasSubstr("has no magnitude"));
  EXPECT_THAT(refused("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\""), HasSubstr("pissa"));
  Scratch empty;
  EXPECT_THAT(error_of([&] { loras::merge(*flux(), {{empty.path()}}); }), HasSubstr("adapter_model.safetensors"));
}

TEST(AdapterFiles, OfDiffusersAndPeftAreWhatTheyAreHashedBy) {
  auto model = flux();
  loras::merge(*model, {{wild("peft")}});
  EXPECT_THAT(model->components().holding("dit").merge->files(),
              testing::ElementsAre(kWild / "peft/adapter_model.safetensors", kWild / "peft/adapter_config.json"));
}

TEST(AdapterFiles, WithDoraHaveStrengthsAndOrdersAsInDiffusers) {
  auto patterns = wild("patterns.safetensors"), dora = wild("dora.safetensors");
  expect_case("dora-0.6", {{dora, 0.6}});
  expect_case("patterns-0.7+dora-0.6", {{patterns, 0.7}, {dora, 0.6}});
  expect_case("dora-0.6+patterns-0.7", {{dora, 0.6}, {patterns, 0.7}});
}

/// Those that can hold adapters of this kind on every single layer: kohya's FLUX has fused layers.
std::vector<std::string> formats_of(const std::string& pipeline, const std::string& kind) {
  std::vector<std::string> formats{"auto", "onetrainer"};
  bool stacks = pipeline != "pipeline" || (kind != "lokr" && kind != "dora-input");
  if (stacks) formats.push_back("kohya");
  if (kind != "dora-input") formats.insert(formats.end(), {"diffusers", "lycoris"});
  return formats;
}

/// Pipeline, kind of adapter.
class AdapterFormats : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(AdapterFormats, AreReadBackAsTheyWereWritten) {
  const auto& [pipeline, kind] = GetParam();
  adapters::AdapterOptions options{
      .type = kind == "dora-input" ? "dora" : kind, .rank = 2, .alpha = kind == "oft" || kind == "full" ? 0.0 : 3};
  if (kind == "dora-input") options.dora_norm = adapters::NormAxis::input;
  auto model = open(pipeline);
  auto all = adapt_all(*model, options);
  Scratch folder;
  auto file = [&](const std::string& format) { return folder / (format + ".safetensors"); };
  for (const auto& format : formats_of(pipeline, kind)) {
    io::NamedTensors tensors;
    for (const auto& [component, adapted] : all) {
      auto prefixes = loras::layer_prefixes(*model, component);
      for (auto& t : adapters::adapter_tensors(adapted, prefixes, at::kFloat, adapters::parse_layout(format)))
        tensors.push_back(std::move(t));
    }
    io::save_safetensors(file(format), tensors);
  }
  std::map<std::string, at::Tensor> expected;
  for (const auto& [component, adapted] : all) {
    for (const auto& item : adapted) {
      adapters::merge_into(*item.layer, {{item.adapter}});
      expected[component + "/" + item.path] = item.layer->weight;
    }
  }
  for (const auto& format : formats_of(pipeline, kind)) {
    auto again = open(pipeline);
    loras::merge(*again, {{file(format)}});
    double worst = 0;
    for (const auto& [component, adapted] : all) {
      again->components().load(component);
      for (const auto& [path, layer] : adapters::all_layers(again->components().module(component)))
        worst = std::max(worst, relative_error(layer->weight, expected.at(component + "/" + path)));
    }
    EXPECT_LE(worst, 1e-5) << format;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdapterFormats,
                         testing::Combine(testing::Values("pipeline", "sdxl_pipeline", "sd15_pipeline"),
                                          testing::Values("lora", "dora", "dora-input", "loha", "lokr", "oft", "full")));

TEST(AdapterNames, OfFluxInTheWildAreUnderstood) {
  const std::string proj = "dit/transformer_blocks.0.attn.to_out.0", clip = "text_encoder/encoder.layers.0.self_attn.q_proj",
                    t5 = "text_encoder_2/encoder.block.0.layer.0.SelfAttention.q";
  const std::vector<std::string> image_qkv{"dit/transformer_blocks.0.attn.to_q", "dit/transformer_blocks.0.attn.to_k",
                                           "dit/transformer_blocks.0.attn.to_v"};
  for (const char* prefix : {"", "diffusion_model.", "model.diffusion_model."})
    expect_meaning("pipeline", prefix + std::string("double_blocks.0.img_attn.proj"), {proj});
  for (const char* name : {"lora_unet_double_blocks_0_img_attn_proj", "lora_unet__double_blocks_0_img_attn_proj",
                           "lycoris_double_blocks_0_img_attn_proj", "lycoris_transformer_blocks_0_attn_to_out_0"})
    expect_meaning("pipeline", name, {proj});
  for (const char* name : {"text_encoders.clip_l.transformer.text_model.encoder.layers.0.self_attn.q_proj",
                           "lora_te_text_model_encoder_layers_0_self_attn_q_proj", "lora_te1_text_model_encoder_layers_0_self_attn_q_proj",
                           "text_model.encoder.layers.0.self_attn.q_proj", "lycoris_text_model_encoder_layers_0_self_attn_q_proj"})
    expect_meaning("pipeline", name, {clip});
  for (const char* name : {"text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q",
                           "lora_te2_encoder_block_0_layer_0_SelfAttention_q", "lora_te3_encoder_block_0_layer_0_SelfAttention_q"})
    expect_meaning("pipeline", name, {t5});
  expect_meaning("pipeline", "double_blocks.0.processor.qkv_lora1", image_qkv, ".down.weight", ".up.weight");
  expect_meaning("pipeline", "double_blocks.0.processor.proj_lora2", {"dit/transformer_blocks.0.attn.to_add_out"}, ".down.weight",
                 ".up.weight");
  expect_meaning("pipeline", "diffusion_model.single_blocks.0.processor.proj_lora", {"dit/single_transformer_blocks.0.proj_out"},
                 ".down.weight", ".up.weight");
}

TEST(AdapterNames, OfStableDiffusionInTheWildAreUnderstood) {
  auto skeleton = open("sd15_pipeline")->components().skeleton("unet");
  std::string attention;
  for (const auto& [path, layer] : adapters::all_layers(*skeleton)) {
    if (attention.empty() && path.ends_with(".to_q")) attention = path.substr(0, path.size() - 5);
  }
  for (const char* prefix : {"", "unet."}) {
    expect_meaning("sd15_pipeline", prefix + attention + ".processor.to_q_lora", {"unet/" + attention + ".to_q"}, ".down.weight",
                   ".up.weight");
    expect_meaning("sd15_pipeline", prefix + attention + ".processor.to_out_lora", {"unet/" + attention + ".to_out.0"}, ".down.weight",
                   ".up.weight");
  }
  expect_meaning("sd15_pipeline", "text_encoder.text_model.encoder.layers.0.self_attn.q_proj",
                 {"text_encoder/encoder.layers.0.self_attn.q_proj"}, ".lora_linear_layer.down.weight", ".lora_linear_layer.up.weight");
  expect_meaning("sdxl_pipeline", "text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc1",
                 {"text_encoder/encoder.layers.0.mlp.fc1"});
  expect_meaning("sdxl_pipeline", "text_encoders.clip_g.transformer.text_model.encoder.layers.0.mlp.fc1",
                 {"text_encoder_2/encoder.layers.0.mlp.fc1"});
  expect_meaning("sdxl_pipeline", "text_encoders.clip_g.transformer.text_projection", {"text_encoder_2/text_projection"});
}

TEST(AdapterNames, TheLastModulationIsInTheOtherOrder) {
  auto weight_under = [](const std::string& name, const at::Tensor& up) {
    Scratch folder;
    if (!name.empty())
      io::save_safetensors(folder / "lora.safetensors", {{name + ".lora_down.weight", at::ones({1, 32})}, {name + ".lora_up.weight", up}});
    auto model = flux();
    if (!name.empty()) loras::merge(*model, {{folder / "lora.safetensors"}});
    model->components().load("dit");
    return model->components().module("dit").parameters().at("norm_out.linear.weight")->clone();
  };
  auto plain = weight_under("", {});
  auto shift = at::full({32, 1}, 2.0), scale = at::full({32, 1}, 5.0);
  ASSERT_EQ(plain.sizes(), at::IntArrayRef({64, 32}));
  for (const char* name :
       {"lora_unet_final_layer_adaLN_modulation_1", "diffusion_model.final_layer.adaLN_modulation.1", "final_norm_out.linear"})
    EXPECT_LE(relative_error(weight_under(name, at::cat({shift, scale})) - plain, at::cat({scale, shift}).expand({64, 32})),
              tolerance(1e-6))
        << name;
}

TEST(AdapterNames, OfOneLayerTwiceAreRefused) {
  auto read = [](const std::string& first, const std::string& second) {
    Scratch folder;
    io::NamedTensors tensors;
    for (const auto& name : {first, second}) {
      tensors.emplace_back(name + ".lora_down.weight", at::ones({1, 32}));
      tensors.emplace_back(name + ".lora_up.weight", at::ones({name.ends_with("qkv") ? 96 : 32, 1}));
    }
    io::save_safetensors(folder / "lora.safetensors", tensors);
    return error_of([&] { loras::read(*flux(), folder / "lora.safetensors"); });
  };
  const std::string ours = "transformer.transformer_blocks.0.attn.to_k", kohya = "lora_unet_double_blocks_0_img_attn_qkv";
  for (const auto& [first, second] :
       {std::pair(ours, kohya), std::pair(ours, std::string("lora_transformer_transformer_blocks_0_attn_to_k"))}) {
    auto text = read(first, second);
    EXPECT_THAT(text, HasSubstr("two adapters"));
    EXPECT_THAT(text, HasSubstr(first));
    EXPECT_THAT(text, HasSubstr(second));
  }
}

TEST(AdapterNames, WhatCountsForNothingIsSkipped) {
  auto read = [](const io::NamedTensors& more) {
    Scratch folder;
    io::NamedTensors tensors{{"transformer.transformer_blocks.0.attn.to_q.lora_A.weight", at::ones({1, 32})},
                             {"transformer.transformer_blocks.0.attn.to_q.lora_B.weight", at::ones({32, 1})}};
    tensors.insert(tensors.end(), more.begin(), more.end());
    io::save_safetensors(folder / "lora.safetensors", tensors);
    auto found = loras::read(*flux(), folder / "lora.safetensors");
    return found.size() == 1 && found.at("dit").size() == 1;
  };
  auto lora = [](const std::string& name, double up) {
    return io::NamedTensors{{name + ".lora_down.weight", at::ones({1, 12})}, {name + ".lora_up.weight", at::full({12, 1}, up)}};
  };
  EXPECT_TRUE(read(lora("lora_te1_text_projection", 1)));
  EXPECT_TRUE(read(lora("text_encoders.clip_l.transformer.text_projection", 1)));
  EXPECT_TRUE(read(lora("lora_unet_double_blocks_7_img_attn_proj", 0)));
  EXPECT_TRUE(read({{"bundle_emb.cat.clip_l", at::ones({1, 12})}}));
  EXPECT_TRUE(read({{"diffusion_model.img_in.diff_b", at::zeros({32})}}));
  EXPECT_TRUE(read({{"transformer.transformer_blocks.0.attn.to_q.lora_B.bias", at::zeros({32})}}));
  EXPECT_THAT(error_of([&] { read(lora("lora_unet_double_blocks_7_img_attn_proj", 1)); }), HasSubstr("another model"));
  EXPECT_TRUE(read({{"diffusion_model.double_blocks.0.img_attn.norm.query_norm.scale.diff", at::zeros({8})}}));
}
