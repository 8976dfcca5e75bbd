// Processes that share out the tokens of every sample (sequence_size) train as one process does.
#include <ATen/ops/linalg_vector_norm.h>

#include "tests/integration/families/boogu.h"
#include "tests/integration/families/fibo2.h"
#include "tests/integration/families/flux_extras.h"
#include "tests/integration/families/krea2.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/together.h"
#include "tests/integration/wan/wan_kinds.h"
#include "tests/small_families.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class Sequence : public Together {
 protected:
  /// AdamW's first average after one step at beta1 0: the gradients themselves.
  static constexpr const char* kOneStep = "--max_steps 1 --optimizer_args betas=0,0.99 --max_grad_norm 0 ";

  /// What one process with all samples of a batch and several that share tokens out come to: the same loss, and gradients within what
  /// fp32 rounds.
  void expect_same(const std::string& options, int64_t processes = 2, int64_t places = 2, const std::string& more = "") const {
    SCOPED_TRACE(model + options + " " + more + ", " + std::to_string(places) + " places");
    const auto groups = processes / places;
    train(0, "one", kOneStep + options + "--batch_size 2 --overwrite");
    train(processes, "shared",
          kOneStep + options + "--batch_size " + std::to_string(2 / groups) + " --overwrite --sequence_size " + std::to_string(places) +
              " " + more);
    expect_close("shared", "one");
    expect_close_gradients("shared", "one");
  }

  void expect_close_gradients(const std::string& run, const std::string& other) const {
    // FIBO 2's few tokens come of gradients a thousandth as long as its others, of which more is rounding: 8e-6 with AVX2 alone.
    const double bound = tolerance(model.find("fibo2") == model.npos ? 5e-6 : 2e-5);
    auto of = [&](const std::string& name) { return io::TensorSource::open_folder(folder / name / "state", {"state"}); };
    auto state = of(run), expected = of(other);
    ASSERT_EQ(state.names(), expected.names());
    size_t count = 0;
    for (const auto& name : expected.names()) {
      if (name.find("exp_avg") == name.npos || name.find("exp_avg_sq") != name.npos) continue;
      auto wanted = expected.tensor(name).to(at::kDouble);
      auto scale = at::linalg_vector_norm(wanted).item<double>();
      EXPECT_LE(at::linalg_vector_norm(state.tensor(name).to(at::kDouble) - wanted).item<double>(), bound * scale) << name;
      count += scale > 0 ? 1 : 0;
    }
    EXPECT_GT(count, 0u) << "no gradients were compared";
  }
};

using SequenceOf = Sequence;

}  // namespace

TEST_F(Sequence, TwoPlacesGiveTheGradientsOfOneProcess) {
  expect_same("");
  // By the draws of seed 0 one magnitude's gradient all but cancels out, and its roundings are 2e-6 of what is left.
  expect_same("--use_gradient_checkpointing --lora_type dora --seed 1 ");
  expect_same("--trainable_models dit --learning_rate 1e-3 ");
}

TEST_F(Sequence, GoesWithManySamplesAndWithStages) {
  for (const char* more : {"", "--zero_stage 2", "--zero_stage 3", "--zero_stage 3 --shard_size 2"}) expect_same("", 4, 2, more);
}

TEST_F(Sequence, OrderedSumsAreTheSameBitsForEveryNumberOfGroups) {
  const std::string options =
      "--max_steps 3 --global_batch_size 4 --batch_size 1 --reduction ordered --sequence_size 2 --max_grad_norm 0.1 ";
  train(2, "one", options);
  train(4, "two", options);
  EXPECT_TRUE(weights("one", 3) == weights("two", 3));
  expect_same_state("one", "two");
}

