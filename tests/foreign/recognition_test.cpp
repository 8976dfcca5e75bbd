// Whose settings a file has, what of them was not read, and the files that they name.
#include <gmock/gmock.h>

#include "base/error.h"
#include "foreign/import.h"
#include "tests/foreign/run_options.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::RunOptions;
using test::Scratch;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

namespace {

class Recognition : public testing::Test {
 protected:
  struct Done {
    std::string program;
    foreign::Import said;
    std::map<std::string, std::string> values;
  };
  Done import(const std::string& name, const std::string& text, const std::string& from = "") {
    RunOptions run;
    auto [program, said] = foreign::import_settings(scratch_.write(name, text), from, run.fields, scratch_ / "run.toml");
    return {program, said, run.values()};
  }
  std::string program(const std::string& name, const std::string& text) { return import(name, text).program; }
  std::string refusal(const std::string& name, const std::string& text) {
    return error_of([&] { import(name, text); });
  }

  Scratch scratch_;
};

const std::string kXl = "accelerate launch sdxl_train_network.py --pretrained_model_name_or_path=sdxl.safetensors ";

}  // namespace

TEST_F(Recognition, ACommandsFileOfSettingsIsReadAndTheCommandCountsMore) {
  scratch_.write("settings.toml",
                 "[model]\npretrained_model_name_or_path = 'sdxl.safetensors'\n[z]\nnetwork_module = 'networks.lora'\nnetwork_dim = 12\n"
                 "learning_rate = 3e-4\nmax_train_steps = 9\n");
  for (const char* file : {"settings.toml", "settings"}) {  // sd-scripts adds the ending
    auto done = import("run.sh", "accelerate launch sdxl_train_network.py --config_file " + std::string(file) + " --max_train_steps 50\n");
    EXPECT_EQ(done.values["lora_rank"] + " " + done.values["learning_rate"] + " " + done.values["max_steps"], "12 0.0003 50");
    EXPECT_EQ(done.values["trainable_models"], "\"\"");
    EXPECT_THAT(done.said.needless, Not(Contains("config_file")));
  }
  EXPECT_THAT(refusal("other.sh", "python sdxl_train_network.py --config_file nowhere.toml\n"),
              AllOf(HasSubstr("begins from the settings in nowhere.toml, which is not there"), HasSubstr("burnish import nowhere.toml")));
}

TEST_F(Recognition, ACommandThatIsAFileOfSettingsIsThatFile) {
  scratch_.write("cat.yaml", "config: {name: cat, process: [{type: sd_trainer, network: {type: lora, linear: 7}, model: {arch: flux}}]}\n");
  auto positional = import("a.sh", "python run.py cat.yaml\n");
  EXPECT_EQ(positional.program + " " + positional.values["lora_rank"], "ai-toolkit 7");
  scratch_.write("pipe.toml", "[model]\ntype = 'flux'\n[adapter]\ntype = 'lora'\nrank = 5\n[optimizer]\ntype = 'adamw'\n");
  auto pipe = import("b.sh", "NCCL_P2P_DISABLE=1 deepspeed --num_gpus=1 train.py --deepspeed --config pipe.toml\n");
  EXPECT_EQ(pipe.program + " " + pipe.values["lora_rank"], "diffusion-pipe 5");
  EXPECT_THAT(pipe.said.not_carried, Contains(HasSubstr("--deepspeed")));
}

TEST_F(Recognition, WhatOfACommandWasNotReadIsTold) {
  const std::string network = "--network_module networks.lora ";
  auto done = import("run.sh", kXl + network + "--learning_rate 3e-4 $EXTRA_ARGS --output_name '$5 and $NAME' \"$@\" @more\n");
  for (const char* word : {"$EXTRA_ARGS: is set elsewhere", "$@: is set elsewhere", "@more: is set elsewhere"})
    EXPECT_THAT(done.said.not_carried, Contains(HasSubstr(word)));
  EXPECT_THAT(done.said.not_carried, Not(Contains(StartsWith("$NAME"))));
  EXPECT_EQ(done.values["learning_rate"], "0.0003");
  EXPECT_EQ(done.values["output_name"], "\"$5 and $NAME\"");
  EXPECT_THAT(import("b.sh", "python train_network.py words " + network + "--pretrained_model_name_or_path x\n").said.not_carried,
              Contains("words: was not read, for it is no option's value"));
  EXPECT_THAT(import("c.bat", "python train_network.py " + network + "--pretrained_model_name_or_path x %MORE%\n").said.not_carried,
              Contains(HasSubstr("%MORE%: is set elsewhere")));
  EXPECT_THAT(import("config.env", "MODEL_FAMILY=flux\nMODEL_TYPE=lora\nA=1\nTRAINER_EXTRA_ARGS=\"--lora_rank $B\"\n").said.not_carried,
              Contains(HasSubstr("$B: is set elsewhere")));
}

