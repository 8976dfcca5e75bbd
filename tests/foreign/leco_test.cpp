// LECO's two files: settings of a run, and its prompts, which become options or a file of concepts.
#include <gmock/gmock.h>

#include "foreign/import.h"
#include "foreign/program.h"
#include "tests/foreign/run_options.h"
#include "tests/scratch.h"

using namespace burnish;
using foreign::Value;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

struct ImportedConcepts {
  std::map<std::string, Value> options;
  foreign::Import said;
  Value concepts;  ///< tables of the file beside the output
};

class Leco : public testing::Test {
 protected:
  /// Imports settings that name `prompts`, or without settings the prompts alone; `more` are further lines of the settings.
  ImportedConcepts import(const std::string& prompts, const std::string& more = "network: {type: lierla, rank: 8, alpha: 2.0}",
                          bool is_whole = true) {
    test::RunOptions run;
    ImportedConcepts ours;
    auto file = scratch_.write("prompts.yaml", prompts);
    if (is_whole)
      file = scratch_.write("config.yaml", "prompts_file: elsewhere/prompts.yaml\npretrained_model: {name_or_path: sd15}\n" + more + "\n");
    const auto [title, said] = foreign::import_settings(file, "", run.fields, scratch_ / "run.toml");
    EXPECT_EQ(title, "LECO");
    ours.said = said;
    for (const auto& [file, text] : said.beside) ours.concepts = foreign::parse_toml(text, file.string()).at("concepts");
    for (const auto& [option, text] : run.values()) ours.options[option] = Value::parse(text);
    return ours;
  }

  test::Scratch scratch_;
};

}  // namespace

TEST_F(Leco, OnePromptIsAnErasedConcept) {
  const auto one = import("- target: van gogh\n  neutral: a painting\n  guidance_scale: 2\n  batch_size: 3\n  resolution: 768\n",
                          "network: {rank: 8}\ntrain: {precision: float16, iterations: 900, lr: 2e-4, max_denoising_steps: 30}\n"
                          "save: {name: gogh, path: ./out, per_steps: 100, precision: float16}");
  const std::map<std::string, Value> expected{{"task", "erase"},
                                              {"target_class", "van gogh"},
                                              {"erase_prompt", "van gogh"},
                                              {"neutral_prompt", "a painting"},
                                              {"erase_strength", 2.0},
                                              {"batch_size", 3},
                                              {"resolution", {"768,768"}},
                                              {"denoising_cfg_scale", 3.0},
                                              {"max_denoising_steps", 30},
                                              {"dtype", "fp16"},
                                              {"save_dtype", "fp16"},
                                              {"max_steps", 900},
                                              {"learning_rate", 2e-4},
                                              {"lora_rank", 8},
                                              {"lora_alpha", 1.0},
                                              {"lora_base_model", "unet"},
                                              {"lora_target_modules", "default"},
                                              {"save_steps", 100},
                                              {"output_name", "gogh"},
                                              {"concept_config", ""}};
  for (const auto& [option, value] : expected) EXPECT_EQ(one.options.at(option), value) << option;
  EXPECT_THAT(one.said.not_carried, IsEmpty());
  EXPECT_THAT(one.said.different, IsEmpty());
}

TEST_F(Leco, SeveralPromptsAreTablesOfAFile) {
  const auto several = import(
      "- {target: 1girl, positive: '1girl, \"cat\" ears', action: enhance, resolution: 512}\n"
      "- {target: van gogh, unconditional: art, batch_size: 2, dynamic_resolution: true, resolution: 256}\n");
  EXPECT_EQ(several.concepts, Value::parse(R"([
      {"target_class": "1girl", "erase_prompt": "1girl, \"cat\" ears", "neutral_prompt": "", "erase_strength": -1.0},
      {"target_class": "van gogh", "erase_prompt": "van gogh", "neutral_prompt": "art", "erase_strength": 1.0}])"));
  EXPECT_EQ(several.options.at("task"), "erase");
  EXPECT_EQ(several.options.at("erase_prompt"), "") << "the file says it";
  EXPECT_THAT(several.options.at("concept_config").get<std::string>(), HasSubstr("run.concepts.toml"));
  EXPECT_EQ(several.options.at("resolution"), Value({"512,512", "128,128", "192,128", "128,192", "192,192"}));
  EXPECT_EQ(several.options.at("batch_size"), 1);
  EXPECT_THAT(several.said.not_carried, ElementsAre(HasSubstr("prompts[1].unconditional = art: what is led away"),
                                                    HasSubstr("prompts[1].batch_size = 2: a run has one"),
                                                    HasSubstr("prompts[1].resolution = 256: all prompts of a run")));
}

