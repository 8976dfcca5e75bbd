// Adapter files from one naming to another, to other ranks, and out of the difference between two models.
#include "convert/lora.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "convert/compare.h"
#include "convert/lora_format.h"
#include "convert/lora_norms.h"
#include "convert/low_rank.h"
#include "convert/model_of_lora.h"
#include "io/hash.h"
#include "loras/merged.h"
#include "tests/convert/convert_files.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;

namespace {

std::string at_path(const Scratch& folder, const std::string& name) { return (folder / name).string(); }

/// What adapters add to layers, at most: of layers that both files have.
double largest_difference(const std::string& a, const std::string& b, const std::string& model) {
  auto found = convert::compare(a, b, {model});
  EXPECT_THAT(found.only_in_a, testing::IsEmpty());
  EXPECT_THAT(found.only_in_b, testing::IsEmpty());
  EXPECT_GT(found.num_equal + std::ssize(found.differences), 0);
  return found.differences.empty() ? 0 : found.differences[0].relative;
}

template <class Fn>
void expect_refused(Fn&& fn, const std::string& words) {
  EXPECT_THAT(fn, Throws<Error>(Property(&Error::what, HasSubstr(words))));
}

/// The SHA-256 of what stands behind a safetensors file's header.
std::string sum_behind_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  return io::sha256(std::string_view(bytes).substr(8 + header));
}

/// A LoRA of rank 1 on a layer of these sides under a name.
void write_one(const std::string& path, const std::string& layer, int64_t in, int64_t out) {
  io::save_safetensors(path, {{layer + ".lora_down.weight", at::ones({1, in})}, {layer + ".lora_up.weight", at::ones({out, 1})}});
}

}  // namespace

TEST(LoraNames, EveryNamingGivesTheSameFileBack) {
  for (const auto& pipeline : kPipelines) {
    Scratch folder;
    auto start = at_path(folder, "start.safetensors");
    write_adapters(start, pipeline, {.type = "lora", .rank = 2});
    for (const std::string format : {"kohya", "lycoris", "comfyui", "diffusers"}) {
      if (format == "diffusers" && pipeline != "pipeline") continue;  // has no alpha there
      SCOPED_TRACE(pipeline + " " + format);
      auto there = at_path(folder, format + ".safetensors"), back = at_path(folder, format + "-back.safetensors");
      convert_to({.lora_format = format, .model = {model_path(pipeline)}}, {start, there});
      convert_to({.lora_format = "onetrainer", .model = {model_path(pipeline)}}, {there, back});
      expect_same_tensors(open_file(back), open_file(start));
      EXPECT_EQ(convert::format_of_names(open_file(there).names()), convert::parse_lora_format(format));
      bool same_names = format == "kohya" && pipeline == "sd15_pipeline";
      EXPECT_EQ(open_file(there).names() == open_file(start).names(), same_names);
    }
  }
}

TEST(LoraNames, FusedLayersShareWhatTheirPartsShare) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), split = at_path(folder, "split.safetensors"),
       back = at_path(folder, "back.safetensors");
  auto model = open_model(model_path("pipeline"));
  auto skeleton = model->components().skeleton("dit");
  auto width = skeleton->parameters().at("transformer_blocks.0.attn.to_q.weight")->size(0);
  auto up = at::arange(3 * width * 2, at::kFloat).view({3 * width, 2}).to(at::kHalf), down = at::ones({2, width}, at::kHalf);
  const std::string name = "lora_unet_double_blocks_0_img_attn_qkv";
  io::save_safetensors(start, {{name + ".lora_down.weight", down}, {name + ".lora_up.weight", up}, {name + ".alpha", at::full({}, 0.7F)}});
  convert_to({.lora_format = "diffusers", .model = {model_path("pipeline")}}, {start, split});
  EXPECT_EQ(open_file(split).names().size(), 9u);
  convert_to({.lora_format = "kohya", .model = {model_path("pipeline")}}, {split, back});
  expect_same_tensors(open_file(back), open_file(start));
}

