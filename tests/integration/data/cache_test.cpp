// The cache of what encoders make of the data: equal runs, what a change recomputes, damage, kills and full disks.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/integration/program.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kTraining = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v --max_steps 6 ";
Outcome expect_ok(const std::string& arguments) {
  auto outcome = run_burnish(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  return outcome;
}

/// The cache's files, without locks and remembered hashes.
std::map<std::string, std::string> files_of(const fs::path& cache) {
  std::map<std::string, std::string> files;
  for (const auto& item : fs::recursive_directory_iterator(cache)) {
    auto name = item.path().filename().string();
    bool is_note = name == "hashes.json" || name.starts_with("checked-pictures-");  // of files that changed just now nothing is noted
    if (item.is_regular_file() && name != "lock" && !is_note) files[fs::relative(item.path(), cache).string()] = read_file(item.path());
  }
  return files;
}

/// How many results the program said it computes, by unit.
std::map<std::string, int> computed(const std::string& output) {
  std::map<std::string, int> counts;
  for (const char* unit : {"encode_prompt_clip", "encode_prompt_t5", "encode_image"}) {
    auto at = output.find(std::string(unit) + ": ");
    counts[unit] = at == output.npos ? -1 : std::stoi(output.substr(at + std::string(unit).size() + 2));
  }
  return counts;
}
using Counts = std::map<std::string, int>;
Counts counts(int clip, int t5, int image) { return {{"encode_prompt_clip", clip}, {"encode_prompt_t5", t5}, {"encode_image", image}}; }

/// The golden pictures and model, copied so that they can be changed.
struct Project {
  Project() {
    fs::copy(kGolden / "pictures", folder / "pictures");
    fs::copy(kGolden / "model", folder / "model", fs::copy_options::recursive);
  }
  std::string model() const {
    return "--model '" + (folder / "model").string() + "' --tokenizer_path '" + (kAssets / "tokenizer").string() +
           "' --tokenizer_2_path '" + (kAssets / "tokenizer_2").string() + "' --dtype fp32 ";
  }
  std::string options(const std::string& size = "--height 48 --width 64 ") const {
    return model() + size + option("dataset_metadata_path", folder / "pictures/metadata.csv") + option("cache_path", folder / "cache");
  }
  Counts make(const std::string& size = "--height 48 --width 64 ") const { return computed(expect_ok("cache " + options(size)).output); }
  Scratch folder;
};

void flip_last_byte(const fs::path& path) {
  auto bytes = read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST(Cache, RunsWithAndWithoutItAreEqualBitForBit) {
  Scratch folder;
  auto common = golden_model() + golden_data() + kTraining + "--batch_size 2 ";
  expect_ok("train " + common + option("output_path", folder / "plain"));
  auto with = common + option("cache_path", folder / "cache");
  expect_ok("train " + with + option("output_path", folder / "first"));
  auto again = expect_ok("train " + with + option("output_path", folder / "second"));
  EXPECT_EQ(computed(again.output), counts(0, 0, 0));
  EXPECT_EQ(logged_steps(folder / "plain"), logged_steps(folder / "first"));
  EXPECT_EQ(logged_steps(folder / "plain"), logged_steps(folder / "second"));
  EXPECT_EQ(read_file(folder / "plain/step-6.safetensors"), read_file(folder / "second/step-6.safetensors"));
}

TEST(Cache, SplitTasksEqualTheUnsplitRunAndNeedOnlyTheirModels) {
  Scratch folder;
  auto tokenizers = option("tokenizer_path", kAssets / "tokenizer") + option("tokenizer_2_path", kAssets / "tokenizer_2");
  auto model = kGolden / "model";
  auto encoders = option("model", model / "text_encoder") + option("model", model / "text_encoder_2") + option("model", model / "vae") +
                  tokenizers + "--dtype fp32 ";
  auto denoiser = option("model", model / "transformer") + "--dtype fp32 ";
  expect_ok("train " + golden_model() + golden_data() + kTraining + option("output_path", folder / "whole"));
  expect_ok("train --task sft:data_process " + encoders + golden_data() + option("output_path", folder / "cache"));
  expect_ok("train --task sft:train " + denoiser + kTraining + option("dataset_base_path", folder / "cache") +
            option("output_path", folder / "split"));
  expect_ok("train --task sft:train " + golden_model() + kTraining + option("dataset_base_path", folder / "cache") +
            "--offload_models text_encoder " + option("output_path", folder / "listed"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "split"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "listed"));
  EXPECT_EQ(read_file(folder / "whole/step-6.safetensors"), read_file(folder / "split/step-6.safetensors"));
}

TEST(Cache, DrawnLatentsVariantsAndDroppedCaptionsAreTheSameSplitStagedAndResumed) {
  Scratch folder;
  auto augmented = golden_data() + "--random_flip --random_crop --cache_variants 3 --latents sample ";
  auto training = kTraining + "--caption_dropout 0.4 --latents sample ";
  auto whole = "train " + golden_model() + augmented + training;
  expect_ok(whole + option("output_path", folder / "whole"));
  expect_ok(whole + option("cache_path", folder / "own") + option("output_path", folder / "staged"));
  expect_ok("train --task sft:data_process " + golden_model() + augmented + option("output_path", folder / "cache"));
  expect_ok("train --task sft:train " + golden_model() + training + option("dataset_base_path", folder / "cache") +
            option("output_path", folder / "split"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "staged"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "split"));
  expect_ok(whole + "--max_steps 2 " + option("output_path", folder / "resumed"));
  expect_ok(whole + "--resume " + option("output_path", folder / "resumed"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "resumed"));
  expect_ok("train " + golden_model() + golden_data() + kTraining + option("output_path", folder / "plain"));
  EXPECT_NE(logged_steps(folder / "whole"), logged_steps(folder / "plain"));
  for (const auto& [name, content] : files_of(folder / "cache")) {
    if (!name.starts_with("encode_image") || !name.ends_with(".safetensors")) continue;
    EXPECT_THAT(content.substr(0, 4000), testing::AllOf(HasSubstr(".latents_mean"), HasSubstr(".latents_logvar")));
  }
}

TEST(Cache, ChangedPicturesAndEvenTimesAreTheSameSplitInPartsAndResumed) {
  Scratch folder;
  auto changed = golden_data() + "--random_rotate 20 --random_hue 0.5 --fixed_brightness 0.2 --random_contrast 0.3 --cache_variants 3 ";
  auto training = kTraining + "--stratified_timesteps --timestep_sampling sigmoid --tlora_min_rank 1 --batch_size 2 ";
  auto whole = "train " + golden_model() + changed + training;
  expect_ok(whole + option("output_path", folder / "whole"));
  expect_ok("train --task sft:data_process " + golden_model() + changed + option("output_path", folder / "cache"));
  expect_ok("train --task sft:train " + golden_model() + training + option("dataset_base_path", folder / "cache") +
            option("output_path", folder / "split"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "split"));
  expect_ok(whole + "--max_steps 2 " + option("output_path", folder / "resumed"));
  expect_ok(whole + "--resume " + option("output_path", folder / "resumed"));
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "resumed"));
  for (const std::string without : {"--random_hue 0.5 ", "--fixed_brightness 0.2 ", "--random_rotate 20 "}) {
    auto less = whole;
    less.erase(less.find(without), without.size());
    expect_ok(less + option("output_path", folder / without.substr(2, 8)));
    EXPECT_NE(logged_steps(folder / "whole"), logged_steps(folder / without.substr(2, 8))) << without;
  }
}

