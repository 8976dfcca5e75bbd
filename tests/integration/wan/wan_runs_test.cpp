// Wan on clips in the ways of running and training that other families have tests of their own for.
#include <ATen/ops/full.h>

#include "data/image.h"
#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/together.h"
#include "tests/integration/wan/wan_experts.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

struct Kind {
  std::string name, model, components = "dit";
  int64_t height = 48;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class WanRuns : public testing::TestWithParam<Kind> {
 protected:
  WanRuns() {
    if (GetParam().model.empty()) make_wan_experts(folder / "model");
  }
  std::string model() const { return GetParam().model.empty() ? wan_model(folder / "model") : GetParam().model; }
  std::string data() const { return wan_clips(GetParam().height); }
  std::string in_full() const { return "--trainable_models " + GetParam().components + " "; }
  Outcome train(const std::string& run, const std::string& options) const {
    auto outcome = run_burnish("train " + model() + "--learning_rate 1e-3 --batch_size 2 " + options + option("output_path", folder / run));
    EXPECT_EQ(outcome.exit_code, 0) << options << "\n" << outcome.output;
    return outcome;
  }
  std::string weights(const std::string& run) const {
    std::string all;
    for (const auto& file : files_below(folder / run)) {
      if (file.starts_with("step-") && file.ends_with(".safetensors")) all += file + read_file(folder / run / file);
    }
    EXPECT_FALSE(all.empty());
    return all;
  }
  /// A metadata file of the clips with further columns.
  std::string with_columns(const std::string& names, const std::vector<std::string>& cells) const {
    std::ofstream metadata(folder / "metadata.csv");
    metadata << "video,prompt," << names << "\n";
    for (size_t i = 0; i < cells.size(); ++i) metadata << i << ".webp,red apple," << cells[i] << "\n";
    return option("dataset_metadata_path", folder / "metadata.csv") + option("dataset_base_path", kWanClips) + "--height " +
           std::to_string(GetParam().height) + " --width 64 --num_frames 9 --frame_rate 16 ";
  }

  Scratch folder;
};

const std::string kLora = "--lora_rank 4 ";

}  // namespace

TEST_P(WanRuns, GoOnToTheSameBytes) {
  for (const auto& trained : {kLora + "--ema_decay 0.9 ", in_full()}) {
    train("whole", trained + data() + "--max_steps 4 --overwrite ");
    train("parts", trained + data() + "--max_steps 2 --overwrite ");
    train("parts", trained + data() + "--max_steps 4 --resume ");
    EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "parts")) << trained;
    EXPECT_TRUE(weights("whole").starts_with("step-4"));
    for (const auto& file : files_below(folder / "whole")) {
      if (file.starts_with("step-4")) {
        EXPECT_EQ(read_file(folder / "whole" / file), read_file(folder / "parts" / file)) << file;
      }
    }
  }
}

TEST_P(WanRuns, WithModulationComputedAheadAreTheSame) {
  train("live", kLora + data() + "--max_steps 3 --precompute_timesteps off ");
  auto ahead = train("ahead", kLora + data() + "--max_steps 3 --precompute_timesteps on ");
  EXPECT_THAT(ahead.output, HasSubstr("computed ahead"));
  EXPECT_EQ(logged_steps(folder / "live"), logged_steps(folder / "ahead"));
  EXPECT_EQ(weights("live"), weights("ahead"));
}

TEST_P(WanRuns, JudgeAndDrawClipsBesideTraining) {
  std::ofstream(folder / "prompts.txt") << "red apple --w 64 --h " << GetParam().height << " --s 2 --f 5\n";
  train("run", kLora + data() + "--max_steps 2 " + option("validation_metadata_path", kWanClips / "metadata.csv") +
                   (GetParam().model.find("input_image") == std::string::npos ? option("sample_prompts", folder / "prompts.txt") : ""));
  auto held = nlohmann::json::parse(read_file(folder / "run/validation.json"));
  EXPECT_NE(held["before"], held["after"]);
}