TEST(LoraNames, AnAdapterOfAFusedLayerStaysWhole) {
  Scratch folder;
  auto model = open_model(model_path("pipeline"));
  auto width = model->components().skeleton("dit")->parameters().at("transformer_blocks.0.attn.to_q.weight")->size(0);
  const std::string kohya = "lora_unet_double_blocks_0_img_attn_qkv", comfyui = "diffusion_model.double_blocks.0.img_attn.qkv";
  const auto factor = [](int64_t rows, int64_t columns) { return at::arange(rows * columns, at::kFloat).view({rows, columns}) / 7; };
  const io::NamedTensors dora{{".lora_down.weight", factor(2, width)},
                              {".lora_up.weight", factor(3 * width, 2)},
                              {".alpha", at::full({}, 3.F)},
                              {".dora_scale", at::ones({1, width})}};
  // Its blocks lie across the layers.
  const io::NamedTensors lokr{{".lokr_w1", factor(2, 2)}, {".lokr_w2", factor(3 * width / 2, width / 2)}, {".alpha", at::full({}, 1.F)}};
  for (const auto& tensors : {dora, lokr}) {
    SCOPED_TRACE(tensors[0].first);
    auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "there.safetensors"),
         back = at_path(folder, "back.safetensors"), lycoris = at_path(folder, "lycoris.safetensors");
    io::NamedTensors named;
    for (const auto& [ending, tensor] : tensors) named.emplace_back(kohya + ending, tensor);
    io::save_safetensors(start, named);
    convert_to({.lora_format = "comfyui", .model = {model_path("pipeline")}, .overwrite = true}, {start, there});
    EXPECT_TRUE(open_file(there).contains(comfyui + ".alpha"));
    convert_to({.lora_format = "kohya", .model = {model_path("pipeline")}, .overwrite = true}, {there, back});
    expect_same_tensors(open_file(back), open_file(start));
    expect_refused([&] { convert_to({.lora_format = "lycoris", .model = {model_path("pipeline")}}, {start, lycoris}); }, "cannot be cut");
    // As LoRAs of their own its parts do what they did.
    auto lora = at_path(folder, "lora.safetensors");
    convert_to({.lora_format = "kohya", .lora_type = "lora", .lora_rank = 4096, .model = {model_path("pipeline")}, .overwrite = true},
               {start, lora});
    auto with_original = open_model(model_path("pipeline")), with_lora = open_model(model_path("pipeline"));
    loras::merge(*with_original, {{start, 1}});
    loras::merge(*with_lora, {{lora, 1}});
    for (auto* adapted : {with_original.get(), with_lora.get()}) adapted->components().load("dit");
    auto expected = with_original->components().module("dit").parameters(), found = with_lora->components().module("dit").parameters();
    for (const auto& [name, value] : expected) EXPECT_LE(relative_error(*found.at(name), *value), 1e-5) << name;
  }
}

TEST(LoraNames, WithoutAlphaTheScaleLiesInTheFactor) {
  Scratch folder;
  for (const auto& [pipeline, format] : {std::pair<std::string, std::string>("sdxl_pipeline", "diffusers"), {"pipeline", "diffsynth"}}) {
    SCOPED_TRACE(format);
    auto start = at_path(folder, pipeline + ".safetensors"), there = at_path(folder, pipeline + "-there.safetensors");
    write_adapters(start, pipeline, {.type = "lora", .rank = 2});
    convert::Options options{.lora_format = format, .model = {model_path(pipeline)}};
    if (format == "diffsynth") options.lora_base_model = "dit";
    convert_to(options, {start, there});
    for (const auto& name : open_file(there).names()) EXPECT_THAT(name, HasSubstr("lora_"));
    EXPECT_EQ(convert::format_of_names(open_file(there).names()), convert::parse_lora_format(format));
    if (format != "diffusers") continue;
    EXPECT_LE(largest_difference(start, there, model_path(pipeline)), 1e-6);  // scale 1.5 in fp32
  }
}

TEST(LoraNames, PeftsFolder) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "peft"), back = at_path(folder, "back.safetensors");
  write_adapters(start, "pipeline", {.type = "lora", .rank = 2});
  convert::Options options{.lora_format = "peft", .model = {model_path("pipeline")}};
  expect_refused([&] { convert_to(options, {start, there}); }, "one component");
  options.lora_base_model = "dit";
  convert_to(options, {start, there});
  for (const auto& name : open_file(there + "/adapter_model.safetensors").names()) EXPECT_THAT(name, testing::Not(HasSubstr("alpha")));
  EXPECT_EQ(convert::format_of_names(open_file(there + "/adapter_model.safetensors").names()), convert::LoraFormat::peft);
  convert_to({.lora_format = "onetrainer", .model = {model_path("pipeline")}}, {there, back});
  EXPECT_EQ(convert::format_of_names(open_file(back).names()), convert::LoraFormat::onetrainer);
  EXPECT_FALSE(convert::format_of_names({"double_blocks.0.img_attn.qkv.weight"}));
  expect_same_tensors(open_file(back),
                      open_file(start).below("").renamed([](const std::string& n) { return n.starts_with("lora_te") ? "" : n; }));
}

