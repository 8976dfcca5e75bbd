// What the words of options become, and of which of them a saved state depends.
#include "train/options/settings.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/scratch.h"
#include "tests/train/options/small_options.h"

using namespace burnish;
using namespace burnish::train;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

TrainOptions options(const std::string& flags) {
  std::vector<std::string> words{"--model", "model", "--dataset_metadata_path", "metadata.csv", "--max_steps", "2"};
  for (const auto& word : split_list(flags, ' ')) words.push_back(word);
  return test::options_of(words);
}

Settings settled(const std::string& flags, Portion together = {}) { return settle(options(flags), together); }

std::string refused_together(const std::string& flags, Portion together) {
  return test::error_of([&] { settled(flags, together); }, Exit::config);
}

std::string of_state(const std::string& flags) { return fingerprint(options(flags), 1, "LoRA", true, true, 4); }

}  // namespace

TEST(Settle, SaysWhatIsComputedWhen) {
  struct {
    const char* flags;
    AheadChoice ahead;
    bool always_ahead, first_blocks_apart, everything_live;
  } const rows[]{{"", AheadChoice::if_smaller, false, false, false},
                 {"--precompute_timesteps on", AheadChoice::on, true, false, false},
                 {"--precompute_timesteps off", AheadChoice::off, false, false, false},
                 {"--precompute_timesteps blocks --cache_path cache", AheadChoice::with_first_blocks, true, true, false},
                 {"--precompute none", AheadChoice::if_smaller, false, false, true}};
  for (const auto& row : rows) {
    auto s = settled(row.flags);
    EXPECT_EQ(s.schedule.ahead, row.ahead) << row.flags;
    EXPECT_EQ(s.schedule.always_ahead(), row.always_ahead) << row.flags;
    EXPECT_EQ(s.model.first_blocks_apart, row.first_blocks_apart) << row.flags;
    EXPECT_EQ(s.schedule.everything_live, row.everything_live) << row.flags;
  }
}

TEST(Settle, RecomputesByNumberUnlessABudgetChooses) {
  EXPECT_EQ(settled("").step.memory.recompute_every, 0);
  EXPECT_EQ(settled("--use_gradient_checkpointing").step.memory.recompute_every, 1);
  EXPECT_EQ(settled("--use_gradient_checkpointing --gradient_checkpointing_interval 3").step.memory.recompute_every, 3);
  auto budget = settled("--use_gradient_checkpointing --activation_budget 3GiB").step.memory;
  EXPECT_EQ(budget.recompute_every, 0);
  EXPECT_EQ(budget.activation_bytes, int64_t{3} << 30);
}

TEST(Settle, AWarmUpMayBeAShareOfTheRunsSteps) {
  auto share = settled("--lr_warmup_ratio 0.1 --lr_scheduler cosine");
  EXPECT_EQ(schedule_of(share.step, 255).warmup_steps, 25);  // rounded down, as other programs do
  EXPECT_EQ(schedule_of(share.step, 255).max_steps, 255);
  EXPECT_EQ(schedule_of(share.step, 9).warmup_steps, 0);
  EXPECT_EQ(schedule_of(settled("--lr_warmup_steps 2").step, 255).warmup_steps, 2);
  EXPECT_EQ(schedule_of(settled("--lr_warmup_ratio 1").step, 30).warmup_steps, 30);
  EXPECT_THAT(refused_together("--lr_warmup_ratio 0.1 --lr_warmup_steps 1", {}), HasSubstr("take one of them out"));
  EXPECT_THAT(refused_together("--lr_warmup_ratio 1.5", {}), HasSubstr("lr_warmup_ratio"));
  EXPECT_THAT(refused_together("--lr_warmup_ratio 0.5 --optimizer adafactor --optimizer_args relative_step=true", {}),
              HasSubstr("relative_step"));
}

