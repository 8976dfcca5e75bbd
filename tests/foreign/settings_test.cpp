#include "foreign/settings.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "foreign/import.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// Options of the kinds there are, called as a run's are.
struct Options {
  std::vector<std::string> model;
  std::string dataset_metadata_path, output_path, optimizer;
  int64_t lora_rank = 0, max_steps = 0, num_epochs = 1;
  double learning_rate = 0;
  bool use_gradient_checkpointing = false;
};

config::Fields fields_of(Options& o) {
  config::Fields f;
  f.path("model", o.model, "");
  f.path("dataset_metadata_path", o.dataset_metadata_path, "");
  f.path("output_path", o.output_path, "");
  f("optimizer", o.optimizer, "");
  f("lora_rank", o.lora_rank, "");
  f("max_steps", o.max_steps, "");
  f("num_epochs", o.num_epochs, "");
  f("learning_rate", o.learning_rate, "");
  f("use_gradient_checkpointing", o.use_gradient_checkpointing, "");
  return f;
}

}  // namespace

TEST(ForeignSettings, CommandLinesOfEveryShell) {
  auto settings = foreign::parse_command_line(
      "#!/bin/bash\nexport A=1\naccelerate launch --num_processes 2 scripts/train_network.py \\\n  --network-dim=16 --name 'two words' \\\n"
      "  --network_args \"a=1\" \"b=2\" --flag # comment --not_this 1\necho --done 1\n");
  EXPECT_EQ(settings, foreign::parse_json(R"({"script": "train_network.py", "launch": {"num_processes": "2"}, "network_dim": "16",
            "name": "two words", "network_args": ["a=1", "b=2"], "flag": true})",
                                          "expected"));
  EXPECT_EQ(foreign::parse_command_line("python t.py `\r\n  --a 1 `\r\n  --b 2\r\n"),
            foreign::parse_command_line("python t.py --a 1 --b 2"));
  EXPECT_EQ(foreign::parse_command_line("t.py ^\n --a 1\n"), foreign::parse_command_line("t.py --a 1"));
  // As documents print it: an option at the start of a line belongs to the command above.
  EXPECT_EQ(foreign::parse_command_line("t.py \n --a 1\n --b\n"), foreign::parse_command_line("t.py --a 1 --b"));
}

TEST(ForeignSettings, YamlValuesAreThoseOfPython) {
  auto settings = foreign::parse_yaml("a: 1e-4\nb: 'no'\nc: no\nd: [1, 2.5, x]\ne: ~\nf: \"7\"\ng: 7\n", "x.yaml");
  EXPECT_EQ(settings["a"], 1e-4);
  EXPECT_EQ(settings["b"], "no");
  EXPECT_EQ(settings["c"], false);
  EXPECT_EQ(settings["d"], foreign::parse_json("[1, 2.5, \"x\"]", ""));
  EXPECT_TRUE(settings["e"].is_null());
  EXPECT_EQ(settings["f"], "7");
  EXPECT_EQ(settings["g"], 7);
}

TEST(ForeignSettings, DamagedFilesAreOneSentence) {
  EXPECT_THAT(error_of([] { foreign::parse_yaml("a: [1\nb: 2", "x.yaml"); }), HasSubstr("x.yaml line"));
  EXPECT_THAT(error_of([] { foreign::parse_toml("a = 1\nb = \n", "x.toml"); }), HasSubstr("x.toml line 2"));
  EXPECT_THAT(error_of([] { foreign::parse_json("{\"a\": ", "x.json"); }), HasSubstr("x.json is not valid JSON"));
  for (const char* windows : {"C:\\Users\\me", "D:\\data", "D:\\xyz"}) {
    auto quoted = '"' + std::string(windows) + '"';
    EXPECT_THAT(error_of([&] { foreign::parse_toml("a = " + quoted + "\n", "x.toml"); }), HasSubstr("write a path in single quotes"))
        << windows;
    EXPECT_THAT(error_of([&] { foreign::parse_yaml("a: " + quoted + "\n", "x.yaml"); }), HasSubstr("write a path in single quotes"))
        << windows;
    EXPECT_THAT(error_of([&] { foreign::parse_json("{\"a\": " + quoted + "}", "x.json"); }), HasSubstr("write a path with /")) << windows;
  }
  EXPECT_THAT(error_of([] { foreign::parse_json(std::string(200, '[') + std::string(200, ']'), "x.json"); }), HasSubstr("deeper than"));
  // Aliases of aliases: a few lines that would become 10^9 values.
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    std::string item = std::string("*") + static_cast<char>(c - 1);
    bomb += std::string(1, c) + ": &" + c + " [" + item;
    for (int i = 0; i < 9; ++i) bomb += "," + item;
    bomb += "]\n";
  }
  EXPECT_THAT(error_of([&] { foreign::parse_yaml(bomb, "x.yaml"); }), HasSubstr("more than settings hold"));
}