TEST(Cache, OfAnotherModelIsRefusedBeforeTheDenoiserIsLoaded) {
  Project project;
  project.make();
  auto config = nlohmann::json::parse(read_file(project.folder / "model/transformer/config.json"));
  config["joint_attention_dim"] = 24;
  std::ofstream(project.folder / "model/transformer/config.json") << config;
  fs::remove(project.folder / "model/transformer/diffusion_pytorch_model.safetensors");
  fs::remove_all(project.folder / "model/text_encoder_2");  // which would show it before the cache does
  auto outcome = run_burnish("train --task sft:train --init random --trainable_models dit " + project.model() + "--max_steps 1 " +
                             option("dataset_base_path", project.folder / "cache") + option("output_path", project.folder / "run"));
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the text_embedding of row 0 in the cache has the shape"));
}

TEST(Cache, AStaleSampleIsNeverTrainedOn) {
  Project project;
  project.make();
  auto train = "train --overwrite --task sft:train " + project.model() + kTraining + option("dataset_base_path", project.folder / "cache") +
               option("output_path", project.folder / "run");
  auto refused = [&](const char* text) {
    auto outcome = run_burnish(train);
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_THAT(outcome.output, testing::AllOf(HasSubstr(text), HasSubstr("was changed after the cache")));
  };
  auto metadata = project.folder / "pictures/metadata.csv";
  auto text = read_file(metadata);
  std::ofstream(metadata) << text.replace(text.find("tree"), 4, "bush");
  refused("metadata.csv");
  EXPECT_EQ(project.make(), counts(1, 1, 0));
  expect_ok(train);
  auto picture = read_file(project.folder / "pictures/2.png");
  std::ofstream(project.folder / "pictures/2.png", std::ios::binary) << picture + "more";
  refused("2.png (row 2)");
  EXPECT_EQ(project.make(), counts(0, 0, 1));
  expect_ok(train);
  auto with_cache = logged_steps(project.folder / "run");
  expect_ok("train " + project.model() + "--height 48 --width 64 " + option("dataset_metadata_path", metadata) + kTraining +
            option("output_path", project.folder / "plain"));
  EXPECT_EQ(logged_steps(project.folder / "plain"), with_cache);
  fs::remove_all(project.folder / "pictures");
  expect_ok(train);
}

