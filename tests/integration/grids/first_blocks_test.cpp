// The frozen blocks before the first that trains computed ahead: the same losses and files without their weights.
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

/// The golden model with further blocks, copies of its own with the numbers moved on: 3 double and 4 single ones.
void deepen(const fs::path& model) {
  fs::copy(kGolden / "model", model, fs::copy_options::recursive);
  auto folder = model / "transformer";
  auto config = nlohmann::json::parse(read_file(folder / "config.json"));
  config["num_layers"] = 3;
  config["num_single_layers"] = 4;
  std::ofstream(folder / "config.json") << config;
  auto file = folder / "diffusion_pytorch_model.safetensors";
  io::NamedTensors tensors;
  auto source = io::TensorSource::open({file});
  for (const auto& name : source.names()) {
    auto tensor = source.tensor(name).clone();
    tensors.emplace_back(name, tensor);
    auto copy = [&](const std::string& from, std::initializer_list<int> numbers) {
      if (!name.starts_with(from + "0.")) return;
      for (int i : numbers) tensors.emplace_back(from + std::to_string(i) + name.substr(from.size() + 1), tensor.roll(i));
    };
    copy("transformer_blocks.", {1, 2});
    copy("single_transformer_blocks.", {2, 3});
  }
  fs::remove(file);
  io::save_safetensors(file, tensors);
}

struct Project {
  Project() { deepen(folder / "model"); }
  std::string base(const std::string& options) const {
    return option("model", folder / "model") + "--tokenizer_path '" + (kAssets / "tokenizer").string() + "' --tokenizer_2_path '" +
           (kAssets / "tokenizer_2").string() + "' --dtype fp32 " + golden_data() + option("cache_path", folder / "cache") +
           "--learning_rate 1e-3 --lora_rank 4 " + options;
  }
  Outcome run(const std::string& options, const std::string& name) const {
    auto outcome = run_burnish("train " + base(options) + option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.output;
    return outcome;
  }
  std::vector<std::string> logged_steps(const std::string& name) const { return test::logged_steps(folder / name); }
  void expect_same(const std::string& a, const std::string& b) const {
    EXPECT_EQ(logged_steps(a), logged_steps(b));
    EXPECT_TRUE(read_file(folder / a / "step-3.safetensors") == read_file(folder / b / "step-3.safetensors"));
  }
  Scratch folder;
};

std::string targets(const std::string& expression) { return "--lora_target_modules '" + expression + "' "; }
const std::string kLaterDouble = targets(R"(transformer_blocks\.[2]\.attn\.to_q)");
const std::string kLaterSingle = targets(R"(single_transformer_blocks\.[13]\.attn\.to_[qv])");
const std::string kSteps = "--max_steps 3 ";

struct Training {
  const char* name;
  std::string options;
  const char* ahead;  ///< what is kept
};
void PrintTo(const Training& t, std::ostream* out) { *out << t.name; }

}  // namespace

class FirstBlocks : public testing::TestWithParam<Training> {};

TEST_P(FirstBlocks, GiveTheSameLossesAndFiles) {
  Project project;
  auto options = kSteps + GetParam().options + " ";
  auto live = project.run(options + "--precompute_timesteps off ", "live");
  auto ahead = project.run(options + "--precompute_timesteps blocks ", "ahead");
  EXPECT_THAT(live.output, Not(HasSubstr("computed ahead")));
  EXPECT_THAT(live.output, HasSubstr("in memory while training: dit.modulation, dit.body, "));
  EXPECT_THAT(ahead.output, testing::ContainsRegex("in memory while training: (dit.last_blocks.modulation, )?dit.last_blocks.body, "));
  EXPECT_THAT(ahead.output, HasSubstr(std::string(GetParam().ahead) + " of "));
  EXPECT_THAT(ahead.output, HasSubstr("computed ahead: "));
  project.expect_same("live", "ahead");
}

