// Learning by scores beside plain torch with peft (tests/golden/make_nft.py), resumed in the middle of a round, and what fails.
#include <gmock/gmock.h>

#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;

namespace {

/// A program that scores pictures by how bright they are, from their bytes alone.
const char* const kBrightness = R"(import json, struct, sys, zlib

def pixels(path):
    data, at, packed = open(path, "rb").read(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR": width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT": packed += data[at + 8:at + 8 + size]
        at += size + 12
    raw, stride, all = zlib.decompress(packed), 3 * width, []
    above = bytes(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = line[i - 3] if i > 2 else 0, above[i], above[i - 3] if i > 2 else 0
            paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) % 256
        all += line
        above = line
    return all

pictures = json.loads(sys.stdin.readline())
print("looking at", len(pictures))
print(json.dumps([sum(values) / len(values) / 255 for values in (pixels(p["picture"]) for p in pictures)]))
)";

class Nft : public BadInput {
 protected:
  Nft() { write("score.py", kBrightness); }
  std::string command(const std::string& run, const std::string& options) const {
    return "train --task nft " + golden_model() + golden_data() + "--learning_rate 1e-3 " + options + option("output_path", at(run));
  }
  std::string scored() const {
    return "--lora_rank 2 --batch_size 4 --nft_round_steps 4 --nft_num_inference_steps 2 " +
           option("reward_program", "python3 " + at("score.py").string());
  }
  std::vector<nlohmann::json> train(const std::string& run, const std::string& options) const {
    auto out = run_burnish(command(run, options));
    EXPECT_EQ(out.exit_code, 0) << out.output;
    return read_log(at(run));
  }

  static double mean(const std::vector<nlohmann::json>& log, size_t first, size_t last, const char* name) {
    double sum = 0;
    for (auto i = first; i < last; ++i) sum += log.at(i).at(name).get<double>();
    return sum / static_cast<double>(last - first);
  }
};

}  // namespace

TEST_F(Nft, EqualsPlainTorch) {
  auto expected = golden("nft.safetensors");
  auto log = train("replayed", "--max_steps 10 --nft_round_steps 4 --nft_beta 0.5 --nft_kl_weight 0.01 --nft_old_decay_rise 0.1 " +
                                   option("replay", golden_path("nft.safetensors")) +
                                   option("lora_checkpoint", golden_path("pipeline/lora.safetensors")));
  ASSERT_EQ(log.size(), 10u);
  for (size_t i = 0; i < log.size(); ++i) {
    for (const char* name : {"loss", "grad_norm", "policy_loss", "kl_loss", "drift"}) {
      const auto theirs = expected.tensor(name)[static_cast<int64_t>(i)].item<double>();
      EXPECT_NEAR(log[i][name].get<double>(), theirs, 1e-5 * theirs) << name << " of step " << i;
    }
  }
}

TEST_F(Nft, GoesOnInTheMiddleOfARound) {
  train("whole", "--max_steps 10 " + scored());
  train("resumed", "--max_steps 6 " + scored());
  train("resumed", "--resume --max_steps 10 " + scored());
  EXPECT_TRUE(read_file(at("resumed/step-10.safetensors")) == read_file(at("whole/step-10.safetensors")));
}

TEST_F(Nft, TheScoreRises) {
  const auto log =
      train("bright", "--max_steps 48 " + scored() + "--batch_size 8 --lora_rank 8 --learning_rate 1e-2 --nft_advantage_clip 1 ");
  EXPECT_GT(mean(log, 32, 48, "reward"), mean(log, 0, 16, "reward") + 0.004);
  EXPECT_GT(log.back()["drift"].get<double>(), 0.1) << "and the log tells how far the model went for it";
  EXPECT_EQ(log.front()["drift"].get<double>(), 0);
}

TEST_F(Nft, JudgesScoreWithoutAProgram) {
  const auto clip = option("reward_model", golden_path("likeness/clip"));
  const auto log = train("judged", "--max_steps 2 --lora_rank 2 --nft_num_inference_steps 2 --reward prompt=2,likeness=0.5 " + clip);
  const auto& first = log.at(0);
  EXPECT_NEAR(first["reward"].get<double>(), 2 * first["reward_prompt"].get<double>() + 0.5 * first["reward_likeness"].get<double>(), 1e-6);
  EXPECT_GT(first["reward_spread"].get<double>(), 0);
  EXPECT_FALSE(fs::exists(at("judged/drawn"))) << "files are written for a program alone";
}