TEST_F(Sequence, GoesOnWithoutIt) {
  const std::string options = "--global_batch_size 2 --batch_size 2 --auto_resume ";
  train(2, "run", options + "--max_steps 2 --sequence_size 2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv"));
  train(0, "run", options + "--max_steps 3");
  train(0, "one", "--batch_size 2 --max_steps 3");
  auto lines = read_log(folder / "run"), expected = read_log(folder / "one");
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    double loss = lines[i]["loss"], norm = lines[i]["grad_norm"];
    EXPECT_NEAR(loss, expected[i]["loss"], 1e-5 * loss);
    EXPECT_NEAR(norm, expected[i]["grad_norm"], 1e-3 * norm);
    for (size_t bin = 0; bin < expected[i]["loss_by_time"].size(); ++bin)
      EXPECT_EQ(lines[i]["loss_by_time"][bin]["count"], expected[i]["loss_by_time"][bin]["count"]) << "samples are counted once";
  }
}

TEST_F(Sequence, WhatCannotBeSharedOutIsRefused) {
  auto refused = [&](int64_t processes, const std::string& options, int code, const char* why) {
    auto outcome = try_train(processes, "run", options);
    EXPECT_EQ(outcome.exit_code, code) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(why));
  };
  refused(4, "--sequence_size 4", 2, "sequence_size 4 does not divide the 2 heads of attention in the dit");
  refused(4, "--sequence_size 3", 2, "sequence_size 3 does not divide the 4 processes of this run");
  model = "--model " + quoted(kGolden / "../sd15_pipeline/model") + " --dtype fp32 ";
  refused(2, "--sequence_size 2", 2, "sequence_size 2 shares out the tokens of a transformer, and this model's unet has none");
}

TEST_F(Sequence, APlanCountsIt) {
  auto plan = [&](const std::string& options) {
    auto command =
        "plan --model flux-dev --height 512 --width 512 --lora_rank 4 --use_gradient_checkpointing --device cuda --device_memory "
        "80GiB --json --link 400Gb --local_link 3600Gb " +
        options;
    auto output = run_burnish(command).output;
    return nlohmann::json::parse(output.substr(output.find('{')));
  };
  auto whole = plan("--processes 2"), halves = plan("--processes 2 --sequence_size 2");
  double left = halves["left_for_backward"], of_whole = whole["left_for_backward"];
  EXPECT_NEAR(left, of_whole / 2, 0.02 * of_whole);
  EXPECT_GT(halves["scaling"][1]["exposed_seconds"], whole["scaling"][1]["exposed_seconds"]);
  EXPECT_LT(halves["scaling"][1]["step_seconds"], whole["scaling"][1]["step_seconds"]);
}

TEST_F(SequenceOf, EveryFamily) {
  // ClipsOfWan, ClipsOfLtx2
  for (const auto& family : small_families([](const auto& f) { return f.is_transformer() && f.name != "wan" && f.name != "ltx2"; })) {
    SCOPED_TRACE(family.name);
    model = family.model();
    data = family.data();
    for (const char* more : {"", "--use_gradient_checkpointing "})
      expect_same("--lora_target_modules " + family.query_and_value() + " " + more);
  }
}

// Rows of zeros stand for what a short text lacks, and nearly all attention goes to them: gradients of queries to the text all but cancel
// out, and their roundings are 3e-5 of what is left.
TEST_F(SequenceOf, ClipsOfWan) {
  const std::string targets = "--lora_target_modules attn1.to_q,to_v,ffn.net.2 ";
  for (const auto& [of_kind, height] : {std::pair{wan_model(), 48}, {wan_from_frame("ti2v"), 32}, {wan_from_frame("i2v"), 48}}) {
    model = of_kind;
    data = wan_clips(height);
    for (const char* more : {"", "--use_gradient_checkpointing "}) expect_same(targets + more);
  }
}

// A still has one latent of sound, which gets all attention whoever asks, and learned tokens are nearly all of a text: gradients of queries
// to either all but cancel out.
TEST_F(SequenceOf, ClipsOfLtx2) {
  model = small_family("ltx2").model();
  const std::string targets = "--lora_target_modules attn1.to_q,to_v,audio_to_video_attn.to_q,video_to_audio_attn.to_q,ff.net.2 ";
  for (const char* columns : {"input_audio", "input_audio,input_image"}) {
    data = "--dataset_metadata_path '" + golden_path("ltx2_clips/metadata.csv") +
           "' --num_frames 9 --height 64 --width 64 --extra_inputs " + columns + " ";
    for (const char* more : {"", "--use_gradient_checkpointing "}) expect_same(targets + more);
  }
}

