// Runs that go wrong with good options and models: recordings, noise, output folders, states, full disks, Ctrl-C.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "data/image.h"
#include "io/files.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

using BadReplay = BadInput;
using BadNoise = BadInput;
using BadOutput = BadInput;
using BadState = BadInput;
using FullDisk = BadInput;
using RunFolder = BadInput;
using Memory = BadInput;
using Preparation = BadInput;

namespace {

io::NamedTensors record(int step, std::vector<int64_t> shape = {16, 6, 8}, double sigma = 0.5, int64_t row = 0) {
  auto name = "step." + std::to_string(step) + ".";
  return {{name + "noise", at::zeros(shape)}, {name + "sigma", at::full({}, sigma)}, {name + "sample", at::full({}, row, at::kLong)}};
}

}  // namespace

TEST_F(BadReplay, RefusedBeforeAnythingIsEncoded) {
  auto file = at("replay.safetensors");
  auto with = [&](const io::NamedTensors& second, int steps = 2) {
    auto tensors = record(0);
    tensors.insert(tensors.end(), second.begin(), second.end());
    io::save_safetensors(file, tensors);
    return train("--max_steps " + std::to_string(steps) + " --replay " + quoted(file));
  };
  refused(3, with({}), {"ends early", "'step.1.noise'", "at most 1 step with", "--max_steps"});
  refused(3, with(record(1), 3), {"ends early", "'step.2.noise'"});
  refused(3, with({record(1)[0]}), {"ends early", "'step.1.sample'"});
  refused(3, with(record(1, {16, 8, 6})), {"'step.1.noise'", "[16, 8, 6]", "[16, 6, 8]"});
  refused(3, with(record(1, {2, 16, 6, 8})), {"'step.1.noise'", "[2, 16, 6, 8]"});
  refused(3, with(record(1, {16, 6, 8}, 1.5)), {"'step.1.sigma' is 1.5", "above 0 and at most 1"});
  refused(3, with(record(1, {16, 6, 8}, 0.0)), {"'step.1.sigma' is 0", "above 0"});
  refused(3, with(record(1, {16, 6, 8}, NAN)), {"'step.1.sigma' is nan"});
  auto half_a_row = record(1);
  half_a_row[2].second = at::full({}, 1.5);
  refused(3, with(half_a_row), {"'step.1.sample' must be one row number"});
  refused(3, with(record(1, {16, 6, 8}, 0.5, 77)), {"'step.1.sample' is row 77", "usable"});
  io::save_safetensors(file, {{"noise", at::zeros({16, 6, 8})}});
  refused(3, train("--replay " + quoted(file)), {"not a replay file", "step.0.noise"});
}

TEST_F(BadNoise, ShapeCountAndFile) {
  auto file = at("noise.safetensors");
  auto with = [&](std::vector<int64_t> shape, const std::string& more = "") {
    io::save_safetensors(file, {{"noise", at::zeros(shape)}});
    return sample("--noise " + quoted(file) + more);
  };
  refused(3, with({1, 16, 8, 6}), {"[1, 16, 8, 6]", "need [1, 16, 6, 8]"});
  refused(3, with({1, 4, 6, 8}), {"[1, 4, 6, 8]"});
  refused(3, with({1, 16, 6, 8}, " --num_images 2"), {"2 pictures", "need [2, 16, 6, 8]"});
  refused(3, sample("--noise " + quoted(at("none.safetensors"))), {"none.safetensors", "No such file"});
  io::save_safetensors(file, {});
  refused(3, sample("--noise " + quoted(file)), {"holds no tensors"});
}

