// Direct distillation beside plain torch (tests/golden/make_distill.py), in all three ways of running it, and what it refuses.
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/integration/program.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

/// One picture that a teacher is said to have drawn from seed 42 in three steps.
struct Teacher {
  explicit Teacher(const std::string& header = "image,prompt,seed,rand_device,num_inference_steps,cfg_scale",
                   const std::string& row = "1.png,tree,42,cpu,3,1") {
    std::ofstream(folder / "metadata.csv") << header << "\n" << row << "\n";
  }
  std::string data() const {
    return "--dataset_base_path '" + (kGolden / "pictures").string() + "' --dataset_metadata_path '" + (folder / "metadata.csv").string() +
           "' --height 48 --width 64 --extra_inputs seed,rand_device,num_inference_steps,cfg_scale ";
  }
  std::string to(const std::string& name) const { return "--output_path '" + (folder / name).string() + "' "; }
  Scratch folder;
};

const std::string kDistilled = "--lora_checkpoint '" + (kGolden / "lora.safetensors").string() + "' --learning_rate 1e-3 --max_steps 4 ";

void expect_golden(const fs::path& run, const std::string& spacing) {
  auto log = read_log(run);
  auto expected = golden("distill.safetensors");
  auto losses = expected.tensor(spacing + ".loss"), norms = expected.tensor(spacing + ".grad_norm");
  ASSERT_EQ(log.size(), 4u);
  for (size_t i = 0; i < log.size(); ++i) {
    auto loss = losses[static_cast<int64_t>(i)].item<double>(), norm = norms[static_cast<int64_t>(i)].item<double>();
    EXPECT_NEAR(log[i]["loss"].get<double>(), loss, 2e-5 * loss) << spacing << " step " << i;
    EXPECT_NEAR(log[i]["grad_norm"].get<double>(), norm, 2e-4 * norm) << spacing << " step " << i;
  }
}

}  // namespace

TEST(Distillation, EqualsPlainTorchOnBothGrids) {
  Teacher teacher;
  for (const std::string spacing : {"default", "diffsynth"}) {
    auto out = run_burnish("train --task direct_distill " + golden_model() + teacher.data() + kDistilled + "--distill_spacing " + spacing +
                           " " + teacher.to(spacing));
    ASSERT_EQ(out.exit_code, 0) << out.output;
    expect_golden(teacher.folder / spacing, spacing);
  }
}

TEST(Distillation, SplitAndCheckpointedRunsAreTheUnsplitOne) {
  Teacher teacher;
  auto ok = [](const std::string& arguments) {
    auto out = run_burnish(arguments);
    EXPECT_EQ(out.exit_code, 0) << out.output;
  };
  ok("train --task direct_distill " + golden_model() + teacher.data() + kDistilled + teacher.to("whole"));
  ok("train --task direct_distill:data_process " + golden_model() + teacher.data() + teacher.to("cache"));
  auto split = "train --task direct_distill:train --model '" + (kGolden / "model/transformer").string() + "' --dtype fp32 " + kDistilled +
               "--dataset_base_path '" + (teacher.folder / "cache").string() + "' ";
  ok(split + teacher.to("split"));
  ok(split + "--use_gradient_checkpointing " + teacher.to("checkpointed"));
  EXPECT_EQ(logged_steps(teacher.folder / "whole"), logged_steps(teacher.folder / "split"));
  EXPECT_EQ(logged_steps(teacher.folder / "whole"), logged_steps(teacher.folder / "checkpointed"));
  auto sft = run_burnish("train --task sft:data_process " + golden_model() + golden_data() + teacher.to("sft"));
  auto wrong = run_burnish("train --task direct_distill:train " + golden_model() + kDistilled + "--dataset_base_path '" +
                           (teacher.folder / "sft").string() + "' " + teacher.to("wrong"));
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.output, HasSubstr("the column seed must hold a whole number"));
}

TEST(Distillation, RefusesWhatItCannotHonour) {
  auto refused = [](const Teacher& teacher, const std::string& more, int code, const char* text) {
    auto out = run_burnish("train --task direct_distill " + golden_model() + teacher.data() + kDistilled + more + teacher.to("run"));
    EXPECT_EQ(out.exit_code, code) << out.output;
    EXPECT_THAT(out.output, HasSubstr(text));
  };
  std::string header = "image,prompt,seed,rand_device,num_inference_steps,cfg_scale";
  refused(Teacher(header, "1.png,tree,x,cpu,3,1"), "", 3, "row 0: the column seed");
  refused(Teacher(header, "1.png,tree,1,cpu,0,1"), "", 3, "row 0: the column num_inference_steps");
  refused(Teacher(header, "1.png,tree,1,cpu,3,4"), "", 3, "cfg_scale is 4");
  refused(Teacher(header, "1.png,tree,1,tpu,3,1"), "", 3, "rand_device 'tpu'");
  refused(Teacher(), "--random_flip ", 2, "take random_crop, random_flip and other changes of pictures out");
  refused(Teacher(), "--distill_spacing other ", 2, "choose default or diffsynth");
  auto sft = run_burnish("train " + golden_model() + Teacher().data() + "--max_steps 1");
  EXPECT_EQ(sft.exit_code, 2) << sft.output;
  EXPECT_THAT(sft.output, HasSubstr("is no column that task sft or a model here reads"));
}
