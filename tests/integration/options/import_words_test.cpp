// What `burnish import` says before a run: what it would refuse, and what was not read.
#include "tests/integration/options/import_verb.h"

using namespace burnish;
using namespace burnish::test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ImportVerb, ItsLastWordIsThatOfTrain) {
  const auto said = import_file("config.json",
                                R"({"model_family": "flux", "model_type": "lora", "peft_lora_target_modules": ["no_such_layer"],
      "pretrained_model_name_or_path": ")" +
                                    (kGolden / "model").string() + R"(", "optimizer": "adamw_bf16", "max_train_steps": 4,
      "data_backend_config": "data.json"})",
                                "");
  EXPECT_THAT(said, HasSubstr("before it trains: no data given"));
  write("data.json", R"([{"id": "a", "type": "local", "instance_data_dir": ")" + pictures() + R"(", "caption_strategy": "textfile"}])");
  EXPECT_THAT(import_file("config.json", read_file(at("config.json")), "--overwrite"),
              HasSubstr("before it trains: lora_target_modules 'no_such_layer' matches none of the"));
  const auto train =
      run_burnish("train --config " + quoted(at("run.toml")) + " " + tokenizers() + "--device cpu --output_path " + quoted(out()));
  EXPECT_THAT(train.output, HasSubstr("lora_target_modules 'no_such_layer' matches none of the"));
}

TEST_F(ImportVerb, WhatIsNotWhollyReadIsNotWrittenAsTrainingOfAllWeights) {
  const std::string command = "accelerate launch sdxl_train_network.py --pretrained_model_name_or_path=sdxl.safetensors ";
  refused(3, "import " + quoted(write("a.sh", command + "--learning_rate 3e-4 $EXTRA_ARGS\n")) + " --output " + quoted(at("run.toml")),
          {"names no network", "$EXTRA_ARGS was not read"});
  refused(3, "import " + quoted(write("b.sh", command + "--config_file settings.toml\n")) + " --output " + quoted(at("run.toml")),
          {"begins from the settings in settings.toml, which is not there", "burnish import settings.toml"});
  EXPECT_FALSE(fs::exists(at("run.toml")));
  write("settings.toml", "network_module = 'networks.lora'\nnetwork_dim = 12\ntrain_data_dir = '" + pictures() + "'\n");
  import_file("b.sh", command + "--config_file settings.toml --max_train_steps 50\n");
  EXPECT_THAT(toml(), AllOf(HasSubstr("lora_rank = 12"), HasSubstr("max_steps = 50"), Not(HasSubstr("trainable_models"))));
}