TEST(ForeignSettings, ATableCarriesConvertsAndTells) {
  foreign::Table table;
  table << foreign::same("dim", "lora_rank") << foreign::same("steps", "max_steps", "counts otherwise here");
  table << foreign::words("opt", "optimizer", {{"adamw", "adamw"}}, "no such optimizer", "AdamW");
  table << foreign::no_place("swap", "nothing is swapped") << foreign::needless("title", "says how a run is shown")
        << foreign::needless("log.a", "says how a run is shown");
  Options options;
  auto fields = fields_of(options);
  foreign::Import imported;
  auto tree = foreign::parse_json(R"({"dim": "16", "steps": 5, "swap": 3, "title": "x", "log": {"a": 1}, "odd": [1], "unset": null})", "");
  foreign::apply(table, foreign::Settings(tree), true, fields, imported);
  EXPECT_EQ(options.lora_rank, 16);
  EXPECT_EQ(options.max_steps, 5);
  EXPECT_EQ(options.optimizer, "adamw");  // its default
  EXPECT_THAT(imported.origins["optimizer"], ElementsAre("opt (its default)"));
  EXPECT_THAT(imported.different, ElementsAre("steps = 5: counts otherwise here"));
  EXPECT_THAT(imported.not_carried, ElementsAre("odd = [1]: not known here", "swap = 3: nothing is swapped"));
  EXPECT_THAT(imported.needless, ElementsAre("log.a", "title"));
}

TEST(ForeignSettings, WhatAsksForNothingIsNotTold) {
  foreign::Table table;
  for (const char* name : {"a", "b", "c", "d", "e"}) table << foreign::no_place(name, "why");
  Options options;
  auto fields = fields_of(options);
  foreign::Import imported;
  foreign::apply(table, foreign::Settings(foreign::parse_json(R"({"a": 0, "b": false, "c": "", "d": "none", "e": []})", "")), true, fields,
                 imported);
  EXPECT_THAT(imported.not_carried, ElementsAre());
}

TEST(ForeignSettings, AValueOfAnotherKindIsNotCarried) {
  foreign::Table table;
  table << foreign::same("dim", "lora_rank") << foreign::same("rate", "learning_rate") << foreign::same("on", "use_gradient_checkpointing");
  Options options;
  auto fields = fields_of(options);
  foreign::Import imported;
  foreign::apply(table, foreign::Settings(foreign::parse_json(R"({"dim": 1.5, "rate": "fast", "on": "maybe"})", "")), true, fields,
                 imported);
  EXPECT_EQ(imported.not_carried.size(), 3u);
  EXPECT_THAT(imported.not_carried, Contains("dim = 1.5: lora_rank takes another kind of value"));
  EXPECT_TRUE(imported.origins.empty());
}

TEST(ForeignSettings, AFileOfNoProgramIsRefused) {
  Scratch scratch;
  Options options;
  auto fields = fields_of(options);
  auto file = scratch.write("x.toml", "a = 1\n");
  EXPECT_THAT(error_of([&] { foreign::import_settings(file, "", fields); }), HasSubstr("--from simpletuner|diffusion-pipe|ai-toolkit"));
  EXPECT_THAT(error_of([&] { foreign::import_settings(file, "kohia", fields); }, Exit::config), HasSubstr("did you mean \"kohya\""));
  EXPECT_THAT(error_of([&] { foreign::import_settings(scratch / "none.toml", "", fields); }), HasSubstr("none.toml"));
}