/// Blocks of VACE have the places of the transformer's tokens, and train without their attention to the text, as those of ClipsOfWan;
/// tokens of Animate attend to the face of their own frame.
TEST_F(SequenceOf, ModulesBesideTheTransformerOfWan) {
  const std::string vace = "vace.vace_blocks.0.attn1,vace.vace_blocks.1.attn1,vace.vace_blocks.1.ffn,vace.vace_blocks.1.proj_out";
  for (const auto& [kind, trained] : {std::pair{kVaceKind, vace}, {kAnimateKind, kAnimateKind.module}}) {
    const auto made = kind.made(folder.path());
    model = made.model;
    data = made.data + "--extra_inputs " + made.columns + " ";
    for (const char* more : {"", "--use_gradient_checkpointing "}) {
      expect_same("--lora_target_modules attn1.to_q,to_v,ffn.net.2 " + std::string(more));
      expect_same("--trainable_models " + trained + " --learning_rate 1e-3 " + more);
    }
  }
}

/// Tokens of a frame attend to what sounds in it, and the second of three frames beside a given one has tokens in both places.
TEST_F(SequenceOf, FramesThatHear) {
  model = kSpeechKind.made(folder.path()).model;
  data = wan_clips_with(folder.path(), "input_audio,s2v_pose_video", golden_path("clips/sound.wav") + ",{}.webp") + "--extra_inputs " +
         kSpeechKind.made(folder.path()).columns + " ";
  for (const char* more : {"", "--use_gradient_checkpointing "}) {
    expect_same("--lora_target_modules attn1.to_q,to_v,ffn.net.2 " + std::string(more));
    expect_same("--trainable_models dit.audio_injector,dit.casual_audio_encoder --learning_rate 1e-3 " + std::string(more));
  }
}

/// Tokens of a frame attend to what is said in it, within the blocks.
TEST_F(SequenceOf, FramesInWhichIsSaid) {
  model = wan_talk_model();
  data = wan_clips_with(folder.path(), "input_audio", golden_path("clips/sound.wav")) + "--extra_inputs " +
         kTalkKind.made(folder.path()).columns + " ";
  for (const char* more : {"", "--use_gradient_checkpointing "}) {
    expect_same("--lora_target_modules attn1.to_q,audio_cross_attn.q_linear,audio_cross_attn.kv_linear,ffn.net.2 " + std::string(more));
    expect_same("--trainable_models dit.audio_proj,dit.blocks.*.audio_cross_attn,dit.blocks.*.norm_x --learning_rate 1e-3 " +
                std::string(more));
  }
}

/// Tokens of Animate-2 attend to those of a clip too, which are shared out by themselves. Attention to the text is left out as above.
TEST_F(SequenceOf, AClipThatDrivesWan) {
  const auto made = kDrivingKind.made(folder.path());
  model = made.model;
  data = made.data + "--extra_inputs " + made.columns + " ";
  for (const char* more : {"", "--use_gradient_checkpointing "}) {
    expect_same("--lora_target_modules self_attn.q,self_attn.k,self_attn.v,ffn.2 --lora_rank 2 " + std::string(more));
    expect_same("--trainable_models dit.blocks.0.attn1,dit.blocks.0.ffn,dit.blocks.3.attn1,dit.blocks.3.ffn --learning_rate 1e-3 " +
                std::string(more));
  }
}