TEST(Settle, FindsWhichOfTheMachineryARunNeeds) {
  EXPECT_FALSE(settled("").step.scales_loss);
  EXPECT_TRUE(settled("--dtype fp16").step.scales_loss);
  EXPECT_FALSE(settled("").step.memory.uses_host());
  for (const char* waits : {"--use_gradient_checkpointing_offload", "--enable_optimizer_cpu_offload", "--blocks_to_swap 2"})
    EXPECT_TRUE(settled(waits).step.memory.uses_host()) << waits;
  EXPECT_FALSE(settled("").trained.targets) << "the family's own";
  EXPECT_EQ(settled("--lora_target_modules to_q").trained.targets, "to_q");
  EXPECT_FALSE(settled("").trained.from_scratch);
  EXPECT_TRUE(settled("--trainable_models dit --init random").trained.from_scratch);
  EXPECT_FALSE(settled("").makes_cache);
  EXPECT_TRUE(settled("--task sft:data_process").makes_cache);
}

TEST(Settle, SavesInTheModelsPrecisionUnlessToldOtherwise) {
  EXPECT_EQ(settled("").output.files.dtype, c10::kBFloat16);
  EXPECT_EQ(settled("--dtype fp32").output.files.dtype, c10::kFloat);
  EXPECT_EQ(settled("--dtype fp32 --save_dtype fp16").output.files.dtype, c10::kHalf);
}

TEST(Settle, SavesWhenItIsAsked) {
  auto save = settled("--save_steps 2 --save_epochs 3 --save_minutes 0.5 --keep_last 4").output.save;
  EXPECT_EQ(save.steps, 2);
  EXPECT_EQ(save.epochs, 3);
  EXPECT_EQ(save.minutes, 0.5);
  EXPECT_EQ(save.keep_last, 4);
  EXPECT_EQ(settled("").output.save.steps, -1) << "as the length of the run asks for";
  EXPECT_EQ(settled("--save_steps 0").output.save.steps, 0);
  auto judged = settled("--validation_steps 3 --keep_best --validation_metadata_path held-out.csv").output;
  EXPECT_EQ(judged.validation_steps, 3);
  EXPECT_TRUE(judged.save.keep_best);
  EXPECT_EQ(settled("").output.prefix(), "");
  EXPECT_EQ(settled("--output_name cat").output.prefix(), "cat-");
  auto logs = settled("--enable_csv_log").output.logs;
  EXPECT_TRUE(logs.csv);
  EXPECT_FALSE(logs.tensorboard);
}

/// What happens beside steps needs what it is about.
TEST(Settle, RefusesWhatLacksItsNeeds) {
  for (const auto& [flags, sentence] : {std::pair{"--validation_steps 2", "name their metadata in validation_metadata_path"},
                                        {"--keep_best", "set validation_steps"},
                                        {"--output_name runs/cat", "output_name 'runs/cat' is no name of a file"},
                                        {"--output_name .cat", "is no name of a file"},
                                        {"--preview_steps 2", "in preview_prompts"},
                                        {"--preview_with_presets", "in preview_prompts"},
                                        {"--keep_last 2 --save_steps 0", "set save_steps"},
                                        {"--resume --overwrite", "take one of them out"}})
    EXPECT_THAT(refused_together(flags, {}), HasSubstr(sentence)) << flags;
}

TEST(Settle, GoesOnByItselfWhereAStateIs) {
  test::Scratch scratch;
  auto resumes = [&](const std::string& flag) { return settled("--output_path " + scratch.path() + " " + flag).output.resume; };
  EXPECT_FALSE(resumes("--auto_resume"));
  EXPECT_TRUE(resumes("--resume"));
  std::filesystem::create_directories(scratch / "state");
  scratch.write("state/state.safetensors", "");
  EXPECT_TRUE(resumes("--auto_resume"));
  EXPECT_FALSE(resumes("")) << "which is then refused elsewhere";
}

TEST(Settle, SeesHeldOutPicturesInOneWay) {
  EXPECT_TRUE(settled("").data.held_out.subsets.empty());
  auto data = settled("--random_crop --random_flip --random_hue 0.2 --fixed_rotate 5 --validation_metadata_path held-out.csv").data;
  ASSERT_EQ(data.held_out.subsets.size(), 1u);
  EXPECT_EQ(data.held_out.subsets[0].metadata_path, "held-out.csv");
  const auto &training = data.pictures.subsets.at(0).augmentation, &judged = data.held_out.subsets[0].augmentation;
  EXPECT_TRUE(training.random_crop && training.random_flip);
  EXPECT_TRUE(training.hue.random == 0.2 && training.rotate.fixed == 5);
  EXPECT_FALSE(judged.is_any());
}

