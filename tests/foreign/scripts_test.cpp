// Scripts that set variables of their own.
#include <gmock/gmock.h>

#include "foreign/settings.h"
#include "tests/scratch.h"

using namespace burnish;
using foreign::parse_command_line;
using foreign::Value;
using ::testing::HasSubstr;

namespace {

Value batch(const std::string& text) { return parse_command_line(text, /*is_batch_file=*/true); }

}  // namespace

TEST(Scripts, VariablesOfAShell) {
  auto settings = parse_command_line(
      "#!/bin/bash\n"
      "export MODEL=/models/sd\n"
      "NAME='my cat'  # its name\n"
      "RATE=1e-4; STEPS=500\n"
      "OUT=\"$HOME/runs/${NAME}\"\n"
      "EXTRA=\"--a 1 --b 2\"\n"
      "accelerate launch --num_processes=${GPUS:-2} train_network.py \\\n"
      "  --pretrained_model_name_or_path=\"$MODEL/x.safetensors\" --output_name \"$NAME\" \\\n"
      "  --learning_rate $RATE --max_train_steps=${STEPS} --output_dir \"$OUT\" \\\n"
      "  $EXTRA --single '$NAME' --escaped \"\\$NAME\" --unset $NOT_SET --logging_dir \"${LOGS:-\"logs\"}\" 2>&1 | tee log.txt\n");
  EXPECT_EQ(settings, Value::parse(R"({"script": "train_network.py", "launch": {"num_processes": "2"},
      "pretrained_model_name_or_path": "/models/sd/x.safetensors", "output_name": "my cat", "learning_rate": "1e-4",
      "max_train_steps": "500", "output_dir": "$HOME/runs/my cat", "a": "1", "b": "2", "single": "$NAME", "escaped": "$NAME",
      "unset": "$NOT_SET", "logging_dir": "logs", "unread": ["$HOME", "$NOT_SET"]})"));
}

TEST(Scripts, ArraysOfAShell) {
  EXPECT_EQ(parse_command_line("ARGS=(\n  --dim 16   # rank\n  --name \"two words\"\n)\nARGS+=(--flag)\nNONE=()\n"
                               "python train.py \"${ARGS[@]}\" ${NONE[@]} \"${NONE[@]}\" --last 1\n"),
            Value::parse(R"({"script": "train.py", "dim": "16", "name": "two words", "flag": true, "last": "1"})"));
}

TEST(Scripts, ValuesThatGrow) {
  EXPECT_EQ(parse_command_line("A=x\nA=$A/y\nA+=z\npython train.py --a $A\n")["a"], "x/yz");
  std::string bomb = "A=xxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) bomb += "A=$A$A\n";
  EXPECT_THAT(test::error_of([&] { parse_command_line(bomb + "python train.py --a $A\n"); }), HasSubstr("variables grow beyond"));
  bomb = "set A=xxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) bomb += "set A=%A%%A%\n";
  EXPECT_THAT(test::error_of([&] { batch(bomb + "python train.py --a %A%\n"); }), HasSubstr("variables grow beyond"));
}

TEST(Scripts, BranchesThatTheScriptsOwnVariablesChoose) {
  const std::string script =
      "args=()\nif [[ $multi == 1 ]]; then\n  args+=(--multi_gpu)\nelse\n  args+=(--single)\nfi\n"
      "if [ \"$lowram\" = \"1\" ]; then args+=(--lowram); elif [ $rank -gt 8 ]; then args+=(--large); fi\n"
      "[ -n \"$name\" ] && args+=(\"--output_name=$name\")\n[[ $multi != 1 ]] || args+=(--two)\n"
      "python train.py --dim $rank ${args[@]}\n";
  EXPECT_EQ(parse_command_line("multi=1\nlowram=0\nrank=16\nname=cat\n" + script),
            Value::parse(R"({"script": "train.py", "dim": "16", "multi_gpu": true, "large": true, "output_name": "cat", "two": true})"));
  EXPECT_EQ(parse_command_line("multi=0\nlowram=1\nrank=4\nname=\n" + script),
            Value::parse(R"({"script": "train.py", "dim": "4", "single": true, "lowram": true})"));
  // What others answer: the command counts, and what would be set does not.
  EXPECT_EQ(parse_command_line("A=1\nif [ -d venv ]; then\n  A=2\n  python train.py --a $A\nfi\n"),
            Value::parse(R"({"script": "train.py", "a": "1"})"));
}