TEST(Import, ADiffSynthCacheTrainsAsItIsAndAsOneOfOurs) {
  Scratch folder;
  auto theirs = fs::path(test::kCheckout) / "tests/golden/diffsynth_cache/0";
  auto denoiser = option("model", kGolden / "model/transformer") + "--dtype fp32 ";
  expect_ok("train " + golden_model() + golden_data() + kTraining + option("output_path", folder / "own"));
  expect_ok("train --task sft:train " + denoiser + kTraining + option("dataset_base_path", theirs) +
            option("output_path", folder / "direct"));
  expect_ok("cache " + denoiser + option("import_diffsynth", theirs) + option("cache_path", folder / "cache"));
  expect_ok("train --task sft:train " + denoiser + kTraining + option("dataset_base_path", folder / "cache") +
            option("output_path", folder / "imported"));
  EXPECT_EQ(logged_steps(folder / "direct"), logged_steps(folder / "imported"));
  auto own = read_log(folder / "own"), direct = read_log(folder / "direct");
  ASSERT_EQ(own.size(), direct.size());
  for (size_t i = 0; i < own.size(); ++i) {
    auto loss = own[i]["loss"].get<double>();
    EXPECT_NEAR(direct[i]["loss"].get<double>(), loss, tolerance(1e-4) * loss) << "what diffusers' encoders make of the same pictures";
  }
  uintmax_t imported = 0, needed = 4 * 16 * 6 * 8 * 4 + 3 * 4 * (16 * 8 + 12);
  for (const auto& [name, content] : files_of(folder / "cache")) {
    if (!name.ends_with(".safetensors")) continue;
    imported += content.size();
    EXPECT_THAT(content.substr(0, 3000), testing::Not(HasSubstr("noise")));
  }
  EXPECT_GT(imported, needed / 2);
  expect_ok("cache " + denoiser + option("import_diffsynth", theirs) + option("cache_path", folder / "cache"));
}

