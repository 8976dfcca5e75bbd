// Every kind of Wan by everything there is: what trains, how weights are held, how blocks are run, what is learned.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "tests/integration/refused.h"
#include "tests/integration/wan/wan_kinds.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

/// What of a model trains.
struct Trained {
  std::string name;
  std::string (*options)(const WanKind& kind);
  bool is_whole = false;  ///< whether weights train, and not adapters on frozen ones
  bool of_module = false;
};

const Trained kTrained[] = {
    {"lora", [](const WanKind&) { return std::string("--lora_rank 4 "); }},
    {"dora", [](const WanKind&) { return std::string("--lora_type dora --lora_rank 4 "); }},
    {"loha", [](const WanKind&) { return std::string("--lora_type loha --lora_rank 4 "); }},
    {"lokr", [](const WanKind&) { return std::string("--lora_type lokr --lora_rank 4 "); }},
    {"oft", [](const WanKind&) { return std::string("--lora_type oft --lora_rank 4 "); }},
    {"full_adapter", [](const WanKind&) { return std::string("--lora_type full "); }},
    {"full", [](const WanKind& kind) { return kind.in_full(); }, true},
    {"block", [](const WanKind& kind) { return "--trainable_models " + kind.whole_blocks + " "; }, true},
    {"module_lora", [](const WanKind& kind) { return kind.adapted_module() + "--lora_rank 4 "; }, false, true},
    {"module", [](const WanKind& kind) { return "--trainable_models " + kind.module + " "; }, true, true},
};

struct GridCase {
  WanKind kind;
  Trained trained;
};
void PrintTo(const GridCase& c, std::ostream* out) { *out << c.kind.name << " " << c.trained.name; }

/// Text to video in all ways. Kinds differ in what runs, and kinds of adapters in what layers are: each of these meets two of those.
std::vector<GridCase> cases() {
  std::vector<GridCase> all;
  size_t turn = 1;
  const std::vector<std::string> in_turn{"dora", "loha", "lokr", "oft", "full_adapter"};
  for (const auto& kind :
       {kT2vKind, kExpertsKind, kI2vKind, kTi2vKind, kVaceKind, kAnimateKind, kDrivingKind, kScailKind, kSpeechKind, kTalkKind}) {
    const bool in_all_ways = kind.name == kT2vKind.name;
    const auto& own = in_turn[turn++ % in_turn.size()];
    for (const auto& trained : kTrained) {
      const bool is_in_turn = std::ranges::find(in_turn, trained.name) != in_turn.end();
      if (is_in_turn && !in_all_ways && trained.name != own) continue;
      if (!trained.of_module || !kind.module.empty()) all.push_back({kind, trained});
    }
  }
  return all;
}

std::string columns_of(const WanModelAndData& made, const std::string& more = "") {
  const auto all = made.columns + (made.columns.empty() || more.empty() ? "" : ",") + more;
  return all.empty() ? "" : "--extra_inputs " + all + " ";
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double bound) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], bound * std::abs(expected[i])) << "step " << i;
}

class WanGrid : public testing::TestWithParam<GridCase> {
 protected:
  WanGrid() : made(GetParam().kind.made(folder.path())) {}
  std::string trained() const { return GetParam().trained.options(GetParam().kind); }
  bool is_whole() const { return GetParam().trained.is_whole; }
  bool updates_in_backward() const { return !GetParam().trained.of_module || GetParam().kind.module_is_updated_in_backward; }

  /// Losses, gradient norms, and the bytes of what was trained; the run's words where it ended in an error.
  std::string run(const std::string& name, const std::string& options, const std::string& data, const std::string& columns) const {
    auto outcome = run_burnish("train " + made.model + "--learning_rate 1e-3 --num_threads 1 --plan off " + data + columns +
                               option("cache_path", folder / "cache") + option("output_path", folder / name) + trained() + options);
    EXPECT_EQ(outcome.exit_code, 0) << trained() << options << "\n" << outcome.output;
    if (outcome.exit_code != 0) return outcome.output;
    std::string text;
    for (auto& line : read_log(folder / name)) text += nlohmann::json{line["loss"], line["grad_norm"]}.dump() + "\n";
    for (const auto& file : files_below(folder / name)) {
      if (file.starts_with("step-") && file.ends_with(".safetensors")) text += file + read_file(folder / name / file);
    }
    return text;
  }
  std::string run(const std::string& name, const std::string& options) const { return run(name, options, made.data, columns_of(made)); }

  Scratch folder;
  WanModelAndData made;
};

}  // namespace