TEST(Settle, SeesPicturesInSeveralWaysWhereSomethingIsDrawn) {
  auto variants = [](const std::string& flags) { return settled(flags).data.pictures.subsets.at(0).augmentation.num_variants; };
  EXPECT_EQ(variants(""), 1);
  EXPECT_EQ(variants("--random_flip"), 2);
  EXPECT_EQ(variants("--random_flip --random_contrast 0.3"), 4);
  EXPECT_EQ(variants("--fixed_brightness -0.3 --fixed_flip"), 1);
  EXPECT_EQ(variants("--random_rotate 5 --cache_variants 9"), 9);
  EXPECT_THAT(refused_together("--random_hue 0.1 --fixed_hue 0.2", {}), HasSubstr("random_hue draws what fixed_hue says once and for all"));
  EXPECT_THAT(refused_together("--cache_variants 3 --fixed_hue 0.2", {}), HasSubstr("would be equal pictures"));
}

TEST(Settle, ReadsStrengthsOfValidation) {
  const std::string held_out = "--validation_metadata_path held-out.csv --validation_strengths ";
  auto texts = [&](const std::string& given) {
    std::vector<std::string> all;
    for (const auto& strength : settled(held_out + given).output.validation_strengths) all.push_back(strength.text());
    return all;
  };
  EXPECT_THAT(texts("0,1,-0.5"), ElementsAre("0", "-0.5"));
  EXPECT_THAT(texts("0,0.5;1:attn=0,ff=0.5;blocks{0,1}=0;2:1,0.5,0"),
              ElementsAre("0", "0.5", "1:attn=0,ff=0.5", "1:blocks{0,1}=0", "2:1,0.5,0"));
  for (const std::string wrong : {"0,x", "0.5,0.5", "inf", "attn=0;1:attn=0", "0,1:attn=0", "1:style"})
    EXPECT_THAT(refused_together(held_out + wrong, {}), HasSubstr("must be a comma list of different numbers")) << wrong;
  EXPECT_THAT(refused_together("--validation_strengths 0.5", {}), HasSubstr("validation_strengths has no effect here"));
}

TEST(Settle, SpreadsTimesOverSamplesThatHaveThem) {
  EXPECT_TRUE(settled("--stratified_timesteps").course.stratified_times);
  EXPECT_THAT(refused_together("--tlora_min_rank 2 --cuda_graphs auto", {}), HasSubstr("ranks of its own"));
  EXPECT_EQ(settled("--tlora_min_rank 2 --tlora_alpha 0.5").trained.rank_rule.alpha, 0.5);
  EXPECT_THAT(refused_together("--tlora_alpha 0.5", {}), HasSubstr("tlora_alpha has no effect here"));
}

TEST(Settle, KnowsWhereSamplesComeFrom) {
  auto pictures = settled("--cache_budget 2 --memory_budget 3").data;
  EXPECT_TRUE(pictures.from_pictures);
  EXPECT_EQ(pictures.cache_bytes, 0x1p31);
  EXPECT_EQ(pictures.weight_bytes, 3 * 0x1p30);
  auto o = test::options_of({"--model", "model", "--task", "sft:train", "--dataset_base_path", "made", "--max_steps", "2"});
  auto cached = settle(o).data;
  EXPECT_FALSE(cached.from_pictures || cached.is_import);
  EXPECT_EQ(cached.list_folder, "made");
}

