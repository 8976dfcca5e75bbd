// Distribution matching distillation beside DiffSynth-Studio (tests/golden/make_dmd2.py), and what runs of it have in common with others.
#include <gmock/gmock.h>

#include "tests/integration/families/flux2.h"
#include "tests/integration/families/flux3.h"
#include "tests/integration/model_run.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class Dmd2 : public ModelRun {
 protected:
  Dmd2() : ModelRun(flux2_model()) {}

  std::string command(const std::string& name, const std::string& options) const {
    return "train " + flux2_model() + "--task dmd2 --dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") +
           " --height 48 --width 64 --learning_rate 1e-3 --dmd2_student_update_freq 2 " + options + " --output_path " + quoted(at(name));
  }
  void run(const std::string& name, const std::string& options) const { run_ok(command(name, options)); }
  /// The first step of a fresh adapter has no loss; the student's is small where it is near its teacher, and made of differences.
  void expect_close(const std::string& name, const std::string& other) const {
    for (const char* value : {"loss", "grad_norm"}) {
      const auto one = of_log(name, value), two = of_log(other, value);
      ASSERT_EQ(one.size(), two.size());
      for (size_t i = 1; i < one.size(); ++i) EXPECT_NEAR(two[i] / one[i], 1, tolerance(1e-3)) << value << " of step " << i;
    }
  }
  void expect_record(const std::string& record, const std::string& options) const;
  nlohmann::json line(const std::string& name, size_t step) const { return read_log(at(name)).at(step); }
};

const std::string kAdapters = "--max_sequence_length 48 --lora_rank 4 ";

/// Weights by what digests them, of which the largest is taken for the scale: a sum may be nearly 0.
void expect_digests(const io::TensorSource& weights, const std::string& prefix, const io::TensorSource& expected, const std::string& of) {
  size_t count = 0;
  for (const auto& name : expected.names()) {
    if (!name.starts_with(of)) continue;
    auto theirs = expected.tensor(name), ours = digest(weights.tensor(prefix + name.substr(of.size())));
    EXPECT_LE((ours - theirs).abs().max().item<double>(), tolerance(2e-4) * theirs[0].item<double>()) << name;
    ++count;
  }
  EXPECT_GT(count, 0u) << of;
}

}  // namespace

/// Eight steps with the draws of a record give its losses, gradients and weights.
void Dmd2::expect_record(const std::string& record, const std::string& options) const {
  run("run",
      "--trainable_models dit --replay " + quoted(fs::path(golden_path(record))) + options +
          " --max_steps 8 --dmd2_feature_indices 1,3 --dmd2_gan_loss_weight 0.3 --dmd2_gan_r1_reg_weight 2 --dmd2_teacher_cfg_scale 2 "
          "--dmd2_fake_score_learning_rate 2e-3 --dmd2_discriminator_learning_rate 5e-4 --dmd2_student_grad_clip_norm 0.5 "
          "--optimizer_args eps=1e-3 ");
  auto expected = golden(record);
  auto log = read_log(at("run"));
  ASSERT_EQ(log.size(), 8u);
  for (size_t i = 0; i < log.size(); ++i) {
    for (const char* key : {"loss", "grad_norm"}) {
      auto value = expected.tensor(key)[static_cast<int64_t>(i)].item<double>();
      EXPECT_NEAR(log[i][key].get<double>() / value, 1, tolerance(2e-4)) << key << " of step " << i;
    }
  }
  expect_digests(io::TensorSource::open({at("run/step-8.safetensors").string()}), "", expected, "student.");
  auto state = io::TensorSource::open({at("run/state/state.safetensors").string()});
  expect_digests(state, "parameter.fake_score.", expected, "fake_score.");
  expect_digests(state, "parameter.discriminator.", expected, "discriminator.");
}

TEST_F(Dmd2, WholeModelsEqualDiffsynth) { expect_record("dmd2.safetensors", ""); }

TEST_F(Dmd2, StudentsThatSeeTheirOwnDrawingEqualDiffsynthWithIt) {
  expect_record("dmd2_simulation.safetensors", " --dmd2_backward_simulation ");
}

TEST_F(Dmd2, AFreshAdapterIsWhereItsTeacherIs) {
  run("run", kAdapters + "--max_steps 3 ");
  EXPECT_EQ(line("run", 0)["distribution_matching_loss"].get<double>(), 0);
  EXPECT_GT(line("run", 2)["distribution_matching_loss"].get<double>(), 0);
  EXPECT_TRUE(line("run", 0)["fake_score_loss"].is_null());
  EXPECT_TRUE(line("run", 1)["distribution_matching_loss"].is_null());
  EXPECT_GT(line("run", 1)["discriminator_loss"].get<double>(), 0);
  auto file = io::TensorSource::open({at("run/step-3.safetensors").string()});
  for (const auto& name : file.names()) EXPECT_TRUE(name.starts_with("transformer.")) << name;
}