TEST(LoraNames, TheFamilyIsToldFromNamesAndShapes) {
  Scratch folder;
  auto file = at_path(folder, "lora.safetensors");
  write_one(file, "lora_unet_double_blocks_18_img_attn_qkv", 3072, 9216);
  EXPECT_EQ(convert::model_of(file, {})->names().family, "flux");
  write_one(file, "lora_unet_double_blocks_0_img_attn_qkv", 3072, 9216);  // FLUX.2 klein is as wide, and has fewer blocks
  expect_refused([&] { convert::model_of(file, {}); }, "flux-dev, flux2-klein-4b have such layers");
  write_one(file, "lora_unet_distilled_guidance_layer_out_proj", 5120, 3072);
  EXPECT_EQ(convert::model_of(file, {})->names().family, "chroma");
  write_one(file, "lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q", 640, 640);  // both UNets have it
  expect_refused([&] { convert::model_of(file, {}); }, "sdxl, sd15 have such layers");
  write_one(file, "lora_unet_input_blocks_4_1_transformer_blocks_1_attn1_to_q", 640, 640);
  EXPECT_EQ(convert::model_of(file, {})->names().variant, "SDXL");
  write_one(file, "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q", 320, 320);
  EXPECT_EQ(convert::model_of(file, {})->names().variant, "SD 1.5");
  write_one(file, "lora_te2_text_model_encoder_layers_31_mlp_fc1", 1280, 5120);  // of OpenCLIP, which SD 3.5 reads too
  expect_refused([&] { convert::model_of(file, {}); }, "sd3.5-medium, sd3.5-large, sdxl have such layers");
  write_one(file, "lora_te_text_model_encoder_layers_0_mlp_fc1", 768, 3072);
  expect_refused([&] { convert::model_of(file, {}); }, "flux-dev, sdxl, sd15 have such layers");
  EXPECT_EQ(convert::model_of(file, {"sd15"})->names().variant, "SD 1.5");
  write_one(file, "blocks.0.nothing", 10, 10);
  expect_refused([&] { convert::model_of(file, {}); }, "none of the published ones");
}

TEST(LoraNames, WhereSeveralModelsFitTheMetadataTells) {
  Scratch folder;
  auto file = at_path(folder, "lora.safetensors");
  auto says = [&](const std::string& base) {
    const std::string layer = "lora_te_text_model_encoder_layers_0_mlp_fc1";  // CLIP-L's, which three have
    io::save_safetensors(file, {{layer + ".lora_down.weight", at::ones({1, 768})}, {layer + ".lora_up.weight", at::ones({3072, 1})}},
                         {{"base_model", base}});
  };
  for (const auto& [base, variant] : {std::pair<std::string, std::string>("SDXL", "SDXL"),
                                      {"SD 1.5", "SD 1.5"},
                                      {"sd15", "SD 1.5"},
                                      {"FLUX.1-dev", "FLUX.1-dev"},
                                      {"someone/FLUX.1-schnell", "FLUX.1-schnell"}}) {
    says(base);
    EXPECT_EQ(convert::model_of(file, {})->names().variant, variant) << base;
  }
  says("SDXL");
  EXPECT_EQ(convert::model_of(file, {"sd15"})->names().variant, "SD 1.5") << "what is asked for wins";
  says("Z-Image");
  expect_refused([&] { convert::model_of(file, {}); }, "its metadata names Z-Image, which is none of these and no file here; give --model");
  says(model_path("sdxl_pipeline"));
  EXPECT_EQ(convert::model_of(file, {})->names().variant, "SDXL");
  says("SD 1.5 of mine");
  EXPECT_EQ(convert::model_of(file, {}, {model_path("sd15_pipeline")})->names().variant, "SD 1.5") << "the run's";
}