TEST(Scripts, VariablesOfABatchFile) {
  auto settings = batch(
      "@echo off\r\nrem set MODEL=other\r\n:: a comment\r\nsetlocal enabledelayedexpansion\r\n"
      "set MODEL=C:\\my models\\sd.safetensors\r\nset \"OUT=D:\\out\\\" \r\nSET rate=1e-4\r\nset QUOTED=\"C:\\a b\"\r\nset SHARE=50%%\r\n"
      "set ARGS=--dim 16\r\nset ARGS=%ARGS% --flag\r\ncall venv\\Scripts\\activate.bat\r\n"
      "accelerate launch --num_processes 1 ^\r\n  train_network.py ^\r\n  --pretrained_model_name_or_path=\"%MODEL%\" ^\r\n"
      "  --output_dir \"%out%\" --learning_rate %RATE% --quoted %QUOTED% %ARGS% ^\r\n"
      "  --delayed !RATE! --share %SHARE% --name Tom's --unset %NOT_SET% > log.txt 2>&1\r\npause\r\n");
  EXPECT_EQ(settings, Value::parse(R"({"script": "train_network.py", "launch": {"num_processes": "1"},
      "pretrained_model_name_or_path": "C:\\my models\\sd.safetensors", "output_dir": "D:\\out\\", "learning_rate": "1e-4",
      "quoted": "C:\\a b", "dim": "16", "flag": true, "delayed": "1e-4", "share": "50%", "name": "Tom's", "unset": "%NOT_SET%", "unread": ["%NOT_SET%"]})"));
}

TEST(Scripts, BranchesOfABatchFile) {
  const std::string script =
      "if \"%multi%\"==\"1\" (\n  set ARGS=--multi_gpu\n) else (\n  set ARGS=--single\n)\n"
      "if /i %kind%==SDXL (set SCRIPT=sdxl_train_network.py) else (set SCRIPT=train_network.py)\n"
      "if not defined NAME set NAME=none\nif exist venv (\n  call venv\n)\npython %SCRIPT% %ARGS% --name %NAME%\n";
  EXPECT_EQ(batch("set multi=1\nset kind=sdxl\nset NAME=cat\n" + script),
            Value::parse(R"({"script": "sdxl_train_network.py", "multi_gpu": true, "name": "cat"})"));
  EXPECT_EQ(batch("set multi=0\nset kind=sd\nset NAME=cat\n" + script),
            Value::parse(R"({"script": "train_network.py", "single": true, "name": "cat"})"));
}

TEST(Scripts, ABatchFileIsToldByItsNameOrItsCommands) {
  test::Scratch scratch;
  const std::string text = "python train.py --name Tom's ^\n --path \"C:\\a\\\" --b 1\n";
  auto expected = Value::parse(R"({"script": "train.py", "name": "Tom's", "path": "C:\\a\\", "b": "1"})");
  EXPECT_EQ(foreign::read_settings_file(scratch.write("run.bat", text)), expected);
  EXPECT_EQ(foreign::read_settings_file(scratch.write("run.cmd", text)), expected);
  EXPECT_EQ(parse_command_line("set X=1\n" + text), expected);
}

TEST(Scripts, TheCommandThatTrainsIsTaken) {
  EXPECT_EQ(parse_command_line("DIT=d\npython cache_latents.py --vae v\npython cache_text_encoder_outputs.py --x 1\n"
                               "accelerate launch src/zimage_train_network.py --dit $DIT\n"),
            Value::parse(R"({"script": "zimage_train_network.py", "dit": "d"})"));
  EXPECT_EQ(parse_command_line("cd sd-scripts && python train_network.py --a 1 && echo --done\n"),
            Value::parse(R"({"script": "train_network.py", "a": "1"})"));
}