TEST_F(Dmd2, ResumedAndCheckpointedRunsAreTheWholeOne) {
  for (const auto& trained :
       {kAdapters, kAdapters + "--dmd2_backward_simulation ", std::string("--max_sequence_length 48 --trainable_models dit ")}) {
    run("whole", trained + "--max_steps 5 --overwrite");
    run("halves", trained + "--max_steps 3 --overwrite");
    run("halves", trained + "--max_steps 5 --resume");
    run("again", trained + "--max_steps 5 --overwrite --use_gradient_checkpointing");
    for (const char* name : {"halves", "again"}) {
      EXPECT_EQ(of_log("whole", "loss"), of_log(name, "loss")) << name;
      EXPECT_EQ(read_file(at("whole/step-5.safetensors")), read_file(at(name) / "step-5.safetensors")) << name;
    }
  }
}

TEST_F(Dmd2, BlocksThatWaitChangeNothing) {
  for (const std::string trained : {"--lora_rank 4 ", "--trainable_models dit ", "--lora_rank 4 --dmd2_fake_score whole "}) {
    auto options = "--max_sequence_length 48 --max_steps 4 --overwrite " + trained;
    run("plain", options);
    run("waiting", options + "--blocks_to_swap 3 ");
    run("again", options + "--blocks_to_swap 5 --use_gradient_checkpointing ");
    for (const char* name : {"waiting", "again"})
      EXPECT_EQ(read_file(at("plain/step-4.safetensors")), read_file(at(name) / "step-4.safetensors")) << trained << name;
  }
}

TEST_F(Dmd2, BlocksWaitOnceForAllThatShareThem) {
  auto waiting = [&](const std::string& trained) {
    auto said = run_burnish(command("run", "--max_sequence_length 48 --max_steps 1 --overwrite --blocks_to_swap 3 " + trained)).output;
    std::vector<bool> found;
    for (const char* model : {"dit", "teacher", "fake_score"}) found.push_back(said.find("3 blocks of " + std::string(model)) != said.npos);
    return found;
  };
  EXPECT_THAT(waiting("--lora_rank 4 "), testing::ElementsAre(true, false, false));
  EXPECT_THAT(waiting("--lora_rank 4 --dmd2_fake_score whole "), testing::ElementsAre(true, false, true));
  EXPECT_THAT(waiting("--trainable_models dit --dmd2_fake_score adapter "), testing::ElementsAre(true, true, false));
}

TEST_F(Dmd2, BlocksInFilesAreThoseOfWhatDoesNotTrain) {
  const std::string options = "--max_sequence_length 48 --max_steps 3 --overwrite --dtype bf16 --lora_rank 4 --dmd2_fake_score whole ";
  run("plain", options);
  run("waiting", options + "--blocks_to_swap 3 --blocks_on_disk 2 ");
  EXPECT_EQ(read_file(at("plain/step-3.safetensors")), read_file(at("waiting/step-3.safetensors")));
}

TEST_F(Dmd2, ProcessesDivideBlocksOfAllModels) {
  for (const std::string trained : {"--lora_rank 4 ", "--trainable_models dit ", "--lora_rank 4 --dmd2_backward_simulation "}) {
    auto options =
        "--max_sequence_length 48 --max_steps 4 --global_batch_size 2 --reduction ordered --num_threads 1 --overwrite " + trained;
    run("one", options);
    run_ok("launch -n 2 -- " + command("two", options + "--zero_stage 3 "));
    EXPECT_EQ(read_file(at("one/step-4.safetensors")), read_file(at("two/step-4.safetensors"))) << trained;
  }
}

TEST_F(Dmd2, ProcessesSumWhatTrainsInAStepOfItsKind) {
  for (const std::string trained : {"--lora_rank 4 ", "--trainable_models dit "}) {
    auto options = "--max_sequence_length 48 --max_steps 5 --batch_size 2 --num_threads 1 --overwrite " + trained;
    run("one", options);
    for (const char* stage : {"0", "2"}) {
      run_ok("launch -n 2 -- " + command("two", options + "--batch_size 1 --zero_stage " + stage));
      expect_close("one", "two");
    }
  }
}

TEST_F(Dmd2, ProcessesShareOutTokens) {
  auto options = kAdapters + "--max_steps 4 --dmd2_gan_loss_weight 0 --num_threads 1 ";
  run("one", options);
  run_ok("launch -n 2 -- " + command("two", options + "--sequence_size 2 "));
  expect_close("one", "two");
  auto refused = run_burnish("launch -n 2 -- " + command("refused", kAdapters + "--max_steps 1 --num_threads 1 --sequence_size 2 "));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("the discriminator of dmd2 reads all tokens"));
}