TEST(LoraNames, WhatReadersDoNotTakeIsRefused) {
  Scratch folder;
  auto refused = [&](const adapters::AdapterOptions& adapter, const std::string& format, const std::string& words) {
    SCOPED_TRACE(adapter.type + " " + format);
    auto start = at_path(folder, "start.safetensors");
    write_adapters(start, "pipeline", adapter);
    convert::Options options{.lora_format = format, .lora_base_model = "dit", .model = {model_path("pipeline")}};
    expect_refused([&] { convert_to(options, {start, at_path(folder, "out.safetensors")}); }, words);
    EXPECT_FALSE(fs::exists(folder / "out.safetensors"));
  };
  refused({.type = "loha", .rank = 2}, "diffusers", "is loha, which readers of the format diffusers do not take");
  refused({.type = "lokr", .rank = 2}, "kohya", "LoKr factors of their own");
  refused({.type = "dora", .rank = 2, .dora_norm = adapters::NormAxis::input}, "diffusers", "is DoRA over inputs");
  refused({.type = "dora", .rank = 2, .dora_norm = adapters::NormAxis::input}, "comfyui", "DoRA magnitudes over their inputs");
  refused({.type = "dora", .rank = 2}, "diffsynth", "is DoRA");
  expect_refused(
      [&] {
        convert_to({.lora_format = "lycoris", .model = {model_path("sdxl_pipeline")}},
                   {golden_path("wild/kinds/lycoris_glora.safetensors"), at_path(folder, "out.safetensors")});
      },
      "is glora, which is read here and never written");
}

TEST(LoraNames, OtherKindsAreFusedExactly) {
  Scratch folder;
  for (const std::string type : {"loha", "dora"}) {
    SCOPED_TRACE(type);
    auto start = at_path(folder, type + ".safetensors"), there = at_path(folder, type + "-there.safetensors");
    write_adapters(start, "pipeline", {.type = type, .rank = 2});
    convert_to({.lora_format = "kohya", .model = {model_path("pipeline")}}, {start, there});
    EXPECT_LE(largest_difference(start, there, model_path("pipeline")), 1e-12);
  }
}

TEST(LowRank, IsTheBestApproximation) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  auto spectrum = at::pow(0.9, at::arange(300, at::kDouble));
  auto orthogonal = [&](int64_t rows) { return std::get<0>(at::linalg_qr(at::empty({rows, 300}, at::kDouble).normal_(0, 1, generator))); };
  auto delta = (orthogonal(500) * spectrum).mm(orthogonal(400).t());
  auto error_of = [&](int64_t rank) { return (spectrum.narrow(0, rank, 300 - rank).norm() / spectrum.norm()).item<double>(); };
  for (int64_t rank : {8, 24, 120}) {  // two sketches and a whole SVD
    auto found = convert::factor(delta.to(at::kFloat), {.rank = rank}, "layer");
    EXPECT_EQ(found.a_RI.size(0), rank);
    EXPECT_NEAR(found.error, error_of(rank), 0.01 * error_of(rank) + 1e-6) << rank;
    EXPECT_NEAR((delta - found.b_OR.to(at::kDouble).mm(found.a_RI.to(at::kDouble))).norm().item<double>() / delta.norm().item<double>(),
                found.error, 1e-5);
  }
  auto by_energy = convert::factor(delta.to(at::kFloat), {.energy = 0.99}, "layer");
  auto rank = by_energy.a_RI.size(0);
  EXPECT_LE(error_of(rank), 0.1);
  EXPECT_GT(error_of(rank - 1), 0.1);
  auto b = orthogonal(500).narrow(1, 0, 12) * spectrum.narrow(0, 0, 12), a = orthogonal(400).t().narrow(0, 0, 12);
  auto smaller = convert::factor_product(b, a, {.rank = 5});
  auto expected = (spectrum.narrow(0, 5, 7).norm() / spectrum.narrow(0, 0, 12).norm()).item<double>();
  EXPECT_NEAR(smaller.error, expected, 1e-10);
  EXPECT_NEAR((b.mm(a) - smaller.b_OR.mm(smaller.a_RI)).norm().item<double>() / b.mm(a).norm().item<double>(), expected, 1e-10);
}