TEST_P(WanRuns, AreDistilledFromAWalk) {
  const auto is_given = model().find("--extra_inputs input_image ");
  auto given = is_given == std::string::npos ? "" : ",input_image";
  auto data = with_columns("seed,rand_device,num_inference_steps,cfg_scale", {"42,cpu,3,1"}) +
              "--extra_inputs seed,rand_device,num_inference_steps,cfg_scale" + given + " ";
  auto bare = model().substr(0, is_given) + " ";
  for (const auto& trained : {kLora, in_full()}) {
    auto outcome = run_burnish("train --task direct_distill " + bare + "--learning_rate 1e-3 --max_steps 2 --overwrite " + trained + data +
                               option("output_path", folder / "run"));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
  train("imitation", "--task trajectory_imitation --student_num_inference_steps 2 --teacher_num_inference_steps 4 --max_steps 2 " + kLora +
                         this->data());
}

/// The clip that was liked less is read as the row's own.
TEST_P(WanRuns, LearnFromPairsOfClips) {
  auto data = with_columns("rejected_image", {"1.webp", "2.webp", "3.webp", "0.webp"});
  train("run", "--task dpo --max_steps 3 " + kLora + data);
  auto log = read_log(folder / "run");
  ASSERT_EQ(log.size(), 3u);
  EXPECT_NEAR(log[0]["loss"].get<double>(), std::log(2), 1e-6);
  EXPECT_NE(log[2]["margin"], log[0]["margin"]);
  data = with_columns("rejected_image", {"0.webp", "1.webp", "2.webp", "3.webp"});
  train("same", "--task dpo --max_steps 3 " + kLora + data);
  for (const auto& line : read_log(folder / "same")) EXPECT_EQ(line["margin"], 0.0) << "the same clip is no better than itself";
}

/// The numbers of all tokens at once but for rounding, and in every way of running blocks the same bits.
TEST_P(WanRuns, TakeFeedForwardLayersInChunks) {
  const std::string steps = "--max_steps 3 --overwrite ", chunks = "--feed_forward_chunk_size 5 ";
  for (const auto& trained : {kLora, "--lora_type dora " + kLora, in_full()}) {
    train("whole", trained + data() + steps);
    train("chunks", trained + data() + steps + chunks);
    auto log = read_log(folder / "chunks"), expected = read_log(folder / "whole");
    for (size_t i = 0; i < expected.size(); ++i) {
      double loss = expected.at(i)["loss"], norm = expected[i]["grad_norm"];
      EXPECT_NEAR(log.at(i)["loss"], loss, 2e-6 * loss) << trained;
      EXPECT_NEAR(log[i]["grad_norm"], norm, tolerance(1e-5) * norm) << trained;
    }
    EXPECT_NE(weights("whole"), weights("chunks")) << "sums of gradients are rounded in another order";
    for (const char* lever : {"--use_gradient_checkpointing_offload ", "--fused_backward_pass ", "--blocks_to_swap 2 --plan off "}) {
      train("with lever", trained + data() + steps + chunks + lever);
      EXPECT_EQ(weights("with lever"), weights("chunks")) << trained << lever;
    }
  }
}

/// A mask is a picture, for all frames of a clip.
TEST_P(WanRuns, TakeMasks) {
  auto losses_under = [&](int64_t shade) {
    const auto file = folder / ("mask" + std::to_string(shade) + ".png");
    data::write_png(file, at::full({48, 64, 3}, shade, at::kByte));
    train("run", "--masked_loss column --overwrite --max_steps 1 " + kLora + with_columns("mask", {file.string()}));
    return losses(folder / "run").at(0);
  };
  const auto whole = losses_under(255);
  EXPECT_GT(whole, 0);
  EXPECT_NEAR(losses_under(51), whole / 5, 1e-6 * whole);
}

INSTANTIATE_TEST_SUITE_P(Of, WanRuns,
                         testing::Values(Kind{"t2v", wan_model()}, Kind{"experts", "", "dit,dit_2"},
                                         Kind{"ti2v", wan_from_frame("ti2v"), "dit", 32}, Kind{"i2v", wan_from_frame("i2v")}),
                         [](const auto& info) { return info.param.name; });

/// Weights, gradients and what updates keep, divided among processes.
class WanTogether : public Together {};

TEST_F(WanTogether, StagesChangeNoBits) {
  make_wan_experts(folder / "model");
  for (const auto& [of_kind, components, height] :
       {std::tuple{wan_model(), "dit", 48}, {wan_model(folder / "model"), "dit,dit_2", 48}, {wan_from_frame("ti2v"), "dit", 32}}) {
    model = of_kind;
    data = wan_clips(height);
    for (const std::string& trained : {std::string("--lora_type dora "), std::string("--trainable_models ") + components + " "}) {
      auto options = trained + "--batch_size 1 --global_batch_size 4 --reduction ordered --max_steps 2 --overwrite ";
      Together::train(0, "one", options + "--num_threads 1 ");
      for (const char* stage : {"2", "3"}) {
        SCOPED_TRACE(model + trained + stage);
        Together::train(2, "divided", options + "--zero_stage " + stage);
        expect_same_state("divided", "one");
      }
    }
  }
}

/// Blocks of a single stream, whose MLP stands beside attention.
TEST(FeedForwardChunks, ReachMlpsBesideAttention) {
  Scratch folder;
  auto train = [&](const std::string& name, const std::string& options) {
    auto outcome = run_burnish("train " + golden_model() + golden_data() + "--max_steps 3 --learning_rate 1e-3 " + options +
                               option("output_path", folder / name));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return read_file(folder / name / "step-3.safetensors");
  };
  const std::string chunks = "--feed_forward_chunk_size 5 ";
  for (const std::string& trained :
       {std::string("--trainable_models dit.single_transformer_blocks.0.proj_mlp "),
        std::string("--lora_rank 4 --lora_type dora --lora_target_modules proj_mlp,proj_out "), std::string("--trainable_models dit ")}) {
    const auto whole = train("whole", trained + "--overwrite "), in_chunks = train("chunks", trained + chunks + "--overwrite ");
    EXPECT_NE(whole, in_chunks) << "sums of gradients are rounded in another order";
    auto log = read_log(folder / "chunks"), expected = read_log(folder / "whole");
    for (size_t i = 0; i < expected.size(); ++i) {
      double loss = expected.at(i)["loss"], norm = expected[i]["grad_norm"];
      EXPECT_NEAR(log.at(i)["loss"], loss, 2e-6 * loss) << trained;
      EXPECT_NEAR(log[i]["grad_norm"], norm, tolerance(1e-5) * norm) << trained;
    }
    EXPECT_EQ(train("checkpointed", trained + chunks + "--overwrite --use_gradient_checkpointing "), in_chunks) << trained;
  }
}

TEST(FeedForwardChunks, AreRefusedWhereTheyMeanNothing) {
  Scratch folder;
  auto refused = [&](const std::string& options) {
    auto outcome =
        run_burnish("train --lora_rank 4 --max_steps 1 --feed_forward_chunk_size 8 " + options + option("output_path", folder / "run"));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(refused("--lora_dropout 0.1 " + wan_model() + wan_clips()), HasSubstr("feed_forward_chunk_size 8 takes some at a time"));
  EXPECT_THAT(refused(sd_model("sd15_pipeline") + sd_data("sd15_pipeline")), HasSubstr("this model's unet has none"));
}

TEST(WanTiles, AreOfWholeLatents) {
  Scratch folder;
  auto train = [&](const std::string& name, const std::string& more) {
    return run_burnish("train " + wan_from_frame(name) + wan_clips(name == "ti2v" ? 96 : 48) + "--width 96 --lora_rank 4 --max_steps 1 " +
                       more + "--overwrite " + option("output_path", folder / "run"));
  };
  auto refused = train("ti2v", "--vae_tile_size 32 ");
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("vae_tile_size 32 is no multiple of 64"));
  for (const char* taken : {"--vae_tile_size 64 ", ""}) EXPECT_EQ(train("ti2v", taken).exit_code, 0) << taken;
  EXPECT_EQ(train("i2v", "--vae_tile_size 32 ").exit_code, 0);
}