TEST_F(BadOutput, AFileOrAPlaceThatCannotBeWritten) {
  auto file = write("taken", "mine");
  for (const auto& verb : {train(""), sample("")}) {
    refused(3, verb + "--output_path " + quoted(file), {"taken is a file", "name a folder"});
    refused(3, verb + "--output_path " + quoted(file / "run"), {"cannot write in the output folder", "Not a directory", "--output_path"});
    refused(3, verb + "--output_path /proc/burnish/run", {"cannot write in the output folder /proc/burnish/run"});
  }
  refused(3, sample("--save_latents " + quoted(file / "latents.safetensors")), {"taken is a file"});
  EXPECT_EQ(read_file(file), "mine");
}

TEST_F(BadState, NothingToResume) {
  refused(3, train("--resume"), {"nothing to resume", "state.safetensors is not there", "--output_path"});
}

TEST_F(BadState, OtherSettingsOrADamagedFile) {
  ASSERT_EQ(run_burnish(train("")).exit_code, 0);
  auto state = out() / "state/state.safetensors";
  auto before = read_file(state);
  auto refused_resume = [&](const std::string& more, const std::vector<std::string>& words) {
    SCOPED_TRACE(more);
    auto files = files_below(out());
    expect_one_error(run_burnish(train("--max_steps 4 --resume " + more), "BURNISH_LOG=error"), 3, words);
    EXPECT_EQ(files_below(out()), files);
  };
  refused_resume("--lora_rank 8", {"other settings", "lora rank 4", "lora rank 8", "same options"});
  refused_resume("--lora_target_modules to_q,to_k", {"other settings", "on 26 layers", "on 6 layers"});
  refused_resume("--height 32 --width 32", {"other settings", "saved with sizes 64x48 (4), and this run has sizes 32x32 (4)"});
  refused_resume("--caption_prefix x", {"other settings", "it was saved with other captions"});
  refused_resume("--seed 7", {"other settings: it was saved with seed 0, and this run has seed 7; resume"});
  refused_resume("--lora_alpha 3", {"other settings: this run has alpha 3, which the saved one had not"});
  refused_resume("--trainable_models dit", {"other settings", "full"});
  refused_resume("--timestep_sampling sigmoid --sigmoid_scale 2", {"other settings", "sigmoid_scale 2.0", "timestep_sampling \"sigmoid\""});
  refused_resume("--loss_weighting uniform", {"other settings", "loss_weighting \"uniform\""});
  refused_resume("--embedded_guidance 3", {"other settings", "embedded_guidance 3.0"});
  EXPECT_EQ(read_file(state), before);
  fs::resize_file(state, before.size() / 2);
  refused_resume("", {"state.safetensors"});
  std::ofstream(state, std::ios::binary) << before;
  EXPECT_EQ(run_burnish(train("--max_steps 4 --resume")).exit_code, 0);
  EXPECT_NE(read_file(out() / "config.toml").find("resume = false"), std::string::npos);
}

TEST_F(RunFolder, TwoRunsDoNotWriteIntoOne) {
  fs::create_directories(out());
  io::FolderClaim other(out());
  ASSERT_TRUE(other.held());
  refused(3, train(""), {"another run is writing into", "--output_path"});
  write("out/status.json", "of the other run");
  EXPECT_EQ(run_burnish(train("")).exit_code, 3);
  EXPECT_EQ(read_file(out() / "status.json"), "of the other run");
}

TEST_F(RunFolder, AForgottenResumeReplacesNothing) {
  ASSERT_EQ(run_burnish(train("--max_steps 3")).exit_code, 0);
  auto log = read_file(out() / "log.jsonl"), state = read_file(out() / "state/state.safetensors");
  expect_one_error(run_burnish(train(""), "BURNISH_LOG=error"), 2, {"holds a run", "--resume", "--overwrite", "--output_path"});
  expect_one_error(run_burnish(train("--resume --overwrite"), "BURNISH_LOG=error"), 2, {"resume", "overwrite", "take one of them out"});
  EXPECT_EQ(read_file(out() / "log.jsonl"), log);
  EXPECT_EQ(read_file(out() / "state/state.safetensors"), state);
  ASSERT_EQ(run_burnish(train("--overwrite")).exit_code, 0);
  EXPECT_EQ(read_log(out()).size(), 2u);
  EXPECT_NE(read_file(out() / "config.toml").find("overwrite = false"), std::string::npos);
  EXPECT_EQ(run_burnish(train("--max_steps 4 --resume")).exit_code, 0) << "from the state of the second run";
  EXPECT_EQ(read_log(out()).size(), 4u);
}

