// DiffSynth-Studio's ways to say which models are held in codes.
#include "train/options/quant_options.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/pattern.h"
#include "tests/scratch.h"

using namespace burnish;
using namespace burnish::train;
using ::testing::HasSubstr;

namespace {

ModelChoice with(const std::string& text, ModelChoice choice = {}) {
  put_quant_options(text, choice);
  EXPECT_THAT(put_quant_options(text, choice), HasSubstr("quant_options")) << "said again, as a command line is read again";
  return choice;
}

std::string refused(const std::string& text, ModelChoice choice = {}) {
  return test::error_of([&] { put_quant_options(text, choice); }, Exit::config);
}

}  // namespace

TEST(QuantOptions, EntriesBecomeModelsAndAFormat) {
  const auto choice = with("org/model:transformer/*.safetensors:bitsandbytes_nf4;t5.safetensors:bitsandbytes_nf4;vae.safetensors:;");
  EXPECT_EQ(choice.fp8_models, "org/model:transformer/*.safetensors,t5.safetensors");
  EXPECT_EQ(choice.weight_format, "nf4");
  EXPECT_EQ(choice.high_precision_layers, "default");
  for (const auto& [method, format] :
       {std::pair("torchao_int8_w8a16", "int8"), {"torchao_fp8_w8a16", "fp8"}, {"comfy_kitchen_int8_w8a8", "int8_convrot"}})
    EXPECT_EQ(with(std::string("dit:") + method).weight_format, format);
  EXPECT_TRUE(with("dit:comfy_kitchen_int8_w8a8").int8_compute);
  EXPECT_FALSE(with("dit:torchao_int8_w8a16").int8_compute);
  EXPECT_EQ(with(R"(["a-1.safetensors", "a-2.safetensors"]:torchao_int8_w8a16)").fp8_models, "a-1.safetensors");
}

TEST(QuantOptions, LayersThatAreLeftOutStayByTheEndsOfTheirPaths) {
  const auto choice = with("dit:bitsandbytes_nf4/to_q,ff.net.0");
  const Pattern first("train", "high_precision_layers", choice.high_precision_layers.substr(0, choice.high_precision_layers.find(',')));
  for (const char* path : {"to_q", "blocks.0.attn.to_q"}) EXPECT_TRUE(first.matches(path)) << path;
  for (const char* path : {"blocks.0.auto_q", "to_q.lora", "to_k"}) EXPECT_FALSE(first.matches(path)) << path;
  const Pattern second("train", "high_precision_layers", choice.high_precision_layers.substr(choice.high_precision_layers.find(',') + 1));
  EXPECT_TRUE(second.matches("blocks.0.ff.net.0"));
  EXPECT_FALSE(second.matches("blocks.0.ff.net_0"));
}

TEST(QuantOptions, JsonSaysTheSame) {
  const auto choice = with(
      R"({"dit": {"method": "bitsandbytes_nf4", "backend_config_kwargs": {"blocksize": 64}, "exclude_modules": ["to_q"], "target_modules": null}})");
  EXPECT_EQ(choice.fp8_models, "dit");
  EXPECT_EQ(choice.weight_format, "nf4");
  EXPECT_EQ(choice.high_precision_layers, with("dit:bitsandbytes_nf4/to_q").high_precision_layers);
  auto comfy = [](const std::string& more) {
    return R"({"dit": {"method": "comfy_kitchen_int8_w8a8", "backend_config_kwargs": {)" + more + "}}}";
  };
  EXPECT_EQ(with(comfy(R"("convrot": true, "convrot_groupsize": 256)")).weight_format, "int8_convrot");
  EXPECT_EQ(with(comfy(R"("convrot": false)")).weight_format, "int8");
  EXPECT_THAT(refused(comfy(R"("convrot_groupsize": 64)")), HasSubstr("convrot_groupsize 64: weight_format int8_convrot has its own"));
  // What a file has as codes is taken as it lies.
  EXPECT_EQ(with(R"({"dit": {"method": "bitsandbytes_nf4", "load_prequantized": true}})").fp8_models, "");
}

TEST(QuantOptions, WhatHasNoCounterpartIsRefusedWithTheNearest) {
  EXPECT_THAT(refused("dit:bitsandbytes_fp4"),
              HasSubstr("dit:bitsandbytes_fp4 has no counterpart here; the nearest is --fp8_models dit with --weight_format nf4"));
  EXPECT_THAT(refused("dit:torchao_fp8_w8a8"), HasSubstr("--weight_format fp8 --fp8_compute"));
  EXPECT_THAT(refused("dit:gptq"),
              HasSubstr("names no method that is known; those with a counterpart here are bitsandbytes_nf4, torchao_int8_w8a16"));
  EXPECT_THAT(refused("bitsandbytes_nf4"), HasSubstr("is no MODEL:METHOD"));
  EXPECT_THAT(refused("{dit"), HasSubstr("begins as JSON and is none"));
  EXPECT_THAT(refused(R"({"dit": {"configs": []}})"), HasSubstr("of several methods a model (configs) here takes one"));
  EXPECT_THAT(refused(R"({"dit": {"method": "bitsandbytes_nf4", "target_modules": ["to_q"]}})"),
              HasSubstr("target_modules [\"to_q\"]: here layers are named that stay"));
  EXPECT_THAT(refused(R"({"dit": {"method": "bitsandbytes_nf4", "exclude_modules": "to_q"}})"),
              HasSubstr("it is a list of names of layers"));
  EXPECT_THAT(refused("dit:bitsandbytes_nf4;t5:torchao_int8_w8a16"),
              HasSubstr("ask for bitsandbytes_nf4 of dit and for torchao_int8_w8a16 of t5, and a run has one"));
  ModelChoice choice;
  choice.fp8_models = "dit";
  choice.weight_format = "int8";
  EXPECT_THAT(refused("dit:bitsandbytes_nf4", choice), HasSubstr("ask for weight_format nf4, and the run says int8"));
}