TEST(LoraRank, BecomesSmallerByTheErrorThatIsSaid) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "there.safetensors");
  write_adapters(start, "sdxl_pipeline", {.type = "lora", .rank = 4});
  convert::Options options{.lora_format = "onetrainer", .lora_rank = 2, .model = {model_path("sdxl_pipeline")}};
  options.paths = {start, there};
  auto report = convert::convert_lora(options);
  EXPECT_EQ(report.num_changed, report.num_layers);
  EXPECT_NEAR(largest_difference(start, there, model_path("sdxl_pipeline")), report.largest_error, 1e-5);
  EXPECT_GT(report.largest_error, 1e-3);
  EXPECT_LE(report.median_error, report.largest_error);
  for (const auto& name : open_file(there).names()) {
    if (!name.ends_with("lora_down.weight")) continue;
    EXPECT_EQ(open_file(there).info(name).shape[0], 2) << name;
  }
}

/// Whether both files make the same weights of SDXL's UNet.
void expect_same_merged(const std::string& a, const std::string& b) {
  std::vector<std::unique_ptr<models::Model>> all;
  for (const auto& file : {a, b}) {
    auto& model = all.emplace_back(open_model(model_path("sdxl_pipeline")));
    loras::merge(*model, {{file, 1}});
    model->components().load("unet");
  }
  auto expected = all[0]->components().module("unet").parameters(), found = all[1]->components().module("unet").parameters();
  for (const auto& [name, value] : expected) EXPECT_LE(relative_error(*found.at(name), *value), 1e-5) << name;
}

/// The sides that are ranks in a file of one kind.
std::set<int64_t> ranks_in(const std::string& path) {
  std::set<int64_t> ranks;
  const auto file = open_file(path);
  for (const auto& name : file.names()) {
    const auto& shape = file.info(name).shape;
    for (const char* end : {"lora_down.weight", "hada_w1_b", "hada_w2_b", "lokr_w2_b"}) {
      if (name.ends_with(end)) ranks.insert(shape[0]);
    }
  }
  return ranks;
}

TEST(LoraRank, BecomesLargerByNothing) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "there.safetensors");
  convert::Options options{.lora_format = "onetrainer", .lora_rank = 6, .model = {model_path("sdxl_pipeline")}, .overwrite = true};
  for (const auto& [type, format] : {std::pair<std::string, std::string>("lora", "onetrainer"),
                                     {"lora", "kohya"},
                                     {"dora", "onetrainer"},
                                     {"loha", "lycoris"},
                                     {"lokr", "lycoris"}}) {
    SCOPED_TRACE(type + " " + format);
    write_adapters(start, "sdxl_pipeline", {.type = type, .rank = 2, .lokr_factor = 2}, 3);
    EXPECT_EQ(ranks_in(start), std::set<int64_t>{2});
    options.lora_format = format;
    EXPECT_THAT(convert_to(options, {start, there}), HasSubstr("padded to the rank that is asked for"));
    EXPECT_EQ(ranks_in(there), std::set<int64_t>{6});
    EXPECT_LE(largest_difference(start, there, model_path("sdxl_pipeline")), 1e-6);
    for (const auto& name : open_file(there).names()) {
      if (!name.ends_with(".alpha") || !open_file(there).contains(name.substr(0, name.size() - 6) + ".lora_down.weight")) continue;
      EXPECT_EQ(open_file(there).tensor(name).item<float>(), 9) << "3 of rank 2, as strong of rank 6";
    }
  }
  // Under an energy the rank is a limit alone.
  write_adapters(start, "sdxl_pipeline", {.type = "lora", .rank = 2}, 3);
  options.lora_energy = 1;
  EXPECT_THAT(convert_to(options, {start, there}), testing::Not(HasSubstr("padded")));
  EXPECT_EQ(ranks_in(there), std::set<int64_t>{2});
}

TEST(LoraRank, OfOtherKindsBecomesNoSmaller) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "there.safetensors");
  convert::Options options{.lora_format = "lycoris", .lora_rank = 2, .model = {model_path("sdxl_pipeline")}};
  for (const std::string type : {"dora", "loha"}) {
    write_adapters(start, "sdxl_pipeline", {.type = type, .rank = 4}, 5);
    expect_refused([&] { convert_to(options, {start, there}); }, "whose rank alone can become smaller; add --lora_type lora");
  }
}

TEST(LoraRank, OfALayerThatAddsNothingIsCutToo) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "there.safetensors");
  const std::string layer = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q";
  io::save_safetensors(start, {{layer + ".lora_down.weight", at::ones({8, 320})}, {layer + ".lora_up.weight", at::zeros({320, 8})}});
  convert_to({.lora_format = "kohya", .lora_rank = 4}, {start, there});
  EXPECT_EQ(ranks_in(there), std::set<int64_t>{4});
}