namespace {

/// Samples of tests/golden/make_diffsynth_caches.py with one reference picture or two, or none.
void expect_references_kept(const std::string& pipeline, const std::vector<std::string>& samples) {
  SCOPED_TRACE(pipeline);
  const auto golden = fs::path(test::kCheckout) / "tests/golden";
  Scratch folder;
  fs::create_directories(folder / "theirs");
  for (size_t i = 0; i < samples.size(); ++i)
    fs::copy_file(golden / "diffsynth_caches" / (samples[i] + ".pth"), folder / "theirs" / (std::to_string(i) + ".pth"));
  const std::string model = option("model", golden / pipeline / "model") + "--dtype fp32 ", references = "--extra_inputs edit_image ";
  const auto train = "train --task sft:train " + model + kTraining + "--batch_size 2 ";
  expect_ok(train + references + option("dataset_base_path", folder / "theirs") + option("output_path", folder / "direct"));
  expect_ok("cache " + model + references + option("import_diffsynth", folder / "theirs") + option("cache_path", folder / "cache"));
  expect_ok(train + references + option("dataset_base_path", folder / "cache") + option("output_path", folder / "imported"));
  EXPECT_EQ(logged_steps(folder / "direct"), logged_steps(folder / "imported"));
  auto refused = run_burnish(train + option("dataset_base_path", folder / "theirs") + option("output_path", folder / "without"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("holds reference pictures ('edit_latents')"));
}

}  // namespace

TEST(Import, ADiffSynthCacheKeepsItsReferencePictures) {
  expect_references_kept("flux2_pipeline", {"flux2_references", "flux2"});
  expect_references_kept("qwen_edit_pipeline", {"qwen_edit", "qwen_edit_one"});
}

/// Clips of tests/golden/make_diffsynth_caches.py.
TEST(Import, ADiffSynthCacheOfClipsTrains) {
  const auto golden = fs::path(test::kCheckout) / "tests/golden";
  Scratch folder;
  fs::create_directories(folder / "theirs");
  fs::copy_file(golden / "diffsynth_caches/wan.pth", folder / "theirs/0.pth");
  const std::string model = option("model", golden / "wan_pipeline/model") + "--dtype fp32 ";
  const auto train = "train --task sft:train " + model + kTraining;
  expect_ok(train + option("dataset_base_path", folder / "theirs") + option("output_path", folder / "direct"));
  expect_ok("cache " + model + option("import_diffsynth", folder / "theirs") + option("cache_path", folder / "cache"));
  expect_ok(train + option("dataset_base_path", folder / "cache") + option("output_path", folder / "imported"));
  EXPECT_EQ(logged_steps(folder / "direct"), logged_steps(folder / "imported"));
}

TEST(Import, RefusesWhatItCannotTrainOn) {
  Scratch folder;
  auto golden = fs::path(test::kCheckout) / "tests/golden/diffsynth_cache";
  auto train = "train --task sft:train " + option("model", kGolden / "model/transformer") + "--dtype fp32 " + kTraining +
               option("output_path", folder / "run");
  auto refused = [&](const std::string& more, const fs::path& cache, const char* text) {
    auto outcome = run_burnish(train + more + option("dataset_base_path", cache));
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  refused("--latents sample ", golden / "0", "take --latents mean");
  refused("--caption_dropout 0.1 ", golden / "0", "an imported cache does not hold");
  auto copy = [&](const char* name, const fs::path& from) {
    fs::create_directories(folder / name);
    fs::copy_file(from, folder / name / "0.pth");
    return folder / name;
  };
  refused("", copy("system", golden / "other/os_system.pth"), "nothing of it is run");
  EXPECT_FALSE(fs::exists("burnish_ran_a_pickle"));
  refused("", copy("kinds", golden / "other/kinds.pth"), "holds no pair of dictionaries");
}

TEST(Import, WeightsOfTorchFilesTrainLikeSafetensors) {
  Project project;
  auto encoder = project.folder / "model/text_encoder";
  auto run = [&](const char* name) {
    expect_ok("train " + project.model() + golden_data() + kTraining + option("output_path", project.folder / name));
    return logged_steps(project.folder / name);
  };
  auto expected = run("safetensors");
  fs::remove(encoder / "model.safetensors");
  fs::copy_file(fs::path(test::kCheckout) / "tests/golden/diffsynth_cache/other/text_encoder.pth", encoder / "pytorch_model.bin");
  EXPECT_EQ(run("torch"), expected);
}

TEST(Cache, IsOnlyForWhatItIsGoodFor) {
  Scratch folder;
  auto train = "train --task sft:train " + golden_model() + kTraining + option("output_path", folder / "run");
  auto none = run_burnish(train + option("dataset_base_path", folder / "nothing"));
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.output, HasSubstr("holds no cache"));
  EXPECT_EQ(run_burnish(train + golden_data()).exit_code, 2);
  expect_ok("cache " + golden_model() + golden_data() + "--num_processes 2 " + option("cache_path", folder / "cache"));
  auto half = run_burnish(train + option("dataset_base_path", folder / "cache"));
  EXPECT_EQ(half.exit_code, 3);
  EXPECT_THAT(half.output, HasSubstr("missing or damaged"));
}

TEST(Cache, SharedOutOverProcessesItIsComplete) {
  Project project;
  auto both = "cache " + project.options() + "--num_processes 2 ";
  expect_ok(both + "--process_index 1");
  expect_ok(both + "--process_index 0");
  EXPECT_EQ(project.make(), counts(0, 0, 0));
}

TEST(Cache, AChangeComputesJustWhatItTouches) {
  Project project;
  EXPECT_EQ(project.make(), counts(4, 4, 4)) << "four pictures; three captions, one of them twice, and the empty one";
  EXPECT_EQ(project.make(), counts(0, 0, 0));

  auto metadata = project.folder / "pictures/metadata.csv";
  auto text = read_file(metadata);
  std::ofstream(metadata) << text + "0.png,a new caption\n1.png,a new caption\n";
  EXPECT_EQ(project.make(), counts(1, 1, 0)) << "one new caption, twice, of known pictures";

  fs::copy_file(project.folder / "pictures/1.png", project.folder / "pictures/2.png", fs::copy_options::overwrite_existing);
  EXPECT_EQ(project.make(), counts(0, 0, 0)) << "a picture that is known under another name";
  auto noisy = read_file(project.folder / "pictures/3.png");
  std::ofstream(project.folder / "pictures/3.png", std::ios::binary) << noisy + "more";
  EXPECT_EQ(project.make(), counts(0, 0, 1)) << "a changed picture";

  EXPECT_EQ(project.make("--height 64 --width 48 ")["encode_image"], 3) << "another size";
  EXPECT_EQ(project.make(), counts(0, 0, 0)) << "and back";

  flip_last_byte(project.folder / "model/text_encoder/model.safetensors");
  EXPECT_EQ(project.make(), counts(5, 0, 0)) << "other weights of one encoder";
  auto config = read_file(project.folder / "model/vae/config.json");
  std::ofstream(project.folder / "model/vae/config.json") << config.insert(config.find('{') + 1, "\"note\": 1,");
  EXPECT_EQ(project.make(), counts(0, 0, 3)) << "another configuration; two of the pictures are one";
}

TEST(Cache, AFlippedByteIsNamedAndOnlyItsEntryComputed) {
  Project project;
  project.make();
  auto before = files_of(project.folder / "cache");
  fs::path shard;
  for (const auto& [name, content] : before) {
    if (name.starts_with("encode_image") && name.ends_with(".safetensors")) shard = project.folder / "cache" / name;
  }
  flip_last_byte(shard);
  auto outcome = expect_ok("train " + project.options() + kTraining + option("output_path", project.folder / "run"));
  EXPECT_EQ(computed(outcome.output), counts(0, 0, 1));
  EXPECT_THAT(outcome.output, HasSubstr(shard.filename().string()));
  before.erase("samples.json");
  auto after = files_of(project.folder / "cache");
  after.erase("samples.json");
  EXPECT_EQ(after, before);
}

TEST(Cache, KilledAnywhereItComesToTheSameFiles) {
  Project project;
  auto start = std::chrono::steady_clock::now();
  project.make();
  auto whole_ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  auto expected = files_of(project.folder / "cache");
  auto command = "exec " + quoted(test::kProgram) + " cache " + project.options() + ">/dev/null 2>&1";
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    if (i % 5 == 0) fs::remove_all(project.folder / "cache");
    auto child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(0, whole_ms)(random)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (i % 5 != 4) continue;
    project.make();
    EXPECT_EQ(files_of(project.folder / "cache"), expected) << "after kill " << i;
  }
}