TEST_F(RunFolder, OverwrittenByARunThatComesToNothingCanStillBeResumed) {
  ASSERT_EQ(run_burnish(train("")).exit_code, 0);
  auto config = read_file(out() / "config.toml");
  io::save_safetensors(at("lora.safetensors"), {{"transformer.transformer_blocks.0.attn.to_q.lora_A.weight", at::full({2, 64}, NAN)},
                                                {"transformer.transformer_blocks.0.attn.to_q.lora_B.weight", at::zeros({64, 2})}});
  for (const auto& more : std::vector<std::string>{
           "--lr_groups nope=1", "--lora_rank 32 --lora_checkpoint '" + at("lora.safetensors").string() + "'", "--learning_rate 1e12"}) {
    SCOPED_TRACE(more);
    EXPECT_NE(run_burnish(train("--overwrite " + more)).exit_code, 0);
    auto again = run_burnish(train("--resume --max_steps 3"), "cp -r " + quoted(out()) + " " + quoted(at("copy")) + "; ");
    EXPECT_EQ(again.exit_code, 0) << again.output;
    fs::remove_all(out());
    fs::rename(at("copy"), out());
  }
}

TEST_F(RunFolder, KeepsItsSettingsWhenNothingIsLeftToTrain) {
  ASSERT_EQ(run_burnish(train("--max_steps 3")).exit_code, 0);
  auto config = read_file(out() / "config.toml");
  auto again = run_burnish(train("--resume --max_steps 2"));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.output.find("nothing left to train"), std::string::npos) << again.output;
  EXPECT_EQ(read_file(out() / "config.toml"), config);
}

TEST_F(RunFolder, DoesNotLieAmongThePicturesWhenPreviewsAreDrawn) {
  fs::copy(kGolden / "pictures/0.png", (fs::create_directories(at("ds")), at("ds/0.png")));
  write("ds/0.txt", "a cat");
  auto prompts = " --preview_prompts " + quoted(write("prompts.txt", "a cat\n"));
  auto train = [&](const fs::path& to) {
    return "train " + golden_model() + "--height 32 --width 32 --lora_rank 2 --max_steps 1 --dataset_base_path " + quoted(at("ds")) +
           " --output_path " + quoted(to);
  };
  for (const auto& to : {at("ds"), at("ds/run"), at("x/../ds/run/2")}) {
    SCOPED_TRACE(to);
    expect_one_error(run_burnish(train(to) + prompts, "BURNISH_LOG=error"), 2, {"output_path", "lies in", "previews"});
  }
  EXPECT_EQ(files_below(at("ds")), (std::vector<std::string>{"0.png", "0.txt"}));
  auto beside = run_burnish(train(at("ds-run")) + prompts);
  EXPECT_EQ(beside.exit_code, 0) << beside.output;
  EXPECT_NE(beside.output.find("1 sample, "), std::string::npos) << beside.output;
}

TEST_F(RunFolder, PromptsThatCannotBeReadAreSaidBeforeAnythingIsComputed) {
  for (const auto& [prompts, word] : {std::pair{at("nothere.txt"), "nothere.txt"}, {write("empty.txt", "\n"), "holds no prompts"}}) {
    auto outcome = run_burnish(train("--preview_prompts " + quoted(prompts)));
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
    EXPECT_NE(outcome.output.find(word), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find("computed at every visit"), std::string::npos) << outcome.output;
    expect_only_status(out(), outcome);
    fs::remove_all(out());
  }
}