TEST(LoraType, ALayerThatAddsNothingBecomesALoraThatAddsNothing) {
  Scratch folder;
  auto drawn = at_path(folder, "drawn.safetensors"), silent = at_path(folder, "silent.safetensors"),
       there = at_path(folder, "there.safetensors");
  for (const auto& [kind, part] :
       {std::pair<std::string, std::string>("loha", ".hada_w2_a"), {"lokr", ".lokr_w1"}, {"oft", ".oft_blocks"}, {"full", ".diff"}}) {
    SCOPED_TRACE(kind);
    bool has_scale = kind == "loha" || kind == "lokr";
    if (has_scale) write_adapters(drawn, "sdxl_pipeline", {.type = kind, .rank = 2}, 7);
    auto start = open_file(has_scale ? drawn : golden_path("wild/kinds/lycoris_" + kind + ".safetensors"));
    io::NamedTensors tensors;
    int64_t num_layers = 0;
    for (const auto& name : start.names()) {
      bool is_first = name.ends_with(part) && num_layers++ == 0;  // which is to add nothing
      auto tensor = start.tensor(name);
      tensors.emplace_back(name, is_first ? at::zeros_like(tensor) : tensor.clone());
    }
    io::save_safetensors(silent, tensors);
    convert_to(
        {.lora_format = "onetrainer", .lora_type = "lora", .lora_rank = 4, .model = {model_path("sdxl_pipeline")}, .overwrite = true},
        {silent, there});
    auto file = open_file(there);
    int64_t num_written = 0, num_silent = 0;
    for (const auto& name : file.names()) {
      EXPECT_THAT(name, testing::ContainsRegex("lora_down|lora_up|alpha"));
      EXPECT_TRUE(file.tensor(name).any().item<bool>() || name.ends_with("lora_up.weight")) << name << ", which is to learn";
      num_written += name.ends_with("lora_up.weight");
      num_silent += !file.tensor(name).any().item<bool>();
    }
    EXPECT_EQ(num_written, num_layers);
    EXPECT_EQ(num_silent, 1);
  }
}

TEST(LoraMetadata, DescribesTheFileThatIsWritten) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), said = at_path(folder, "said.safetensors"),
       there = at_path(folder, "there.safetensors");
  write_adapters(start, "sdxl_pipeline", {.type = "dora", .rank = 4}, 5);
  io::NamedTensors tensors;
  for (const auto& name : open_file(start).names()) tensors.emplace_back(name, open_file(start).tensor(name).clone());
  const io::Metadata before{{"adapter", "dora"},
                            {"rank", "4"},
                            {"alpha", "3"},
                            {"dora_norm", "output"},
                            {"base_model", "SDXL"},
                            {"step", "12"},
                            {"ss_network_dim", "4"},
                            {"ss_network_alpha", "3"},
                            {"ss_network_module", "lycoris.kohya"},
                            {"sshs_model_hash", "ab"},
                            {"modelspec.hash_sha256", "0xab"},
                            {"ss_epoch", "7"}};
  io::save_safetensors(said, tensors, before);
  auto written = [&](const convert::Options& options) {
    convert_to(options, {said, there});
    return open_file(there).metadata();
  };
  convert::Options options{.lora_format = "kohya", .model = {model_path("sdxl_pipeline")}, .overwrite = true};
  auto kept = written(options);
  for (const char* key : {"adapter", "rank", "alpha", "dora_norm", "base_model", "step", "ss_epoch"})
    EXPECT_EQ(kept[key], before.at(key)) << key;
  EXPECT_EQ(kept["modelspec.hash_sha256"], "0x" + sum_behind_header(there)) << "a sum over what is written";
  EXPECT_EQ(kept["sshs_model_hash"], sum_behind_header(there));
  options.lora_rank = 8;
  auto wide = written(options);
  EXPECT_EQ(wide["rank"], "8");
  EXPECT_EQ(wide["alpha"], "6");
  EXPECT_EQ(wide["ss_network_dim"], "8");
  options.lora_type = "lora";
  options.lora_rank = 2;
  auto lora = written(options);
  EXPECT_EQ(lora["adapter"], "lora");
  EXPECT_EQ(lora["rank"], "2");
  EXPECT_EQ(lora["alpha"], "2");
  EXPECT_EQ(lora["ss_network_dim"], "2");
  EXPECT_EQ(lora["ss_network_alpha"], "2");
  EXPECT_EQ(lora["ss_network_module"], "networks.lora");
  EXPECT_FALSE(lora.contains("dora_norm"));
  EXPECT_EQ(lora["ss_epoch"], "7");
  io::save_safetensors(said, tensors);
  EXPECT_EQ(written(options), (io::Metadata{{"format", "pt"}})) << "what said nothing says nothing";
}