TEST(Cache, TwoProcessesAtOnceMakeTheSameFiles) {
  Project project;
  project.make();
  auto expected = files_of(project.folder / "cache");
  fs::remove_all(project.folder / "cache");
  std::thread other([&] { expect_ok("cache " + project.options()); });
  expect_ok("cache " + project.options());
  other.join();
  EXPECT_EQ(files_of(project.folder / "cache"), expected);
}

TEST(Cache, FullDiskIsOneSentenceAndTheRestIsKept) {
  Project project;
  project.make();
  auto before = files_of(project.folder / "cache");
  auto outcome = run_burnish("cache " + project.options("--height 96 --width 96 "), "ulimit -f 4; ");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("[data] the cache cannot grow"));
  EXPECT_EQ(files_of(project.folder / "cache"), before);
  EXPECT_EQ(project.make("--height 96 --width 96 "), counts(0, 0, 4));
}

TEST(Plan, PrintsLabelsAndTheCutAndDrawsTheGraph) {
  Scratch folder;
  auto outcome = expect_ok("plan --graph --dot '" + (folder / "graph.dot").string() + "' " + golden_model() + golden_data() + kTraining);
  for (const char* part :
       {"latents (D)", "noisy (DT)", "prediction (DTθ)", "kept: latents", "3.00 KiB a sample", "run at every step besides what must"})
    EXPECT_THAT(outcome.output, HasSubstr(part));
  auto dot = read_file(folder / "graph.dot");
  EXPECT_THAT(dot, testing::StartsWith("digraph"));
  EXPECT_THAT(dot, HasSubstr("encode_image"));
}
