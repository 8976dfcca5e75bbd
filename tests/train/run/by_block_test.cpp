// Text encoders that are read block by block: what they make is what they make whole, and what that takes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include <cctype>

#include "base/error.h"
#include "base/input_error.h"
#include "drawing/encode.h"
#include "models/model/block_by_block.h"
#include "tests/allocations.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"
#include "train/plan/fit.h"
#include "train/run/run.h"
#include "train/subject/subject.h"

using namespace burnish;
using namespace burnish::train;

namespace {

const std::vector<std::string> kTexts{"", "a cat", "a red house behind tall trees, seen from below", "a cat", "two words more"};

struct Case {
  std::string family, format;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.family << " " << c.format; }

class ByBlock : public testing::TestWithParam<Case> {
 protected:
  ByBlock()
      : settings_(settle(test::options_of(test::small_run(GetParam().family, "--lora_rank 4" + GetParam().format)))),
        subject_(open_subject(settings_.model, settings_.trained)) {}
  models::Model& model() { return *subject_.model; }
  bool is_text_encoder(const std::string& name) {
    const auto* recipe = model().components().find(name);
    return recipe != nullptr && recipe->tokenizer && recipe->source.tensors;
  }
  static std::vector<pipeline::Values> given() {
    std::vector<pipeline::Values> all;
    for (const auto& text : kTexts) all.push_back({{"prompt", text}});
    return all;
  }
  static void expect_equal(const std::vector<pipeline::Values>& ours, const std::vector<pipeline::Values>& theirs) {
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i].size(), theirs[i].size());
      for (const auto& [name, value] : theirs[i]) {
        const auto* tensor = std::get_if<at::Tensor>(&value);
        if (tensor == nullptr) continue;
        EXPECT_TRUE(at::equal(std::get<at::Tensor>(ours[i].at(name)), *tensor)) << name << " of '" << kTexts[i] << "'";
      }
    }
  }

 private:
  Settings settings_;
  Subject subject_;
};

}  // namespace

TEST_P(ByBlock, AnEncoderMakesWhatItMakesWhole) {
  const at::NoGradGuard no_grad;
  auto& components = model().components();
  auto whole = given(), by_block = given();
  for (const auto& unit : model().units().encode_prompt) {
    for (const auto& name : unit.models) components.load(name);
    for (auto& values : whole) pipeline::run({unit}, values);
    for (const auto& name : unit.models) components.unload(name);
    const auto encoder = std::ranges::find_if(unit.models, [&](const auto& name) { return is_text_encoder(name); });
    for (const auto& name : unit.models) {
      if (name != *encoder) components.load(name);
    }
    if (encoder == unit.models.end()) {
      for (auto& values : by_block) pipeline::run({unit}, values);
    } else {
      models::BlockByBlock blocks(components, *encoder);
      for (int64_t half = 0; half < 2; ++half) {  // what was given up is read again
        const int64_t first = half == 0 ? 0 : 2, count = half == 0 ? 2 : std::ssize(by_block) - 2;
        EXPECT_TRUE(blocks.run(count, [&](int64_t i) { pipeline::run({unit}, by_block[static_cast<size_t>(first + i)]); }));
      }
      EXPECT_GE(blocks.most_at_once(), 1);
    }
    for (const auto& name : unit.models) components.unload(name);
  }
  expect_equal(by_block, whole);
}