TEST_F(RunFolder, WhatAKilledRunLeftIsRemovedAndWhatIsBeingWrittenIsNot) {
  auto left = write("out/step-9.safetensors.partial-123", "half"), in_state = write("out/state/state.safetensors.partial-123", "half");
  io::AtomicFile being_written(out() / "notes.txt");
  ASSERT_EQ(run_burnish(train("")).exit_code, 0);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(in_state));
  being_written.commit();
}

/// Pictures and models that look alike from outside.
TEST_F(BadState, OtherPicturesOrAnotherModel) {
  auto pictures = at("pictures"), model = at("model");
  fs::copy(kGolden / "pictures", pictures, fs::copy_options::recursive);
  fs::copy(kGolden / "model", model, fs::copy_options::recursive);
  auto resume = [&] {
    auto data = "--dataset_metadata_path " + quoted(pictures / "metadata.csv") + " --height 48 --width 64 ";
    auto options = train_with("--model " + quoted(model) + " " + tokenizers() + data, "--max_steps 4 --resume");
    return run_burnish(options, "BURNISH_LOG=error");
  };
  ASSERT_EQ(run_burnish(train("")).exit_code, 0);
  EXPECT_EQ(resume().exit_code, 0) << "the same elsewhere";

  auto metadata = read_file(pictures / "metadata.csv");
  auto changed = metadata;
  changed.replace(changed.find("red apple"), 3, "big");
  write("pictures/metadata.csv", changed);
  expect_one_error(resume(), 3, {"other settings", "it was saved with other captions"});
  write("pictures/metadata.csv", metadata);

  auto picture = read_file(pictures / "0.png");
  data::write_png(pictures / "0.png", data::decode_image(pictures / "0.png").flip({0}));
  expect_one_error(resume(), 3, {"other settings", "it was saved with other pictures"});
  write("pictures/0.png", picture);

  auto weights = model / "transformer/diffusion_pytorch_model.safetensors";
  auto bytes = read_file(weights);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(weights, std::ios::binary) << bytes;
  expect_one_error(resume(), 3, {"other settings", "weights of the model"});
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(weights, std::ios::binary) << bytes;

  auto encoder = read_file(model / "text_encoder/model.safetensors"), changed_encoder = encoder;
  changed_encoder[encoder.size() / 2] ^= 1;
  write("model/text_encoder/model.safetensors", changed_encoder);
  expect_one_error(resume(), 3, {"other settings", "it was saved with other text encoders and autoencoder"});
  write("model/text_encoder/model.safetensors", encoder);

  auto config = nlohmann::json::parse(read_file(model / "vae/config.json"));
  config["scaling_factor"] = 0.5;
  write("model/vae/config.json", config.dump());
  expect_one_error(resume(), 3, {"other settings", "text encoders and autoencoder"});
}

std::string under_limit(int megabytes) { return "ulimit -v " + std::to_string(megabytes * 1024) + "; OMP_NUM_THREADS=1 BURNISH_LOG=error"; }