const char* const kAllAhead = "hidden_states, last_modulation";
INSTANTIATE_TEST_SUITE_P(
    Trainings, FirstBlocks,
    testing::Values(Training{"double", kLaterDouble, kAllAhead}, Training{"single", kLaterSingle, kAllAhead},
                    Training{"first_single", targets(R"(single_transformer_blocks\.0\.attn\.to_q)"), kAllAhead},
                    Training{"checkpointing", kLaterDouble + "--use_gradient_checkpointing", kAllAhead},
                    Training{"fp8", kLaterSingle + "--fp8_models dit", kAllAhead},
                    Training{"bf16", kLaterDouble + "--dtype bf16", kAllAhead},
                    Training{"dora", kLaterSingle + "--lora_type dora", kAllAhead},
                    Training{"batches", kLaterDouble + "--batch_size 2", kAllAhead},
                    Training{"dropout", kLaterSingle + "--lora_dropout 0.3", kAllAhead},
                    Training{"no_captions", kLaterSingle + "--caption_dropout 0.5", kAllAhead},
                    Training{"drawn_latents", kLaterSingle + "--latents sample", kAllAhead},
                    Training{"modulation_lora", targets(R"(single_transformer_blocks\.[23]\..*)"), "conditioning, hidden_states"},
                    Training{"whole_block", "--trainable_models dit.single_transformer_blocks.3", "conditioning, hidden_states"},
                    Training{"last_layer", "--trainable_models dit.proj_out", kAllAhead}),
    [](const auto& info) { return std::string(info.param.name); });

/// Layers of the small model of a family that stand behind its first blocks, of every family of which these can be split off.
struct LateLayers {
  const char *family, *targets;
};
void PrintTo(const LateLayers& late, std::ostream* out) { *out << late.family; }
class FirstBlocksIn : public testing::TestWithParam<LateLayers> {};