TEST(LoraType, OtherKindsBecomeLoras) {
  Scratch folder;
  auto start = at_path(folder, "start.safetensors"), there = at_path(folder, "there.safetensors");
  convert::Options options{.lora_format = "kohya", .lora_type = "lora", .model = {model_path("sdxl_pipeline")}, .overwrite = true};
  for (const auto& [type, axis] : {std::pair<std::string, adapters::NormAxis>("dora", adapters::NormAxis::output),
                                   {"dora", adapters::NormAxis::input},
                                   {"lokr", {}},
                                   {"loha", {}}}) {
    SCOPED_TRACE(type);
    write_adapters(start, "sdxl_pipeline", {.type = type, .rank = 2, .dora_norm = axis}, 5);
    options.lora_rank = 0;
    expect_refused([&] { convert_to(options, {start, there}); }, "say how large the LoRA may become");
    options.lora_rank = 4096;  // all there is
    convert_to(options, {start, there});
    expect_same_merged(start, there);
  }
  for (const std::string kind : {"full", "ia3", "ia3_input", "oft", "oft_limited", "boft", "glora", "tlora", "dylora"}) {
    SCOPED_TRACE(kind);
    auto file = golden_path("wild/kinds/lycoris_" + kind + ".safetensors");
    convert_to(options, {file, there});
    for (const auto& name : open_file(there).names()) EXPECT_THAT(name, testing::ContainsRegex("lora_down|lora_up|alpha"));
    if (kind != "full") expect_same_merged(file, there);  // which has a bias too
  }
}

TEST(LoraType, ChangesOfNormsAreNoLora) {
  Scratch folder;
  expect_refused(
      [&] {
        convert_to({.model = {model_path("sdxl_pipeline")}},
                   {golden_path("wild/kinds/lycoris_norm.safetensors"), at_path(folder, "out.safetensors")});
      },
      "changes norms and biases alone");
}

TEST(LoraType, DoraNeedsTheModelsWeights) {
  Scratch folder;
  auto file = at_path(folder, "dora.safetensors");
  const std::string layer = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q";
  io::save_safetensors(file, {{layer + ".lora_down.weight", at::ones({1, 320})},
                              {layer + ".lora_up.weight", at::ones({320, 1})},
                              {layer + ".dora_scale", at::ones({320, 1})}});
  expect_refused(
      [&] {
        convert_to({.lora_type = "lora", .lora_rank = 4}, {file, at_path(folder, "out.safetensors")});
      },
      "name the model's files with --model");
}

TEST(Extract, FindsWhatWasMerged) {
  Scratch folder;
  for (const auto& pipeline : kPipelines) {
    SCOPED_TRACE(pipeline);
    auto lora = at_path(folder, pipeline + ".safetensors"), merged = at_path(folder, pipeline),
         found = at_path(folder, pipeline + "-found.safetensors");
    write_adapters(lora, pipeline, {.type = "lora", .rank = 2}, 3);
    convert_to({.lora = {lora}, .dtype = "fp32"}, {model_path(pipeline), merged});
    auto said = convert_to({.lora_format = "onetrainer", .lora_rank = 2, .base = {model_path(pipeline)}}, {merged, found});
    EXPECT_THAT(said, HasSubstr("by SVD"));
    EXPECT_LE(largest_difference(lora, found, model_path(pipeline)), 1e-4);
    expect_refused(
        [&] {
          convert_to({.lora_rank = 2, .base = {model_path(pipeline)}}, {model_path(pipeline), at_path(folder, "none.safetensors")});
        },
        "equal");
  }
}

namespace {

/// The weights of a component with LoRAs merged into them.
std::map<std::string, at::Tensor> merged_weights(const std::string& pipeline, const std::string& component,
                                                 const std::vector<std::string>& files) {
  auto model = open_model(model_path(pipeline));
  std::vector<loras::LoraFile> parsed;
  for (const auto& text : files) parsed.push_back(loras::parse_lora_file(text));
  loras::merge(*model, parsed);
  model->components().load(component);
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, tensor] : model->components().module(component).parameters()) weights[name] = tensor->clone();
  return weights;
}