TEST_F(Leco, PromptsBetweenTwoOthersAreASlider) {
  const auto slider = import(
      "- {target: dog, positive: large dog, unconditional: small dog, neutral: dog, action: enhance, guidance_scale: 4}\n"
      "- {target: cat, positive: small cat, unconditional: large cat, neutral: cat}\n",
      "", false);
  EXPECT_EQ(slider.options.at("task"), "slider");
  EXPECT_EQ(slider.concepts, Value::parse(R"([
      {"target_class": "dog", "positive_prompt": "large dog", "negative_prompt": "small dog", "guidance_strength": 4.0},
      {"target_class": "cat", "positive_prompt": "large cat", "negative_prompt": "small cat", "guidance_strength": 1.0}])"))
      << "what is erased lies at the other end";
  EXPECT_THAT(slider.said.not_carried, IsEmpty());
  EXPECT_THAT(slider.said.different, ElementsAre(HasSubstr("both ends are learned")));
  EXPECT_FALSE(slider.said.origins.contains("lora_rank")) << "prompts alone are not settings of a run";
}

TEST_F(Leco, LayersAndOptimizers) {
  const auto run = [&](const std::string& more) { return import("- target: x\n", more); };
  const auto convolutions = run("network: {type: c3lier, training_method: noxattn}\ntrain: {optimizer: Lion, lr_scheduler: cosine}");
  EXPECT_THAT(convolutions.options.at("lora_target_modules").get<std::string>(), HasSubstr("proj_out,conv1,conv2,conv_shortcut"));
  EXPECT_THAT(convolutions.said.not_carried, ElementsAre(HasSubstr("network.training_method = noxattn: all layers train, as in LECO")));
  EXPECT_EQ(convolutions.options.at("optimizer"), "lion");
  EXPECT_EQ(convolutions.options.at("weight_decay"), 0.0);
  EXPECT_EQ(convolutions.options.at("lr_scheduler_min_lr_ratio"), 0.01);
  const auto attention = run("network: {training_method: xattn}\ntrain: {optimizer: Prodigy, optimizer_args: 'weight_decay=0.1 d_coef=2'}");
  EXPECT_EQ(attention.options.at("lora_target_modules"), "attn2.to_q,attn2.to_k,attn2.to_v,attn2.to_out.0");
  EXPECT_EQ(attention.options.at("optimizer"), "prodigy");
  EXPECT_EQ(attention.options.at("weight_decay"), 0.1);
  EXPECT_EQ(attention.options.at("optimizer_args"), "d_coef=2");
  const auto lost = run("train: {optimizer: dadaptadam, lr_scheduler: step}\nsave: {precision: float32}");
  EXPECT_THAT(lost.said.not_carried, Contains(HasSubstr("save.precision = float32: LECO writes files in train.precision")));
  EXPECT_THAT(lost.said.not_carried, Contains(HasSubstr("train.lr_scheduler = step: falls by a thousandth")));
  EXPECT_FALSE(lost.said.origins.contains("learning_rate")) << "it was for another optimizer";
}

TEST_F(Leco, PromptsThatAreNotThereAreTold) {
  test::RunOptions run;
  const auto file = scratch_.write("config.yaml", "prompts_file: p.yaml\npretrained_model: {name_or_path: sd15}\n");
  const auto said = foreign::import_settings(file, "", run.fields, "").second;
  EXPECT_THAT(said.not_carried, Contains("prompts_file = p.yaml: no list of prompts is there, which say what is learned"));
}