/// Between the limit under which the program does not load and one that is enough, a run ends in a sentence and exit code 4: with a plan,
/// and without one in a step. Where it has just loaded, there is no room for threads, and libraries do not look whether they got memory.
TEST_F(Memory, RunsOutInASentence) {
  constexpr int kJustLoaded = 60;  // megabytes
  int does_not_load = 200, loads = 4000;
  while (loads - does_not_load > 8) {
    auto megabytes = (does_not_load + loads) / 2;
    (run_burnish("--version", under_limit(megabytes)).exit_code == 0 ? loads : does_not_load) = megabytes;
  }
  for (const std::string plan : {"on", "off"}) {
    int num_refused = 0;
    auto is_enough = [&](int megabytes) {
      SCOPED_TRACE(fmt::format("plan {}, {} MB", plan, megabytes));
      auto outcome = run_burnish(train("--height 512 --width 512 --num_threads 1 --plan " + plan), under_limit(megabytes));
      fs::remove_all(out());
      if (outcome.exit_code == 0) return true;
      // The compiler's threads end the program where they find no room for their own, and so does the C library where it has just loaded.
      const bool has_just_loaded = megabytes < loads + kJustLoaded;
      auto says = [&](const char* words) { return outcome.output.find(words) != outcome.output.npos; };
      if (says("libgomp: Out of memory") || (has_just_loaded && says("Fatal glibc error"))) return false;
      ++num_refused;
      expect_one_error(outcome, 4, {plan == "on" || has_just_loaded ? "memory" : "out of memory"});
      return false;
    };
    for (auto megabytes = loads; megabytes < loads + kJustLoaded; megabytes += 7) EXPECT_FALSE(is_enough(megabytes));
    EXPECT_GT(num_refused, 4);
    num_refused = 0;
    int too_little = loads, enough = 4000;
    while (enough - too_little > 4 && num_refused < 4) {
      auto megabytes = (too_little + enough) / 2;
      (is_enough(megabytes) ? enough : too_little) = megabytes;
    }
    EXPECT_GT(num_refused, 0);
    EXPECT_LT(enough, 4000);
  }
}

/// Libraries ask for memory while they are loaded, before `main`: from where the loader has room for them on, what is missing is said.
TEST_F(Memory, ThatIsMissingWhileTheProgramLoadsIsSaid) {
  constexpr int kNotLoaded = 127;
  int too_little = 100, loads = 4000;
  while (loads - too_little > 4) {
    auto megabytes = (too_little + loads) / 2;
    (run_burnish("--version", under_limit(megabytes)).exit_code == kNotLoaded ? too_little : loads) = megabytes;
  }
  int num_said = 0;
  for (auto megabytes = loads; megabytes < loads + 400; megabytes += 6) {
    SCOPED_TRACE(fmt::format("{} MB", megabytes));
    auto outcome = run_burnish("--version", under_limit(megabytes));
    if (outcome.exit_code == 0) break;
    if (outcome.exit_code == kNotLoaded || outcome.output.find("Fatal glibc error") != outcome.output.npos) continue;
    expect_one_error(outcome, 4, {"[app] out of memory", "ulimit -v"});
    ++num_said;
  }
  EXPECT_GT(num_said, 0);
}