namespace {

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& family : test::small_families(&test::SmallFamily::has_own_model)) {
    const std::string stored =
        std::string(" --dtype bf16 --fp8_models text_encoder") + (family.has("text_encoder_2") ? ",text_encoder_2" : "");
    for (const auto& format : {std::string(" --dtype fp32"), std::string(" --dtype bf16"), stored, stored + " --weight_format int8"})
      all.push_back({family.name, format});
  }
  return all;
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Of, ByBlock, testing::ValuesIn(cases()), [](const auto& info) {
  auto name = info.param.family + info.param.format;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

namespace {

/// MiniMax-H3's small model, whose text encoder has several blocks.
class LargeEncoder : public testing::Test {
 protected:
  Settings settings(int64_t host_bytes) {
    auto options = test::options_of(test::small_run("minimax_h3", "--lora_rank 4 --dtype fp32"));
    options.output_path = (scratch / "run").string();
    auto settings = settle(options);
    if (host_bytes > 0) settings.plan.host_bytes = host_bytes;
    return settings;
  }
  static const StageMemory& encoding(const MemoryPlan& plan) {
    return *std::ranges::find_if(plan.stages, [](const auto& stage) { return stage.name.starts_with("encode_prompt"); });
  }
  test::Scratch scratch;
};

}  // namespace

TEST_F(LargeEncoder, IsPlannedByBlockWhereThereIsNoRoomForTheWhole) {
  const auto whole = encoding(plan_memory(settings(0)));
  EXPECT_EQ(whole.name, "encode_prompt");
  const auto weights = whole.profile.peak[memory::Kind::weights];
  const auto by_block = encoding(plan_memory(settings(weights)));
  EXPECT_EQ(by_block.name, "encode_prompt, by block");
  EXPECT_LT(by_block.profile.peak[memory::Kind::weights], weights);
  const auto enough = encoding(plan_memory(settings(2 * weights)));
  EXPECT_EQ(enough.name, "encode_prompt");
}

TEST_F(LargeEncoder, IsNotRunWholeWhereItIsReadByBlock) {
  const at::NoGradGuard no_grad;
  const auto run = settings(0);
  auto subject = open_subject(run.model, run.trained);
  auto& components = subject.model->components();
  const auto unit = subject.model->units().encode_prompt.back();
  models::BlockByBlock blocks(components, "text_encoder");
  pipeline::Values values{{"prompt", std::string("a cat")}};
  EXPECT_THROW(pipeline::run({unit}, values), std::logic_error);
  EXPECT_THROW(models::BlockByBlock(components, "text_encoder"), std::logic_error) << "it is loaded";
  int64_t num_asked = 0, num_done = 0;
  auto work = [&](int64_t) {
    auto own = values;
    pipeline::run({unit}, own);
    ++num_done;
  };
  EXPECT_FALSE(blocks.run(3, work, [&] { return ++num_asked < 2; })) << "given up behind the first block";
  EXPECT_EQ(num_done, 0);
  EXPECT_TRUE(blocks.run(3, work));
  EXPECT_EQ(num_done, 3);
  EXPECT_THROW(blocks.run(3,
                          [&](int64_t i) {
                            if (work(i); i == 1) data_error("test", "no");
                          }),
               Error);
}

TEST_F(LargeEncoder, HasOneBlockInMemoryAtATime) {
  const at::NoGradGuard no_grad;
  const auto run = settings(0);
  auto subject = open_subject(run.model, run.trained);
  auto& components = subject.model->components();
  components.load("text_encoder");
  int64_t of_blocks = 0, largest = 0;
  for (auto* block : components.blocks("text_encoder")) {
    of_blocks += block->num_bytes();
    largest = std::max(largest, block->num_bytes());
  }
  const auto rest = components.module("text_encoder").num_bytes() - of_blocks;
  components.unload("text_encoder");
  const auto unit = subject.model->units().encode_prompt.back();
  test::Allocations allocations;
  models::BlockByBlock blocks(components, "text_encoder");
  int64_t most = 0;
  auto work = [&](int64_t) {
    pipeline::Values values{{"prompt", std::string("a cat")}};
    pipeline::run({unit}, values);
  };
  blocks.run(1, work, [&] { return most = std::max(most, allocations.live()), true; });
  EXPECT_GE(most, rest + largest);
  EXPECT_LT(most, rest + 2 * largest);
}

TEST_F(LargeEncoder, EncodesPromptsOfPicturesByBlock) {
  const auto run = settings(0);
  auto subject = open_subject(run.model, run.trained);
  std::vector<drawing::Picture> pictures;
  for (const auto& text : kTexts) pictures.push_back({.prompt = text, .extent = {64, 64}});
  loras::Loader whole(*subject.model), by_block(*subject.model);
  by_block.read_by_block({"text_encoder"});
  const auto ours = drawing::encode(by_block, pictures), theirs = drawing::encode(whole, pictures);
  EXPECT_FALSE(subject.model->components().is_loaded("text_encoder"));
  ASSERT_EQ(ours->prompts.size(), theirs->prompts.size());
  for (const auto& [prompt, values] : theirs->prompts) {
    for (const auto& [name, value] : values)
      EXPECT_TRUE(at::equal(std::get<at::Tensor>(ours->prompts.at(prompt).at(name)), std::get<at::Tensor>(value))) << name;
  }
  EXPECT_FALSE(drawing::encode(by_block, pictures, [] { return false; })) << "given up";
}