TEST_F(Dmd2, ReadsBehindABlockThatRunsWithoutReferences) {
  run_ok("train " + flux3_model() + "--task dmd2 --dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") +
         " --height 48 --width 64 --lora_rank 4 --learning_rate 1e-3 --max_steps 2 --output_path " + quoted(at("run")));
  EXPECT_GT(line("run", 1)["discriminator_loss"].get<double>(), 0);
}

TEST_F(Dmd2, PhasesAreStepsUnderAccumulation) {
  run("run", kAdapters + "--max_steps 4 --gradient_accumulation_steps 2 ");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(line("run", i)["fake_score_loss"].is_null(), i % 2 == 0) << i;
}

TEST_F(Dmd2, FilesSayHowTheyAreDrawnWith) {
  run("run", kAdapters + "--max_steps 1 --dmd2_student_sample_steps 2 ");
  auto file = quoted(at("run/step-1.safetensors"));
  auto metadata = io::TensorSource::open({at("run/step-1.safetensors").string()}).metadata();
  EXPECT_EQ(metadata["sampling_sampler"], "lcm");
  auto sample = "sample " + flux2_model() + "--height 48 --width 64 --prompt cat --lora " + file + " --output_path " + quoted(at("out"));
  auto drawn = [&](const std::string& more) {
    run_ok(sample + " --save_latents " + quoted(at("latents.safetensors")) + " " + more);
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  };
  auto by_file = drawn("");
  EXPECT_TRUE(at::equal(by_file, drawn("--sigmas " + metadata["sampling_sigmas"] + " --sampler lcm")));
  EXPECT_FALSE(at::equal(by_file, drawn("--num_inference_steps 2")));
}

TEST_F(Dmd2, RefusesWhatCannotBe) {
  auto refuses = [&](const std::string& options, const char* text) {
    auto out = run_burnish(command("refused", kAdapters + "--max_steps 1 --overwrite " + options));
    EXPECT_EQ(out.exit_code, 2) << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  };
  refuses("--dmd2_feature_indices 9", "names block 9, and this denoiser has 5");
  refuses("--dmd2_student_t_list 0.9,0.5,0", "has 3 numbers; it takes one for each of dmd2_student_sample_steps 4");
  refuses("--validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv"), "look at previews");
  refuses("--lora_base_model dit,text_encoder", "trains the denoiser alone");
}

TEST_F(Dmd2, TheExampleOfDiffSynthStudioRunsAndSplits) {
  const std::string base = "models/black-forest-labs/FLUX.2-klein-base-4B", id = "black-forest-labs/FLUX.2-klein-base-4B:";
  fs::create_directories(at(base).parent_path());
  fs::copy(kFlux2 / "model", at(base), fs::copy_options::recursive);
  fs::remove(at(base) / "model_index.json");
  const auto model = "--model_id_with_origin_paths \"" + id + "text_encoder/*.safetensors," + id + "transformer/*.safetensors," + id +
                     "vae/diffusion_pytorch_model.safetensors\" --tokenizer_path \"" + id + "tokenizer/\" ";
  const std::string own =
      "--learning_rate 1e-5 --dmd2_fake_score_learning_rate 1e-5 --dmd2_discriminator_learning_rate 1e-5 --num_epochs 1 "
      "--save_steps 1000 --remove_prefix_in_ckpt \"pipe.dit.\" --trainable_models \"dit\" --dmd2_student_sample_steps 4 "
      "--dmd2_student_sample_type sde --dmd2_student_update_freq 5 --dmd2_gan_loss_weight 0.03 --dmd2_feature_indices 2 "
      "--dmd2_teacher_cfg_scale 4 --use_gradient_checkpointing ";
  const auto pictures = "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
                        quoted(kGolden / "pictures/metadata.csv") + " --height 64 --width 64 --dataset_repeat 2 ";
  auto run = [&](const std::string& task, const std::string& options, const std::string& folder) {
    return run_burnish("train --task " + task + " " + model + options + "--output_path " + quoted(at(folder)),
                       "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  };
  auto whole = run("dmd2", own + pictures, "whole");
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  ASSERT_EQ(run("dmd2:data_process", own + pictures, "cache").exit_code, 0);
  auto split = run("dmd2:train", own + "--dataset_base_path " + quoted(at("cache")) + " --dataset_repeat 2 ", "split");
  ASSERT_EQ(split.exit_code, 0) << split.output;
  EXPECT_EQ(read_file(at("whole/step-8.safetensors")), read_file(at("split/step-8.safetensors")));
  ASSERT_EQ(run("sft:data_process", "--lora_rank 4 " + pictures, "other").exit_code, 0);
  auto unguided = run("dmd2:train", own + "--dataset_base_path " + quoted(at("other")) + " ", "refused");
  EXPECT_EQ(unguided.exit_code, 3);
  EXPECT_THAT(unguided.output, HasSubstr("holds no 'negative_text_embedding'"));
}
