// Numbers and files that once kept the program, or the machine, busy for ever: each is refused in a sentence.
#include <sys/stat.h>

#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;

using Limits = BadInput;
using SpecialFiles = BadInput;

TEST_F(Limits, NumbersThatNobodyMeans) {
  refused(2, train("--lora_rank 1000000"), {"lora_rank must be at most 16384, not 1000000"});
  refused(2, train("--lora_rank_groups '.*=1000000'"), {"lora_rank_groups", "at most 16384"});
  refused(2, train("--height 1000000 --width 64"), {"height must be at most 16384, not 1000000"});
  refused(2, train("--height 64 --width 1000000"), {"width must be at most 16384"});
  refused(2, train("--max_pixels 1000000000"), {"max_pixels must be at most 268435456"});
  refused(2, train("--max_sequence_length 100000"), {"max_sequence_length must be at most 4096, not 100000"});
  refused(2, train("--max_token_length 75000"), {"max_token_length must be at most 4096"});
  refused(2, train("--num_threads 100000"), {"num_threads must be at most 1024, not 100000"});
  refused(2, train("--max_steps 9223372036854775807"), {"max_steps must be at most 1000000000000"});
  refused(2, train("--max_steps 1000000000000 --gradient_accumulation_steps 1000000 --batch_size 1000"),
          {"more samples than can be counted"});
  refused(2, train("--batch_size 1000000000000000000"), {"batch_size must be at most 1000000, not 1000000000000000000"});
  refused(2, train("--global_batch_size 9223372036854775807"), {"global_batch_size must be at most 1000000"});
  refused(2, train("--random_flip true --cache_variants 1000000000000000000"), {"cache_variants must be at most 10000"});
  refused(2, train("--blocks_to_swap 9223372036854775807"), {"blocks_to_swap must be at most 1000000"});
  refused(2, train("--num_processes 1000000000000000000"), {"num_processes must be at most 1000000"});
  refused(2, train("--vae_tile_size 1000000000000000000"), {"vae_tile_size must be at most 16384"});
  refused(2, train("--gradient_accumulation_steps 9223372036854775807"), {"gradient_accumulation_steps must be at most 1000000"});
  refused(2, train("--max_steps 0 --num_epochs 9223372036854775807"), {"num_epochs must be at most 1000000"});
  refused(2, train("--dataset_repeat 9223372036854775807"), {"9.22337e+18 repeats make of 4 samples more than", "dataset_repeat"});
}

TEST_F(Limits, PlanningTakesNoLongerForManyBatchesAStep) {
  auto outcome = run_burnish("plan " + golden_model() + golden_data() + "--max_steps 1 --gradient_accumulation_steps 1000000",
                             "BURNISH_LOG=error timeout 600");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(Limits, ExpressionsEndOrAreRefused) {
  refused(2, train("--lora_target_modules '(.*)*(.*)*(.*)*nosuch'"), {"matches none of the"});
  refused(2, train("--lora_target_modules '(to_q'"), {"'(to_q' is neither a name nor a regular expression"});
  refused(2, train("--lora_rank_groups '(.*)*(.*)*(.*)*nosuch=4'"), {"fits nothing that trains"});
}

TEST_F(Limits, OfDrawing) {
  refused(2, sample("--height 1000000"), {"height must be at most 16384"});
  refused(2, sample("--num_inference_steps 1000000000"), {"num_inference_steps must be at most 10000"});
  refused(2, sample("--num_images 1000000000000"), {"num_images must be at most 1000000"});
  refused(2, sample("--num_threads 100000"), {"num_threads must be at most 1024"});
  write("prompts.txt", "a cat --w 1000000\n");
  refused(3, sample("--prompts " + quoted(at("prompts.txt"))), {"prompts.txt line 1: --w must be at most 16384, not 1000000"});
}

TEST_F(SpecialFiles, PipesDevicesAndLoopsAreNoInput) {
  auto pipe = at("pipe.csv"), loop = at("loop.csv"), picture_pipe = at("pipe.png"), model_pipe = at("pipe.safetensors");
  for (const auto& path : {pipe, picture_pipe, model_pipe}) ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  fs::create_symlink(at("loop.csv"), at("other.csv"));
  fs::create_symlink(at("other.csv"), loop);
  auto metadata = [&](const fs::path& path) { return train("--dataset_metadata_path " + quoted(path)); };
  refused(3, metadata(pipe), {"pipe.csv", "a pipe, a socket or a device, not a regular file"});
  refused(3, metadata("/dev/zero"), {"/dev/zero", "not a regular file"});
  refused(3, metadata(loop), {"loop.csv", "Too many levels of symbolic links"});
  auto with_picture = [&](const fs::path& path) { return metadata(write("one.csv", "image,prompt\n" + path.string() + ",a cat\n")); };
  refused(3, with_picture(picture_pipe), {"pipe.png", "not a regular file"});
  refused(3, with_picture("/dev/zero"), {"/dev/zero", "not a regular file"});
  refused(3, with_picture(loop), {"loop.csv does not exist"});
  auto with_model = [&](const fs::path& path) { return train_with("--model " + quoted(path) + " " + golden_data(), ""); };
  refused(3, with_model(model_pipe), {"pipe.safetensors", "not a regular file"});
  refused(3, with_model(loop), {"loop.csv' does not exist"});
  refused(3, train_with("--model '' " + golden_data(), ""), {"model '' does not exist"});
  refused(3, sample("--prompts " + quoted(pipe)), {"pipe.csv", "not a regular file"});
  for (const auto& path : {pipe, fs::path("/dev/zero"), folder_ / ""})
    refused(3, train("--config " + quoted(path)), {"[config] cannot read " + path.string(), "not a regular file"});
  refused(3, train("--config " + quoted(loop)), {"loop.csv", "Too many levels of symbolic links"});
}