void expect_close(const std::map<std::string, at::Tensor>& found, const std::map<std::string, at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) EXPECT_LE(relative_error(found.at(name), tensor), 1e-6) << name;
}

}  // namespace

TEST(LoraSums, AddWhatTheirFilesAddAtTheirStrengths) {
  Scratch folder;
  for (const std::string pipeline : {"pipeline", "sdxl_pipeline"}) {
    SCOPED_TRACE(pipeline);
    const auto denoiser = pipeline == "pipeline" ? "dit" : "unet";
    const auto first = at_path(folder, pipeline + "-first.safetensors"), second = at_path(folder, pipeline + "-second.safetensors"),
               out = at_path(folder, pipeline + "-out.safetensors");
    write_adapters(first, pipeline, {.type = "lora", .rank = 2});
    write_adapters(second, pipeline, {.type = "lora", .rank = 3}, /*step=*/2);
    // Layers of one kind alone, which are in blocks of both.
    const std::string other = second + ":-0.5:.*=0,.*to_q=2";
    convert_to({.lora_format = "kohya", .model = {model_path(pipeline)}}, {first + ":0.8", other, out});
    expect_close(merged_weights(pipeline, denoiser, {out}), merged_weights(pipeline, denoiser, {first + ":0.8", other}));
    EXPECT_GT(io::SafetensorsFile::open(out)->tensors().size(), 0u);
  }
}

TEST(LoraSums, LeaveOutWhatHasNoStrength) {
  Scratch folder;
  const auto start = at_path(folder, "start.safetensors"), out = at_path(folder, "out.safetensors");
  write_adapters(start, "pipeline", {.type = "lora", .rank = 2});
  convert_to({.model = {model_path("pipeline")}}, {start + ":1:.*=0,single_blocks=1", out});
  const auto names = open_file(out).names();
  EXPECT_FALSE(names.empty());
  for (const auto& name : names) EXPECT_THAT(name, HasSubstr("single_transformer_blocks."));
  expect_refused(
      [&] {
        convert_to({.model = {model_path("pipeline")}}, {start + ":0", at_path(folder, "none.safetensors")});
      },
      "nothing is left");
}

TEST(LoraSums, AreOfLorasAlone) {
  Scratch folder;
  const auto dora = at_path(folder, "dora.safetensors"), loha = at_path(folder, "loha.safetensors"),
             out = at_path(folder, "out.safetensors");
  write_adapters(dora, "pipeline", {.type = "dora", .rank = 2});
  write_adapters(loha, "pipeline", {.type = "loha", .rank = 2});
  const convert::Options options{.lora_format = "kohya", .model = {model_path("pipeline")}};
  expect_refused([&] { convert_to(options, {dora + ":0.5", out}); }, "a dora has no other strength than 1, and is to have 0.5");
  expect_refused([&] { convert_to(options, {loha + ":0.5", loha, out}); }, "make each a LoRA first");
  convert_to(options, {loha + ":0.5", out});
  expect_close(merged_weights("pipeline", "dit", {out}), merged_weights("pipeline", "dit", {loha + ":0.5"}));
}

TEST(LoraNorms, AreThoseOfWhatIsAddedToEachBlock) {
  Scratch folder;
  for (const char* type : {"lora", "loha"}) {
    const auto start = at_path(folder, std::string(type) + ".safetensors");
    write_adapters(start, "pipeline", {.type = type, .rank = 2});
    const auto plain = merged_weights("pipeline", "dit", {start + ":0"}), changed = merged_weights("pipeline", "dit", {start});
    double share = 0;
    const auto norms = convert::norms_by_block(start, {model_path("pipeline")});
    for (const auto& norm : norms) {
      share += norm.share;
      EXPECT_EQ(norm.num_unknown, 0);
      if (!norm.block.starts_with("dit.")) continue;
      double squares = 0;
      for (const auto& [name, tensor] : changed) {
        if (lies_below("dit." + name, norm.block)) squares += (tensor - plain.at(name)).to(at::kDouble).square().sum().item<double>();
      }
      EXPECT_NEAR(norm.norm, std::sqrt(squares), 1e-4 * norm.norm) << norm.block;
    }
    EXPECT_NEAR(share, 1, 1e-9);
    EXPECT_GT(norms.size(), 4u);
  }
}