/// What saves memory changes no number, alone and together, but for chunks, whose sums are rounded in another order. Frozen blocks are read
/// from a file that has them in the dtype of the run.
TEST_P(WanGrid, IsTheSameHoweverBlocksAreRun) {
  const std::string steps = "--max_steps 2 --overwrite ", chunks = "--feed_forward_chunk_size 5 ",
                    offloaded = "--use_gradient_checkpointing_offload ", in_half = "--dtype bf16 ";
  const auto paged = "--blocks_to_swap 2 " + offloaded, fused = std::string(updates_in_backward() ? "--fused_backward_pass " : ""),
             all = paged + (is_whole() ? fused + "--enable_optimizer_cpu_offload " : "");
  const auto plain = run("plain", steps), in_chunks = run("chunks", steps + chunks);
  EXPECT_EQ(run("lever", steps + offloaded), plain);
  EXPECT_EQ(run("lever", steps + all), plain) << all;
  EXPECT_EQ(run("lever", steps + chunks + (GetParam().kind.runs_once ? all : paged)), in_chunks) << all;
  expect_near(losses(folder / "chunks"), losses(folder / "plain"), 2e-6);
  if (is_whole()) return;
  EXPECT_EQ(run("disk", steps + in_half + all + "--blocks_on_disk 1 "), run("half", steps + in_half));
}

TEST_P(WanGrid, GoesOnToTheSameBytes) {
  const auto more = "--ema_decay 0.9 --batch_size 2 " + option("validation_metadata_path", kWanClips / "metadata.csv");
  const auto beside = made.columns.empty() || made.columns == "input_image" ? more : std::string("--ema_decay 0.9 --batch_size 2 ");
  const auto whole = run("whole", beside + "--max_steps 4 ");
  run("parts", beside + "--max_steps 2 ");
  run("parts", beside + "--max_steps 4 --resume ");
  EXPECT_EQ(logged_steps(folder / "whole"), logged_steps(folder / "parts"));
  size_t num_compared = 0;
  for (const auto& file : files_below(folder / "whole")) {
    if (!file.starts_with("step-4")) continue;
    EXPECT_EQ(read_file(folder / "whole" / file), read_file(folder / "parts" / file)) << file;
    ++num_compared;
  }
  EXPECT_GE(num_compared, 1u) << whole;
}

/// Frozen weights in each format: steps near to those over numbers, and the same in every way of running blocks.
TEST_P(WanGrid, TrainsOverWeightsInEveryFormat) {
  if (is_whole()) GTEST_SKIP() << "what trains is no code";
  const std::string steps = "--max_steps 2 --overwrite ";
  run("plain", steps);
  const auto plain = losses(folder / "plain");
  for (const std::string format : {"fp8", "fp8_tensor", "fp8_block", "fp8_plain", "fp8_e5m2", "int8", "int8_convrot", "nf4"}) {
    SCOPED_TRACE(format);
    const auto held = "--fp8_models " + GetParam().kind.denoisers + " --weight_format " + format + " ";
    const auto stored = run("stored", steps + held);
    EXPECT_EQ(run("paged", steps + held + "--blocks_to_swap 2 --use_gradient_checkpointing_offload "), stored);
    expect_near(losses(folder / "stored"), plain, 0.2);
  }
}

TEST_P(WanGrid, LearnsByEveryObjective) {
  const std::string steps = "--max_steps 2 --overwrite ";
  const auto with = [&](const std::string& names, const std::string& cells) {
    std::ifstream from(folder / "clips.csv");
    if (!from) return std::string();
    std::vector<std::string> lines;
    for (std::string line; std::getline(from, line);) lines.push_back(line + "," + (lines.empty() ? names : cells));
    std::ofstream to(folder / "more.csv");
    for (const auto& line : lines) to << line << "\n";
    auto data = made.data;
    data.replace(data.find("clips.csv"), 9, "more.csv");
    return data;
  };
  run("imitation", steps + "--task trajectory_imitation --student_num_inference_steps 2 --teacher_num_inference_steps 4 ");
  const auto distilled = with("seed,rand_device,num_inference_steps,cfg_scale", "42,cpu,2,1");
  if (distilled.empty()) return;
  run("distill", steps + "--task direct_distill ", distilled, columns_of(made, "seed,rand_device,num_inference_steps,cfg_scale"));
  // Of whole weights the model before training is asked ahead of it.
  const std::string asked = is_whole() ? "--precompute_timesteps on " : "";
  run("dpo", steps + asked + "--task dpo ", with("rejected_image", "3.webp"), columns_of(made));
  EXPECT_NEAR(read_log(folder / "dpo").at(0)["loss"].get<double>(), std::log(2), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Of, WanGrid, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.kind.name + "_" + info.param.trained.name; });