TEST_F(Recognition, AllWeightsDoNotTrainBecauseNoNetworkWasSeen) {
  EXPECT_THAT(refusal("a.sh", kXl + "--learning_rate 3e-4 $EXTRA_ARGS\n"),
              AllOf(HasSubstr("names no network"), HasSubstr("$EXTRA_ARGS was not read")));
  EXPECT_THAT(refusal("b.sh", kXl + "--learning_rate 3e-4\n"), HasSubstr("script sdxl_train_network.py is of one"));
  EXPECT_THAT(refusal("c.toml", "pretrained_model_name_or_path = 'x'\nnetwork_dim = 8\n"), HasSubstr("network_dim 8 is of one"));
  EXPECT_THAT(refusal("d.sh", "python wan_train_network.py --task t2v-A14B --dit x.safetensors\n"),
              HasSubstr("script wan_train_network.py is of one"));
  // Scripts that train a model itself say so.
  EXPECT_EQ(import("e.sh", "python sdxl_train.py --pretrained_model_name_or_path x $MORE\n").values["trainable_models"], "\"unet\"");
  EXPECT_EQ(import("f.sh", "python zimage_train.py --dit x $MORE\n").values["trainable_models"], "\"dit\"");
  EXPECT_EQ(import("g.toml", "pretrained_model_name_or_path = 'x'\ntrain_data_dir = 'P'\n").values["trainable_models"], "\"unet\"");
}

TEST_F(Recognition, ProgramsAreToldByWhatTheyAloneHave) {
  const std::string wan = "accelerate launch wan_train_network.py --task t2v-A14B --dit x --network_module networks.lora_wan\n";
  EXPECT_EQ(program("a.sh", wan), "musubi-tuner");
  auto settings =
      import("b.toml", "[optimizer]\nlearning_rate = 3e-4\n[network]\nnetwork_module = 'networks.lora_wan'\nnetwork_dim = 16\n");
  EXPECT_EQ(settings.program + " " + settings.values["lora_rank"] + " " + settings.values["learning_rate"], "musubi-tuner 16 0.0003");
  EXPECT_EQ(program("c.toml", "network_module = 'networks.lora_anima'\n"), "kohya sd-scripts");
  EXPECT_EQ(program("h.toml", "network_module = 'networks.lora_flux'\ndit = 'x'\n"), "musubi-tuner");
  EXPECT_EQ(program("d.toml", "network_module = 'networks.lora'\npretrained_model_name_or_path = 'x'\n"), "kohya sd-scripts");
  EXPECT_EQ(program("e.toml", "instance_prompt = 'a cat'\ninstance_data_dir = 'x'\n"), "diffusers' training scripts");
  EXPECT_THAT(refusal("f.toml", "network_module = 'networks.lora'\nnetwork_dim = 4\n"),
              AllOf(HasSubstr("may be of musubi-tuner or of kohya sd-scripts"), HasSubstr("--from musubi|kohya")));
  EXPECT_EQ(import("f.toml", "network_module = 'networks.lora'\nnetwork_dim = 4\n", "kohya").values["lora_rank"], "4");
}

TEST_F(Recognition, DiffSynthStudiosCommandsAreRunAsTheyAre) {
  EXPECT_THAT(refusal("a.sh",
                      "accelerate launch examples/flux/model_training/train.py --dataset_base_path x --dataset_metadata_path x/m.csv "
                      "--model_id_with_origin_paths \"a/b:c.safetensors\" --lora_rank 8\n"),
              AllOf(HasSubstr("is a command of DiffSynth-Studio"), HasSubstr("put `burnish train` in place of")));
}