TEST(Settle, SharesOutWhatTogetherStartedProcessesDo) {
  auto alone = settled("--task sft:data_process --cache_path cache --num_processes 3 --process_index 2");
  EXPECT_EQ(alone.data.portion.num_processes, 3) << "processes that know nothing of each other share the encoding";
  EXPECT_EQ(alone.data.portion.process_index, 2);
  EXPECT_EQ(alone.course.portion.num_processes, 1);

  auto together = settled("--output_path run --batch_size 2", {4, 1});
  EXPECT_EQ(together.data.portion.num_processes, 4);
  EXPECT_EQ(together.data.portion.process_index, 1);
  EXPECT_EQ(together.course.portion.process_index, 1);
  EXPECT_EQ(together.course.visits_a_batch(), 8);
  EXPECT_EQ(settled("--batch_size 2 --global_batch_size 6", {4, 1}).course.visits_a_batch(), 6);
  EXPECT_EQ(together.data.cache_folder, "run/cache") << "through which they give each other what they encoded";
  EXPECT_EQ(settled("--output_path run").data.cache_folder, "");
  EXPECT_EQ(settled("--output_path run --cache_path mine", {4, 1}).data.cache_folder, "mine");
  EXPECT_FALSE(together.course.portion.same_parts);
  EXPECT_TRUE(settled("--zero_stage 2", {4, 1}).course.portion.same_parts);

  auto sharers = [](const std::string& flags) { return settled(flags, {4, 1}).step.division.num_sharers(4); };
  EXPECT_EQ(sharers(""), 1);
  EXPECT_EQ(sharers("--zero_stage 1"), 4);
  EXPECT_EQ(sharers("--zero_stage 1 --shard_size 2"), 2);
}

TEST(Settle, PlacesThatShareTokensOutDoOnePartOfTheBatches) {
  auto settings = settled("--output_path run --batch_size 2 --sequence_size 2", {4, 3});
  EXPECT_EQ(settings.course.portion.num_processes, 2);
  EXPECT_EQ(settings.course.portion.process_index, 1);
  EXPECT_EQ(settings.course.portion.num_places, 2);
  EXPECT_EQ(settings.course.portion.place, 1);
  EXPECT_EQ(settings.course.visits_a_batch(), 4);
  EXPECT_EQ(settings.data.portion.num_processes, 4) << "all of them encode";
  EXPECT_EQ(settings.together.process_index, 3);
}

TEST(Settle, RefusesWhatSeveralProcessesCannotDoTogether) {
  EXPECT_THAT(refused_together("--zero_stage 1 --shard_size 3", {4, 0}), HasSubstr("shard_size 3 does not divide the 4 processes"));
  EXPECT_THAT(refused_together("--zero_stage 1 --shard_size 2", {}), HasSubstr("shard_size 2 does not divide the 1 process of this run"));
  EXPECT_THAT(refused_together("--sequence_size 3", {4, 0}), HasSubstr("sequence_size 3 does not divide the 4 processes"));
  EXPECT_THAT(refused_together("--sequence_size 0", {}), HasSubstr("sequence_size"));
  EXPECT_THAT(refused_together("--sequence_size 2 --lora_dropout 0.1", {2, 0}),
              HasSubstr("lora_dropout draws what it drops for all tokens"));
  EXPECT_THAT(refused_together("--fused_backward_pass", {2, 1}), HasSubstr("fused_backward_pass"));
  EXPECT_THAT(refused_together("--task sft:data_process --cache_path cache --num_processes 3 --process_index 2", {2, 1}),
              HasSubstr("num_processes is for processes that are started by themselves"));
  settled("--fused_backward_pass");
}

/// A state that was saved before is to be good after the next release.
TEST(Fingerprint, StaysAsItWas) {
  EXPECT_EQ(of_state(""),
            "seed 0, order 3, batch_size 1, gradient_accumulation_steps 1, dataset_repeat 1, samples 4, dtype bf16, optimizer adamw, LoRA");
  EXPECT_EQ(of_state("--lora_alpha 8 --ema_decay 0.9 --min_snr_gamma 5 --loss_weighting uniform --optimizer lion"),
            "seed 0, order 3, batch_size 1, gradient_accumulation_steps 1, dataset_repeat 1, samples 4, dtype bf16, optimizer lion, LoRA, "
            "loss_weighting \"uniform\", min_snr_gamma 5.0, alpha 8, ema_decay 0.9");
}