/// Tokens of pictures, a clip and the one that drives it are one run, of which places have any part.
TEST_F(SequenceOf, APictureThatActs) {
  const auto made = kScailKind.made(folder.path());
  model = made.model;
  data = made.data + "--extra_inputs " + made.columns + " ";
  for (const char* more : {"", "--use_gradient_checkpointing "}) {
    expect_same("--lora_target_modules attn1.to_q,to_v,ffn.net.2 " + std::string(more));
    expect_same("--trainable_models dit.patch_embedding_pose,dit.patch_embedding_mask,dit.blocks.1.ffn --learning_rate 1e-3 " +
                std::string(more));
  }
}

TEST_F(SequenceOf, PicturesBesideTheTarget) {
  const auto references = kGolden / "../references";
  data = "--dataset_metadata_path " + quoted(references / "metadata.json") + " --extra_inputs kontext_images ";
  expect_same("");
  model = qwen_image_model(kQwenEdit / "model") + "--reference_pixels 147456 ";
  data = "--dataset_metadata_path " + quoted(kQwenEdit / "metadata.json") + " --extra_inputs edit_image ";
  for (const char* targets : {"to_q,to_v ", "img_mod.1,to_k "}) expect_same("--lora_target_modules " + std::string(targets));
  model = krea2_edit_model();
  data = krea2_edit_data();
  for (const char* more : {"", "--use_gradient_checkpointing "}) expect_same(more);
  data = krea2_edit_data("overlaid.json") + "--reference_form overlaid ";
  expect_same("");
  model = fibo2_edit_model();
  data = fibo2_edit_data();
  // Gradients of queries and keys of the small model's gist are less than a hundredth of others, and so rounded more.
  expect_same("--lora_target_modules '^(layers|noise_refiner)\\..*(to_[qkv]|w2)' ");
  expect_same("--lora_target_modules to_v,to_out.0,w1,w2,w3 --use_gradient_checkpointing ");
  model = qwen_image_21_edit_model();
  data = qwen_image_21_edit_data();
  for (const char* targets : {"to_q,img_mlp.out ", "modulation.1,to_k "}) expect_same("--lora_target_modules " + std::string(targets));
}

// Places have no even shares of the picture's tokens alone, which attend to each other in Boogu-Image's blocks of two streams.
TEST_F(SequenceOf, PicturesThatAttendToThemselves) {
  model = boogu_model();
  for (const auto& given : {data, boogu_edit_data()}) {
    data = given;
    for (const char* more : {"", "--use_gradient_checkpointing ", "--lora_target_modules caption_embedder.1,timestep_embedder.linear_1 "})
      expect_same(more);
  }
}

TEST_F(SequenceOf, WhatTheBlocksOfFluxAreGivenBeside) {
  auto with = [](const char* file) { return "--model " + quoted(kExtras / file) + " "; };
  data = "--dataset_metadata_path " + quoted(kExtras / "metadata.json") + " ";
  expect_same("--extra_inputs eligen_entity_prompts,eligen_entity_masks ");
  model = golden_model() + with("ipadapter.bin") + with("siglip");
  expect_same("--extra_inputs ipadapter_images ");
  model = golden_model() + with("controlnet");
  const std::string control = "--extra_inputs controlnet_image,controlnet_processor_id ";
  expect_same(control);
  expect_same(control + "--trainable_models controlnet --learning_rate 1e-3 ");
}

TEST_F(SequenceOf, AControlNetOfQwenImage) {
  const fs::path controls = kGolden / "../qwen_blockwise";
  model = qwen_image_model() + "--model " + quoted(controls / "control.safetensors") + " ";
  data = "--dataset_metadata_path " + quoted(controls / "metadata.json") + " ";
  expect_same("--extra_inputs blockwise_controlnet_image ");
}

TEST_F(SequenceOf, AControlNetOfQwenImage21) {
  const fs::path controls = kGolden / "../qwen_image_21_control";
  model = qwen_image_21_model() + "--model " + quoted(controls / "control.safetensors") + " ";
  data = "--dataset_metadata_path " + quoted(controls / "metadata.json") + " " + kQwenImage21Size;
  expect_same("--extra_inputs controlnet_image ");
  expect_same("--extra_inputs controlnet_image --trainable_models controlnet --learning_rate 1e-3 ");
}