/// A user that has no other process may have as many as are said here, threads counted. Limits of this kind do not bind root.
TEST_F(Memory, ThreadsThatCannotBeStartedAreDoneWithoutOrMissedInASentence) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can run the program as a user without other processes";
  const std::string as_user = "setpriv --reuid=64973 --regid=64973 --clear-groups ";
  if (std::system((as_user + quoted(test::kProgram) + " --version >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "another user may not run the program here, or there is no setpriv";
  fs::create_directory(at("empty"));
  for (const auto& folder : {at(""), at("empty")}) fs::permissions(folder, fs::perms(0777));
  auto run = [&](int processes, const std::string& arguments) {
    auto outcome = run_burnish(arguments, fmt::format("env BURNISH_LOG=error {}prlimit --nproc={} ", as_user, processes));
    if (outcome.exit_code != 0) expect_one_error(outcome, 4, {"no further thread can be started", "ulimit -u"});
    return outcome.exit_code;
  };
  for (int processes : {1, 2, 3}) {
    SCOPED_TRACE(fmt::format("{} processes", processes));
    EXPECT_EQ(run(processes, "data " + quoted(kGolden / "pictures/metadata.csv")), 0);
    EXPECT_EQ(run(processes, "sample " + golden_model() + "--prompt cat --height 32 --width 32 --num_inference_steps 1 --output_path " +
                                 quoted(at("drawn"))),
              0);
    run(processes, train("--overwrite --save_steps 1"));
    auto watched =
        run_burnish("watch --port 0 " + quoted(at("empty")), fmt::format("timeout 200 {}prlimit --nproc={} ", as_user, processes));
    EXPECT_EQ(watched.exit_code, 4) << watched.output;
    EXPECT_NE(watched.output.find("no further thread can be started"), std::string::npos) << watched.output;
  }
}

class FullDiskAt : public BadInput, public testing::WithParamInterface<int> {};

/// The limit on file sizes stands in for a disk without room: the write comes back with an error in the same place.
TEST_P(FullDiskAt, KeepsWhatWasSavedAndGoesOnLater) {
  auto run = [&](const std::string& more) { return train("--lora_rank 4 --trainable_models dit --save_steps 2 " + more); };
  ASSERT_EQ(run_burnish(run("")).exit_code, 0);
  auto step = out() / "step-2.safetensors", state = out() / "state/state.safetensors";
  auto step_before = read_file(step), state_before = read_file(state);

  auto limit = "ulimit -f " + std::to_string(GetParam()) + "; BURNISH_LOG=error";
  expect_one_error(run_burnish(run("--max_steps 4 --resume"), limit), 3, {"cannot write", ".safetensors", "File too large", "unchanged"});
  EXPECT_EQ(records::read_status(out())->stage, "saving");
  EXPECT_EQ(read_file(step), step_before);
  EXPECT_EQ(read_file(state), state_before);
  for (const auto& file : files_below(out())) EXPECT_EQ(file.find(".partial"), std::string::npos) << file;

  ASSERT_EQ(run_burnish(run("--max_steps 4 --resume")).exit_code, 0);
  auto resumed = read_file(out() / "step-4.safetensors");
  EXPECT_EQ(read_log(out()).size(), 4u);
  fs::remove_all(out());
  ASSERT_EQ(run_burnish(run("--max_steps 4")).exit_code, 0);
  EXPECT_TRUE(read_file(out() / "step-4.safetensors") == resumed);
}

// In blocks of 512 bytes: 64 KiB are too few for the weights, 800 KiB hold them and are too few for the state.
INSTANTIATE_TEST_SUITE_P(Blocks, FullDiskAt, testing::Values(128, 1600));

TEST_F(FullDisk, TheLogAndTheFirstFile) {
  // The settings have room, and the log of so many steps has none.
  auto outcome = run_burnish(train("--max_steps 200"), "ulimit -f 96; BURNISH_LOG=error");
  expect_one_error(outcome, 3, {"cannot write", "log.jsonl", "--resume"});
  fs::remove_all(out());
  outcome = run_burnish(train(""), "ulimit -f 1; BURNISH_LOG=error");
  expect_one_error(outcome, 3, {"cannot write", "config.toml", "File too large"});
  expect_only_status(out(), outcome);
  fs::remove_all(out());
  expect_one_error(run_burnish(sample(""), "ulimit -f 1; BURNISH_LOG=error"), 3, {"cannot write", "0000.png", "File too large"});
  EXPECT_EQ(files_below(out()), std::vector<std::string>{});
}

TEST_F(Preparation, CtrlCEndsItWithNothingWritten) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 5000; ++i) rows += (kGolden / "pictures/0.png").string() + ",caption " + std::to_string(i) + "\n";
  auto data = write("many.csv", rows);
  auto log = at("log");
  auto command = "exec " + quoted(test::kProgram) + " " + train("--dataset_metadata_path " + quoted(data)) + " >" + quoted(log) + " 2>&1";
  auto child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  for (int i = 0; i < 6000 && read_file(log).find("5000 samples") == std::string::npos && ::kill(child, 0) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130) << read_file(log);
  EXPECT_NE(read_file(log).find("\ninterrupted: the run ends after this step"), std::string::npos) << read_file(log);
  EXPECT_NE(read_file(log).find("\n[train] interrupted while preparing the data; nothing was trained yet\n"), std::string::npos)
      << read_file(log);
  expect_only_status(out(), {130, read_file(log)});
}