/// What each option adds, in the order in which several stand.
TEST(Fingerprint, HasWordsThatDoNotChange) {
  const std::string plain = of_state("");
  std::string all_flags, all_words;
  for (const auto& [flags, words] : std::initializer_list<std::pair<const char*, const char*>>{
           {"--latents sample", ", latents sample"},
           {"--extra_inputs edit_image", ", references edit_image"},
           {"--lora_alpha 8", ", alpha 8"},
           {"--lora_rank_groups to_q=4", ", rank groups to_q=4"},
           {"--lora_alpha_groups to_q=2", ", alpha groups to_q=2"},
           {"--use_rslora", ", rank-stabilised"},
           {"--trained_weights nearest", ", weights nearest"},
           {"--ema_decay 0.99", ", ema_decay 0.99"},
           {"--loss_type huber --huber_schedule constant --huber_c 0.2 --huber_scale 2", ", huber constant 0.2 2"},
           {"--class_metadata_path class.csv --prior_loss_weight 0.5", ", prior_loss_weight 0.5"},
           {"--masked_loss alpha --unmasked_weight 0.1 --normalize_masked_area_loss", ", masked_loss alpha 0.1 per area"},
           {"--optimizer_args beta1=0.8", ", optimizer_args beta1=0.8"},
           {"--cautious", ", cautious"},
       }) {
    EXPECT_EQ(of_state(flags), plain + words) << flags;
    all_flags += std::string(" ") + flags;
    all_words += words;
  }
  EXPECT_EQ(of_state("--noise_offset 0.1 --min_t 0.2 --stratified_timesteps" + all_flags),
            plain + ", stratified_timesteps true, noise_offset 0.1, min_t 0.2" + all_words);
  auto without = [](const char* flags) { return fingerprint(options(flags), 1, "LoRA", false, false, 4); };
  EXPECT_EQ(without("--lora_alpha 8 --use_rslora --trained_weights nearest"), without("")) << "nothing of the kind trains";
}

TEST(Fingerprint, HasWhatDecidesWhatIsLearned) {
  std::set<std::string> all{of_state("")};
  const std::vector<std::string> different{"--seed 1",
                                           "--gradient_accumulation_steps 2",
                                           "--dataset_repeat 2",
                                           "--dtype fp32",
                                           "--optimizer lion",
                                           "--optimizer_args beta1=0.8",
                                           "--timestep_sampling uniform",
                                           "--loss_weighting uniform",
                                           "--noise_offset 0.1",
                                           "--min_t 0.2",
                                           "--latents sample",
                                           "--lora_alpha 4",
                                           "--lora_rank_groups to_q=4",
                                           "--lora_alpha_groups to_q=4",
                                           "--use_rslora",
                                           "--trainable_models dit --trained_weights nearest",
                                           "--ema_decay 0.9",
                                           "--loss_type huber",
                                           "--masked_loss alpha",
                                           "--masked_loss alpha --unmasked_weight 0.1",
                                           "--class_metadata_path class.csv --prior_loss_weight 0.5"};
  for (const auto& flags : different) EXPECT_TRUE(all.insert(of_state(flags)).second) << flags;
  auto of = [](int64_t batch, const std::string& trained, bool adapters, bool whole, int64_t samples) {
    return fingerprint(options("--use_rslora"), batch, trained, adapters, whole, samples);
  };
  auto as_it_is = of(1, "LoRA", true, false, 4);
  EXPECT_NE(of(2, "LoRA", true, false, 4), as_it_is);
  EXPECT_NE(of(1, "all of it", true, false, 4), as_it_is);
  EXPECT_NE(of(1, "LoRA", false, true, 4), as_it_is) << "options of adapters are nothing to a run without";
  EXPECT_NE(of(1, "LoRA", true, false, 5), as_it_is);
}

TEST(Fingerprint, HasNothingElse) {
  for (const char* flags :
       {"--max_steps 9", "--learning_rate 1e-3", "--save_steps 2", "--output_path elsewhere", "--num_threads 1", "--cache_path cache",
        "--precompute none", "--use_gradient_checkpointing", "--batch_size 2", "--max_grad_norm 1", "--plan off", "--keep_last 2"})
    EXPECT_EQ(of_state(flags), of_state("")) << flags;
}