TEST_P(FirstBlocksIn, EveryFamilyGiveTheSameLossesAndFiles) {
  const auto& family = small_family(GetParam().family);
  Scratch folder;
  auto train = [&](const std::string& options, const std::string& name) {
    auto outcome = run_burnish("train " + family.model() + family.data() + targets(GetParam().targets) +
                               "--learning_rate 1e-3 --lora_rank 4 --max_steps 3 --overwrite " + option("cache_path", folder / "cache") +
                               options + option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.output;
    return outcome.output;
  };
  for (const std::string options : {"--batch_size 2 ", "--use_gradient_checkpointing --lora_type dora --dtype bf16 "}) {
    train(options + "--precompute_timesteps off ", "live");
    auto ahead = train(options + "--precompute_timesteps blocks ", "ahead");
    EXPECT_THAT(ahead, testing::ContainsRegex("in memory while training: (dit.last_blocks.modulation, )?dit.last_blocks(.body)?, "));
    EXPECT_THAT(ahead, HasSubstr("hidden_states"));
    EXPECT_EQ(test::logged_steps(folder / "live"), test::logged_steps(folder / "ahead")) << options;
    EXPECT_TRUE(read_file(folder / "live/step-3.safetensors") == read_file(folder / "ahead/step-3.safetensors")) << options;
  }
}

INSTANTIATE_TEST_SUITE_P(Small, FirstBlocksIn,
                         testing::Values(LateLayers{"anima", R"(transformer_blocks\.2\.attn[12]\.to_[qv])"},
                                         LateLayers{"ernie_image", R"(layers\.2\.self_attention\.to_[qv])"},
                                         LateLayers{"moss_image", R"(layers\.2\.proj\.[qv])"},
                                         LateLayers{"fibo2", R"(layers\.[23]\.(cross_)?attention\.to_[qv])"},
                                         LateLayers{"flux", R"(single_transformer_blocks\.1\.attn\.to_[qv])"},
                                         LateLayers{"flux2", R"(single_transformer_blocks\.1\..*)"},
                                         LateLayers{"flux2_dev", R"(single_transformer_blocks\.1\..*)"},
                                         LateLayers{"flux3", R"(single_transformer_blocks\.1\.attn\.to_[qv])"},
                                         LateLayers{"longcat_image", R"(single_transformer_blocks\.1\.attn\.to_[qv])"},
                                         LateLayers{"kandinsky5", R"(visual_transformer_blocks\.2\..*attention\.to_(query|value))"},
                                         LateLayers{"boogu", R"(single_stream_layers\.1\.attn\.to_[qv])"},
                                         LateLayers{"krea2", R"(transformer_blocks\.2\..*)"},
                                         LateLayers{"sd3", R"(transformer_blocks\.2\.attn\.to_[qv])"},
                                         LateLayers{"qwen_image_21", R"(transformer_blocks\.2\.attn\.to_[qv])"},
                                         LateLayers{"zimage", R"(layers\.2\.attention\.to_[qv])"}),
                         [](const auto& info) { return std::string(info.param.family); });

TEST(FirstBlocksOf, AResumedRunAreThoseOfWhatIsLeft) {
  Project project;
  auto blocks = kLaterDouble + "--precompute_timesteps blocks ";
  project.run(kSteps + kLaterDouble + "--precompute_timesteps off ", "whole");
  project.run("--max_steps 2 " + blocks, "parts");
  auto rest = project.run(kSteps + blocks + "--resume ", "parts");
  EXPECT_THAT(rest.output, HasSubstr("of 1 visits computed ahead"));
  project.expect_same("whole", "parts");
}

TEST(FirstBlocksOf, HeldOutSamplesAreJudgedTheSame) {
  Project project;
  auto options = kSteps + kLaterDouble + option("validation_metadata_path", kGolden / "pictures/metadata.csv");
  project.run(options + "--precompute_timesteps off ", "live");
  project.run(options + "--precompute_timesteps blocks ", "ahead");
  project.expect_same("live", "ahead");
  EXPECT_EQ(read_file(project.folder / "live/validation.json"), read_file(project.folder / "ahead/validation.json"));
}

TEST(FirstBlocksOf, ACacheTrainFromItToo) {
  Project project;
  project.run(kSteps + kLaterSingle + "--precompute_timesteps off ", "live");
  auto made = run_burnish("cache " + project.base(""));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  auto model = option("model", project.folder / "model");
  auto trained = run_burnish("train --task sft:train --dtype fp32 --learning_rate 1e-3 --lora_rank 4 --precompute_timesteps blocks " +
                             model + option("dataset_base_path", project.folder / "cache") + "--tokenizer_path '" +
                             (kAssets / "tokenizer").string() + "' --tokenizer_2_path '" + (kAssets / "tokenizer_2").string() + "' " +
                             kSteps + kLaterSingle + option("output_path", project.folder / "split"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  project.expect_same("live", "split");
}

namespace {

/// Files by name in the sections of what was computed ahead.
std::set<std::string> kept_files(const Project& project) {
  std::set<std::string> files;
  for (const auto& item : fs::recursive_directory_iterator(project.folder / "cache")) {
    auto path = item.path().string();
    if (path.find("run_first_blocks") != path.npos && item.path().extension() == ".safetensors") files.insert(path);
  }
  return files;
}

}  // namespace

TEST(FirstBlocksOf, ARunAreComputedAnewWhenWhatTheyDependOnChanges) {
  Project project;
  auto options = kSteps + kLaterSingle + "--precompute_timesteps blocks ";
  project.run(options, "first");
  auto first = kept_files(project);
  EXPECT_EQ(first.size(), 1u);
  project.run(options, "again");
  EXPECT_EQ(kept_files(project), first) << "nothing is missing";
  project.run(options + "--lora_rank 2 --use_gradient_checkpointing ", "other_lora");
  EXPECT_EQ(kept_files(project), first) << "frozen blocks know nothing of it";
  project.run(options + "--seed 5 ", "other_seed");
  auto seeds = kept_files(project);
  EXPECT_EQ(seeds.size(), 2u);
  project.run(kSteps + "--precompute_timesteps blocks " + targets(R"(single_transformer_blocks\.[23]\.attn\.to_q)"), "other_blocks");
  auto blocks = kept_files(project);
  EXPECT_EQ(blocks.size(), 3u);

  auto file = project.folder / "model/transformer/diffusion_pytorch_model.safetensors";
  io::NamedTensors tensors;
  for (auto source = io::TensorSource::open({file}); const auto& name : source.names())
    tensors.emplace_back(name, name == "transformer_blocks.0.attn.to_q.weight" ? source.tensor(name) * 1.01 : source.tensor(name).clone());
  fs::remove(file);
  io::save_safetensors(file, tensors);
  project.run(options, "other_weights");
  EXPECT_EQ(kept_files(project).size(), 4u);
  project.run(kSteps + kLaterSingle + "--precompute_timesteps off ", "live");
  project.expect_same("live", "other_weights");
}

TEST(FirstBlocksOf, ARunAreRefusedWhereThereAreNone) {
  Project project;
  auto refused = [&](const std::string& options) {
    auto outcome = run_burnish("train " + project.base(kSteps + "--precompute_timesteps blocks " + options + " ") +
                               option("output_path", project.folder / "refused"));
    if (fs::exists(project.folder / "refused")) expect_only_status(project.folder / "refused", outcome);
    fs::remove_all(project.folder / "refused");
    return std::pair(outcome.exit_code, outcome.output);
  };
  auto none = testing::Pair(2, HasSubstr("finds no frozen blocks to compute ahead"));
  EXPECT_THAT(refused(targets("to_q,to_v")), none);
  EXPECT_THAT(refused(""), none) << "the default targets";
  EXPECT_THAT(refused("--trainable_models dit"), none);
  EXPECT_THAT(refused("--trainable_models dit.x_embedder"), none);
  auto unknown = testing::Pair(2, HasSubstr("is not known before training"));
  EXPECT_THAT(refused(kLaterSingle + "--lora_base_model dit --trainable_models text_encoder"), unknown);
  EXPECT_THAT(refused(kLaterSingle + "--lora_base_model dit --trainable_models text_encoder_2"), unknown);
  EXPECT_THAT(refused(kLaterSingle + "--cache_path '' --precompute none"), testing::Pair(2, HasSubstr("take one of them out")));
  EXPECT_THAT(refused(kLaterSingle + "--cache_path ''"), testing::Pair(2, HasSubstr("name a folder with --cache_path")));
}

TEST(FirstBlocksOf, ARunKeepTheCacheBudget) {
  Project project;
  auto options = kSteps + kLaterSingle + "--precompute_timesteps blocks ";
  auto plan = run_burnish("plan --graph --dot '" + (project.folder / "graph.dot").string() + "' " + project.base(options));
  ASSERT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_THAT(plan.output, testing::ContainsRegex("run_first_blocks +ahead "));
  EXPECT_THAT(plan.output, testing::ContainsRegex("ahead: hidden_states +[0-9.]+ KiB a visit"));
  EXPECT_THAT(plan.output, HasSubstr("of all 3 visits"));
  auto dot = read_file(project.folder / "graph.dot");
  EXPECT_THAT(dot, HasSubstr("dit.first_blocks.body\", style=dashed"));
  EXPECT_THAT(dot, testing::ContainsRegex("hidden_states[^;]*palegreen"));
  EXPECT_THAT(dot, HasSubstr("dit.last_blocks.body\", style=bold"));
  auto outcome =
      run_burnish("train " + project.base(options + "--cache_budget 0.00002 ") + option("output_path", project.folder / "small"));
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  project.run(options + "--cache_budget 0.001 ", "enough");
  project.run(options + "--precompute_timesteps off ", "live");
  project.expect_same("live", "enough");
}

TEST(FirstBlocksOf, ARunCountInTheMemoryBudget) {
  Project project;
  auto run = [&](const std::string& options, const std::string& name) {
    return run_burnish("train " + project.base(kSteps + kLaterSingle + options) + option("output_path", project.folder / name)).exit_code;
  };
  project.run(kSteps + kLaterSingle + "--precompute_timesteps off ", "live");
  // The transformer takes 795 KiB, 579 without its modulation, and the blocks from the second single one on about 160 without theirs.
  const std::string without_modulation = "--memory_budget 0.0006 ", without_first_blocks = "--memory_budget 0.0002 ";
  EXPECT_EQ(run(without_modulation + "--precompute_timesteps off ", "refused"), 4);
  EXPECT_EQ(run(without_modulation, "auto"), 0);
  project.expect_same("live", "auto");
  EXPECT_EQ(run(without_modulation + "--gradient_accumulation_steps 100 ", "refused"), 4) << "the results take more than the weights";
  EXPECT_EQ(run(without_first_blocks + "--precompute_timesteps on ", "refused"), 4);
  EXPECT_EQ(run(without_first_blocks + "--precompute_timesteps blocks ", "blocks"), 0);
  project.expect_same("live", "blocks");
}