TEST_F(Nft, AProgramThatFailsLosesNothing) {
  const auto with = [&](const std::string& program, const std::string& more, const std::string& run = "bad") {
    return command(run, "--lora_rank 2 --batch_size 4 --nft_round_steps 4 --nft_num_inference_steps 1 --reward_timeout 5 " + more +
                            option("reward_program", program));
  };
  const auto score = "python3 " + at("score.py").string();
  expect_one_error(run_burnish(with("exit 3", "--max_steps 2 "), "BURNISH_LOG=error"), 3,
                   {"reward_program ended with exit code 3; run it"});
  expect_one_error(run_burnish(with("echo no >&2; exit 3", "--overwrite --max_steps 2 "), "BURNISH_LOG=error"), 3, {"said at last: no;"});
  expect_one_error(run_burnish(with("echo hello", "--overwrite --max_steps 2 "), "BURNISH_LOG=error"), 3,
                   {"was to print a JSON list of 16 numbers", "printed: hello"});
  expect_one_error(run_burnish(with("sleep 60", "--overwrite --reward_timeout 1 --max_steps 2 "), "BURNISH_LOG=error"), 3,
                   {"did not answer in 1 seconds"});
  // It scores the first round and fails at the second.
  const auto once = "test ! -e " + at("scored").string() + " && touch " + at("scored").string() + " && " + score;
  expect_one_error(run_burnish(with(once, "--overwrite --max_steps 8 "), "BURNISH_LOG=error"), 3,
                   {"everything up to step 4 is saved, go on with --resume"});
  auto resumed = run_burnish(with(score, "--resume --max_steps 8 "));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  auto whole = run_burnish(with(score, "--max_steps 8 ", "good"));
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_TRUE(read_file(at("bad/step-8.safetensors")) == read_file(at("good/step-8.safetensors")));
}

TEST_F(Nft, PromptsOfAFileNeedNoPictures) {
  const auto prompts = option("nft_prompts", write("prompts.txt", "a red cat\n# left out\n\na blue dog\n"));
  const auto run = "train --task nft " + golden_model() + "--height 48 --width 64 --max_steps 1 " + scored() + prompts;
  auto out = run_burnish(run + option("output_path", at("prompts")));
  ASSERT_EQ(out.exit_code, 0) << out.output;
  const auto asked = nlohmann::json::parse(read_file(at("prompts/drawn/asked.json")));
  ASSERT_EQ(asked.size(), 16u);
  EXPECT_EQ(asked[0]["prompt"] == "a red cat", asked[8]["prompt"] == "a blue dog") << asked;
  EXPECT_NE(asked[0]["prompt"], asked[8]["prompt"]);
  EXPECT_TRUE(fs::exists(asked[15]["picture"].get<std::string>()));
}

TEST_F(Nft, RefusesWhatItCannotHonour) {
  const auto with = [&](const std::string& more) { return train_with("--task nft " + golden_model() + golden_data(), more); };
  refused(2, with(""), {"nothing scores", "--reward_program"});
  refused(2, with("--reward prompt"), {"--reward_model"});
  refused(2, with("--reward beauty"), {"choose among likeness, prompt, program"});
  refused(2, with("--reward prompt=much --reward_model x"), {"behind = there must be a number"});
  refused(2, with("--reward program"), {"none is named"});
  refused(2, with("--reward prompt --reward_model " + quoted(fs::path(golden_path("likeness/dino")))), {"takes a CLIP too"});
  refused(2, with("--reward_program true --loss_type huber"), {"take loss_type huber out"});
  refused(2, with("--reward_program true --latents sample"), {"latents sample"});
  refused(2, with("--reward_program true --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv")), {"reward and drift"});
  refused(2, with("--reward_program true --nft_prompts " + quoted(write("prompts.txt", "a cat"))), {"without pictures"});
  refused(2, with("--reward_program true --nft_beta 0"), {"above 0"});
  refused(2, with("--reward_program true --trainable_models dit"), {"train an adapter"});
  refused(2,
          "train --task nft " + sd_model("sdxl_pipeline") + sd_data("sdxl_pipeline") +
              "--lora_rank 2 --reward_program true --output_path " + quoted(out()),
          {"learns along flows"});
}

TEST_F(Nft, ThePlanCountsItsPasses) {
  auto out = run_burnish("plan --graph --task nft --reward_program true --lora_rank 2 " + golden_model() + golden_data());
  ASSERT_EQ(out.exit_code, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("dit.body 2 (1 with gradients); and one without gradients"));
}
