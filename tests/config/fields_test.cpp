#include <gmock/gmock.h>

#include <limits>
#include <memory>

#include "base/error.h"
#include "config/command_line.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

namespace {

struct SomeOptions {
  std::string dtype = "bf16";
  int64_t max_steps = 100;
  double learning_rate = 1e-4;
  bool shuffle = false;
  std::vector<std::string> model = {"default"}, size = {};
};

config::Fields fields_of_some(SomeOptions& o) {
  config::Fields f;
  f.group("Model");
  f("model", o.model, "a folder or a file; repeatable", {"model_paths"});
  f("dtype", o.dtype, "fp32 or bf16");
  f.group("Training");
  f("max_steps", o.max_steps, "steps to do", {"num_steps"});
  f("learning_rate", o.learning_rate, "of the optimizer");
  f("shuffle", o.shuffle, "in another order each epoch");
  f.numbers("size", o.size, "in pixels");
  return f;
}

SomeOptions parse(const std::vector<std::string>& args) {
  SomeOptions o;
  config::read_command_line("train", "trains", args, fields_of_some(o));
  return o;
}

std::string refusal(const std::vector<std::string>& args) {
  return error_of([&] { parse(args); }, Exit::config);
}

std::string toml_refusal(const std::string& text, Exit code = Exit::config) {
  Scratch scratch;
  return error_of([&] { parse({"--config", scratch.write("run.toml", text).string()}); }, code);
}

}  // namespace

TEST(CommandLine, EveryKindOfOption) {
  auto o = parse({"--dtype", "fp32", "--max_steps=7", "--learning_rate", "3e-5", "--shuffle", "--model", "a", "--model=b"});
  EXPECT_EQ(o.dtype, "fp32");
  EXPECT_EQ(o.max_steps, 7);
  EXPECT_EQ(o.learning_rate, 3e-5);
  EXPECT_TRUE(o.shuffle);
  EXPECT_THAT(o.model, ElementsAre("a", "b"));
  EXPECT_THAT(parse({}).model, ElementsAre("default"));
}

TEST(CommandLine, DashesAndAliasesWork) {
  EXPECT_EQ(parse({"--max-steps", "7"}).max_steps, 7);
  EXPECT_EQ(parse({"--num_steps", "8"}).max_steps, 8);
  EXPECT_EQ(parse({"--num-steps=9"}).max_steps, 9);
  EXPECT_THAT(parse({"--model-paths", "x"}).model, ElementsAre("x"));
}

TEST(CommandLine, NegativeNumbersAndFlagsWithAValue) {
  EXPECT_EQ(parse({"--max_steps", "-5"}).max_steps, -5);
  EXPECT_EQ(parse({"--max_steps=-5"}).max_steps, -5);
  EXPECT_EQ(parse({"--learning_rate", "-1e-3"}).learning_rate, -1e-3);
  EXPECT_FALSE(parse({"--shuffle=false"}).shuffle);
  EXPECT_FALSE(parse({"--shuffle", "false"}).shuffle);
  EXPECT_TRUE(parse({"--shuffle", "--max_steps", "3"}).shuffle);
}

TEST(CommandLine, TheLastValueCounts) { EXPECT_EQ(parse({"--max_steps", "1", "--max-steps", "2"}).max_steps, 2); }

TEST(CommandLine, UnknownOptionsNameTheNearest) {
  EXPECT_THAT(refusal({"--max_step", "7"}), AllOf(HasSubstr("'max_step' is not known"), HasSubstr("did you mean 'max_steps'?")));
  EXPECT_THAT(refusal({"--learning-rat=7"}), HasSubstr("did you mean 'learning_rate'?"));
  EXPECT_THAT(refusal({"--zzz"}), AllOf(HasSubstr("'zzz' is not known"), HasSubstr("--help"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(refusal({"stray"}), HasSubstr("'stray' belongs to no option"));
  EXPECT_THAT(refusal({"--dtype", "fp32", "--", "--max_steps"}), HasSubstr("is not known"));
}

TEST(CommandLine, ALoneTomlFileIsThatOfConfig) {
  Scratch scratch;
  auto file = scratch.write("run.toml", "max_steps = 7\ndtype = 'fp16'\nmodel = ['c']\n").string();
  for (const auto& args : {std::vector<std::string>{file, "--dtype", "fp32", "--model", "a"}, {"--model", "a", "--dtype", "fp32", file}}) {
    auto o = parse(args);
    EXPECT_EQ(o.max_steps, 7);
    EXPECT_EQ(o.dtype, "fp32");
    EXPECT_THAT(o.model, ElementsAre("a"));
  }
  EXPECT_THAT(refusal({"--config", file, "other.toml"}), HasSubstr("'other.toml' belongs to no option"));
  EXPECT_THAT(refusal({file, "other.toml"}), HasSubstr("belongs to no option"));
  EXPECT_THAT(error_of([] { parse({"missing.toml"}); }), HasSubstr("cannot read missing.toml"));
}

TEST(CommandLine, AFileActsOutsideOnlyWhereItIsTrusted) {
  std::string command;
  bool is_trusted = false;
  int64_t steps = 0;
  config::Fields f;
  f("steps", steps, "steps to do");
  f("on_end", command, "run at the end").acts_outside();
  f("trust_settings", is_trusted, "let a file name on_end").acts_outside();
  auto parse = [&](const std::vector<std::string>& args) {
    command.clear();
    config::read_command_line("train", "trains", args, f);
    return command;
  };
  Scratch scratch;
  const auto file = scratch.write("run.toml", "steps = 7\non_end = 'rm -r ~'\n").string();
  EXPECT_THAT(error_of([&] { parse({file}); }, Exit::config),
              AllOf(HasSubstr("on_end in a settings file"), HasSubstr("--trust_settings"), HasSubstr("--on_end")));
  EXPECT_EQ(command, "");
  EXPECT_THROW(parse({"--config", file, "--on_end", "ls"}), Error) << "whoever wrote the file may have meant harm";
  EXPECT_EQ(parse({file, "--trust-settings"}), "rm -r ~");
  EXPECT_EQ(parse({"--on_end", "ls"}), "ls");
  const auto other = scratch.write("other.toml", "trust_settings = true\non_end = 'rm -r ~'\n").string();
  EXPECT_THROW(parse({other}), Error) << "no file says that it is to be trusted";
  EXPECT_THROW(config::read_toml_text("on_end = 'ls'", f), Error);
  steps = 7;
  EXPECT_EQ(config::to_toml(f), "steps = 7  # steps to do\n") << "what is passed on does nothing to others";
}

TEST(CommandLine, AWholeNumberThatTomlWritesIsANumberHoweverLarge) {
  Scratch scratch;
  auto rate = [&](const std::string& number) {
    double learning_rate = 0;
    config::Fields fields;
    fields("learning_rate", learning_rate, "");
    config::read_toml(scratch.write("run.toml", "learning_rate = " + number + "\n").string(), fields);
    return learning_rate;
  };
  EXPECT_EQ(rate("3"), 3.0);
  EXPECT_EQ(rate("1000000000000000001"), 1e18) << "beyond 2^53 not every whole number is one";
}

TEST(CommandLine, ValuesOfTheWrongKind) {
  EXPECT_THAT(refusal({"--max_steps", "many"}), HasSubstr("] max_steps must be a whole number of 64 bits, not 'many'"));
  EXPECT_THAT(refusal({"--max_steps", "2.5"}), HasSubstr("max_steps"));
  EXPECT_THAT(refusal({"--max_steps", "99999999999999999999"}), HasSubstr("max_steps"));
  EXPECT_THAT(refusal({"--learning_rate", "fast"}), HasSubstr("] learning_rate must be a number, not 'fast'"));
  EXPECT_THAT(refusal({"--learning_rate", ""}), HasSubstr("learning_rate must be a number, not ''"));
  EXPECT_THAT(refusal({"--shuffle=maybe"}), HasSubstr("] shuffle must be true or false, not 'maybe'"));
  EXPECT_THAT(refusal({"--max_steps"}), HasSubstr("] --max_steps needs a value"));
  EXPECT_THAT(refusal({"--config"}), HasSubstr("] --config needs a value"));
  EXPECT_THAT(refusal({"--dtype", "--max-steps", "4"}), HasSubstr("--dtype needs a value, and the option --max-steps follows"));
  EXPECT_EQ(parse({"--dtype", "--mine"}).dtype, "--mine") << "no option's name";
}

TEST(CommandLine, AListTakesOneValueAfterEachName) {
  EXPECT_THAT(parse({"--model", "a", "--model", "b"}).model, ElementsAre("a", "b"));
  EXPECT_THAT(refusal({"--model", "a", "cat"}), AllOf(HasSubstr("'cat' belongs to no option"), HasSubstr("quotes")));
  EXPECT_THAT(refusal({"--size", "32", "64"}), HasSubstr("'64' belongs to no option"));
}

TEST(CommandLine, TextsThatAreNotUtf8AreRefused) {
  EXPECT_THAT(refusal({"--dtype", "caf\xe9"}), HasSubstr("the value of dtype is not UTF-8"));
  EXPECT_THAT(refusal({"--model", "caf\xc3\xa9", "--model=caf\xe9"}), HasSubstr("the value of model is not UTF-8"));
}

TEST(CommandLine, HelpNamesAliases) {
  SomeOptions o;
  auto parsed = config::read_command_line("train", "trains", {"--help"}, fields_of_some(o));
  EXPECT_THAT(parsed.help_text, HasSubstr("  --max_steps, --num_steps "));
}

TEST(CommandLine, HelpListsEveryOptionWithItsDefault) {
  SomeOptions o;
  auto parsed = config::read_command_line("train", "trains", {"--nonsense", "--help"}, fields_of_some(o));
  EXPECT_TRUE(parsed.help);
  for (const char* text :
       {"burnish train: trains", "--model, --model_paths ", "--max_steps", "[100]", "--learning_rate", "Training", "--shuffle"})
    EXPECT_THAT(parsed.help_text, HasSubstr(text));
}

TEST(Toml, FileThenCommandLine) {
  Scratch scratch;
  auto config = scratch.write("run.toml", "max-steps = 5\nlearning_rate = 1\nmodel = [\"a\", \"b\"]\nshuffle = true\n").string();
  auto o = parse({"--config", config});
  EXPECT_EQ(o.max_steps, 5);
  EXPECT_EQ(o.learning_rate, 1.0) << "a whole number is a number";
  EXPECT_THAT(o.model, ElementsAre("a", "b"));
  EXPECT_TRUE(o.shuffle);
  EXPECT_EQ(o.dtype, "bf16") << "what is nowhere keeps its default";

  o = parse({"--max_steps", "6", "--config=" + config, "--shuffle=false"});
  EXPECT_EQ(o.max_steps, 6) << "wherever --config stands";
  EXPECT_FALSE(o.shuffle);
}

TEST(Toml, AListOnTheCommandLineReplacesTheFiles) {
  Scratch scratch;
  auto config = scratch.write("run.toml", "model_paths = [\"a\", \"b\"]\n").string();
  for (const char* option : {"--model", "--model_paths", "--model-paths"})
    EXPECT_THAT(parse({"--config", config, option, "c"}).model, ElementsAre("c")) << option;
  EXPECT_THAT(parse({"--config", config, "--model=c", "--model=d"}).model, ElementsAre("c", "d"));
}

TEST(Toml, ValuesOfTheWrongKind) {
  EXPECT_THAT(toml_refusal("dtype = 'fp32'\nmax-steps = \"7\""), HasSubstr("run.toml line 2: 'max-steps' must be a whole number, not '7'"));
  EXPECT_THAT(toml_refusal("max_steps = 2.5"), HasSubstr("must be a whole number"));
  EXPECT_THAT(toml_refusal("max_steps = true"), HasSubstr("must be a whole number"));
  EXPECT_THAT(toml_refusal("max_steps = [1]"), HasSubstr("must be a whole number"));
  EXPECT_THAT(toml_refusal("learning_rate = \"1e-4\""), HasSubstr("'learning_rate' must be a number"));
  EXPECT_THAT(toml_refusal("shuffle = 1"), HasSubstr("'shuffle' must be true or false"));
  EXPECT_THAT(toml_refusal("dtype = 16"), HasSubstr("'dtype' must be a text"));
  EXPECT_THAT(toml_refusal("model = [1, 2]"), HasSubstr("'model' must be a list of texts"));
  EXPECT_THAT(toml_refusal("[model]\npath = \"a\""), HasSubstr("'model' must be a text or a list of texts"));
}

TEST(Toml, UnknownKeysAndSyntax) {
  EXPECT_THAT(toml_refusal("max_step = 7"), AllOf(HasSubstr("run.toml"), HasSubstr("'max_step' is not known; did you mean 'max_steps'?")));
  EXPECT_THAT(toml_refusal("max_steps = 7\ndtype = \n", Exit::data), AllOf(HasSubstr("run.toml line 2")));
  EXPECT_THAT(toml_refusal("max_steps = 7\nmax_steps = 8\n", Exit::data), HasSubstr("run.toml line 2"));
  EXPECT_THAT(error_of([] { parse({"--config", "/nowhere/run.toml"}); }, Exit::data), HasSubstr("cannot read /nowhere/run.toml"));
  EXPECT_THAT(error_of([] { parse({"--config", "/tmp"}); }, Exit::data), HasSubstr("cannot read /tmp"));
}

TEST(Toml, WhatIsWrittenReadsBack) {
  SomeOptions written{"a \"quoted\" \\ path\nand\ttab\r\x01\x7f 🦊 # no comment", -7, 0.1, true, {"x,y", "[z]", ""}};
  Scratch scratch;
  auto config = scratch.write("config.toml", config::to_toml(fields_of_some(written)));
  SomeOptions read;
  config::read_toml(config.string(), fields_of_some(read));
  EXPECT_EQ(read.dtype, written.dtype);
  EXPECT_EQ(read.max_steps, written.max_steps);
  EXPECT_EQ(read.learning_rate, written.learning_rate);
  EXPECT_EQ(read.shuffle, written.shuffle);
  EXPECT_EQ(read.model, written.model);
}

TEST(Toml, EveryDoubleReadsBackExactly) {
  Scratch scratch;
  for (double value : {0.0, 1.0, -1.0, 1e-4, 1e22, 1e300, 5e-324, 0.1, 1.0 / 3, std::numeric_limits<double>::max(),
                       std::numeric_limits<double>::infinity()}) {
    SomeOptions written, read;
    written.learning_rate = value;
    written.model = {};
    config::read_toml(scratch.write("c.toml", config::to_toml(fields_of_some(written))).string(), fields_of_some(read));
    EXPECT_EQ(read.learning_rate, value);
    EXPECT_THAT(read.model, IsEmpty());
  }
}

TEST(CommandLine, TakesAPositionalListBetweenOptions) {
  std::vector<std::string> runs;
  int64_t port = 0;
  config::Fields fields;
  fields.positional("run", runs, "folders");
  fields("port", port, "a port");
  config::read_command_line("verb", "summary", {"a", "--port", "7", "b c"}, fields);
  EXPECT_THAT(runs, ElementsAre("a", "b c"));
  EXPECT_EQ(port, 7);
  EXPECT_THAT(error_of(
                  [&] {
                    config::read_command_line("verb", "summary", {"a", "--prot", "7"}, fields);
                  },
                  Exit::config),
              HasSubstr("did you mean 'port'?"));
  EXPECT_THAT(config::read_command_line("verb", "summary", {"--help"}, fields).help_text, HasSubstr("  run..."));
}

TEST(CommandLine, AFlagAheadOfAFileDoesNotTakeIt) {
  std::vector<std::string> files;
  bool json = false;
  config::Fields fields;
  fields.positional("path", files, "files");
  fields("json", json, "print JSON");
  const auto read = [&](const std::vector<std::string>& args) {
    files.clear();
    json = false;
    config::read_command_line("verb", "summary", args, fields);
    return json;
  };
  EXPECT_TRUE(read({"--json", "lora.safetensors"}));
  EXPECT_THAT(files, ElementsAre("lora.safetensors"));
  EXPECT_FALSE(read({"--json", "false", "lora.safetensors"}));
  EXPECT_THAT(files, ElementsAre("lora.safetensors"));
  EXPECT_TRUE(read({"--json", "--", "b"}));
  EXPECT_THAT(files, ElementsAre("b"));
}

TEST(Paths, InATomlFileBeginInItsFolder) {
  Scratch scratch;
  std::filesystem::create_directory(scratch / "models");
  scratch.write("models/here", "");
  std::string output, model, id, none, whole;
  std::vector<std::string> loras;
  auto fields = [&] {
    config::Fields f;
    f.path("output", output, "");
    f.path("loras", loras, "");
    f.path("model", model, "", {}, config::seen_from_if_there);
    f.path("id", id, "", {}, config::seen_from_if_there);
    f.path("none", none, "");
    f.path("whole", whole, "");
    return f;
  };
  auto file = scratch.write("run.toml",
                            "output = \"runs/../cat\"\nloras = [\"a:0.5\", \"/b\"]\nmodel = \"models/here:dit\"\n"
                            "id = \"org/model\"\nnone = \"\"\nwhole = \"/x\"\n");
  config::read_toml(file.string(), fields());
  EXPECT_EQ(output, scratch / "cat");
  EXPECT_THAT(loras, ElementsAre((scratch / "a:0.5").string(), "/b"));
  EXPECT_EQ(model, (scratch / "models/here:dit").string());
  EXPECT_EQ(id, "org/model");
  EXPECT_EQ(none, "");
  EXPECT_EQ(whole, "/x");
  // On the command line they begin where the program runs.
  config::read_command_line("train", "trains", {"--config", file.string(), "--output", "here"}, fields());
  EXPECT_EQ(output, "here");
}

TEST(Paths, BeginWithTheHomeFolderWhereTheyBeginWithATilde) {
  Scratch scratch;
  ::setenv("HOME", "/home/someone", 1);
  std::string output, model;
  std::vector<std::string> loras;
  auto fields = [&] {
    config::Fields f;
    f.path("output", output, "");
    f.path("loras", loras, "");
    f.path("model", model, "", {}, config::seen_from_if_there);
    return f;
  };
  auto file = scratch.write("run.toml", "output = \"~/out\"\nloras = [\"~/a:0.5\", \"b~/c\"]\nmodel = \"~\"\n");
  config::read_toml(file.string(), fields());
  EXPECT_EQ(output, "/home/someone/out");
  EXPECT_THAT(loras, ElementsAre("/home/someone/a:0.5", (scratch / "b~/c").string()));
  EXPECT_EQ(model, "/home/someone");
  // A shell leaves the one behind a = as it is.
  config::read_command_line("train", "trains", {"--output=~/x", "--loras", "~/y", "--model=~someone"}, fields());
  EXPECT_EQ(output, "/home/someone/x");
  EXPECT_THAT(loras, ElementsAre("/home/someone/y"));
  EXPECT_EQ(model, "~someone");
}

TEST(Markdown, ATableAGroup) {
  SomeOptions o;
  config::Fields f = fields_of_some(o);
  f.title_no_effect("No effect");
  f.no_effect("workers", true, "none are needed");
  f.refused("quant", "say a|b");
  auto parsed = config::read_command_line("train", "trains", {"--help", "--markdown"}, f);
  EXPECT_EQ(
      parsed.help_text,
      "## burnish train\n\ntrains\n\n### Model\n\n| option | not given | may be | meaning |\n|---|---|---|---|\n"
      "| `--model, --model_paths` | `[\"default\"]` |  | a folder or a file; repeatable |\n| `--dtype` | `\"bf16\"` |  | fp32 or bf16 |\n"
      "\n### Training\n\n| option | not given | may be | meaning |\n|---|---|---|---|\n| `--max_steps, --num_steps` | `100` |  | steps to "
      "do |\n"
      "| `--learning_rate` | `0.0001` |  | of the optimizer |\n| `--shuffle` | `false` |  | in another order each epoch |\n"
      "| `--size` | `[]` |  | in pixels |\n"
      "\n### No effect\n\n| option | why |\n|---|---|\n| `--workers` | none are needed |\n"
      "\n### Refused\n\n| option | what to do |\n|---|---|\n| `--quant` | say a\\|b |\n");
}

TEST(Help, BeginsWithWhatPeopleCallAnOption) {
  int64_t size = 1;
  config::Fields f;
  f("batch_size", size, "samples of equal size").label("Pictures per step");
  auto help = [&f](const char* how) { return config::read_command_line("train", "trains", {"--help", how}, f).help_text; };
  EXPECT_THAT(help("all"), HasSubstr("Pictures per step: samples of equal size [1]"));
  EXPECT_THAT(help("--markdown"), HasSubstr("| Pictures per step: samples of equal size |"));
  EXPECT_EQ(help("--names"), "--batch_size\tPictures per step: samples of equal size\n");
  EXPECT_THAT(help("--json"), HasSubstr("\"label\": \"Pictures per step\""));
  EXPECT_THAT(help("--json"), HasSubstr("\"meaning\": \"samples of equal size\""));
}

TEST(Markdown, NoTitleWithoutAGroup) {
  bool json = false;
  config::Fields f;
  f("json", json, "prints JSON");
  EXPECT_EQ(config::read_command_line("doctor", "looks", {"--help", "--markdown"}, f).help_text,
            "## burnish doctor\n\nlooks\n\n| option | not given | may be | meaning |\n|---|---|---|---|\n| `--json` | `false` |  | prints "
            "JSON |\n");
}

TEST(Toml, KeysAreHandedDownToItems) {
  Scratch scratch;
  auto path = scratch.write("d.toml", R"(
[general]
max_steps = 1
dtype = "fp32"
[[sets]]
max_steps = 2
[[sets.parts]]
size = 512
[[sets.parts]]
max_steps = 3
size = [768, 512]
[[sets]]
size = ["a", [1, 2]]
)");
  std::vector<std::unique_ptr<SomeOptions>> read;
  config::read_toml_items(path, "sets", "parts", [&] { return fields_of_some(*read.emplace_back(std::make_unique<SomeOptions>())); });
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0]->max_steps, 2);
  EXPECT_EQ(read[1]->max_steps, 3);
  EXPECT_EQ(read[2]->max_steps, 1);
  for (const auto& one : read) EXPECT_EQ(one->dtype, "fp32");
  EXPECT_THAT(read[0]->size, ElementsAre("512"));
  EXPECT_THAT(read[1]->size, ElementsAre("768,512")) << "as on a command line";
  EXPECT_THAT(read[2]->size, ElementsAre("a", "1,2"));
}

TEST(Toml, ItemsThatAreNoTablesAreRefused) {
  Scratch scratch;
  auto refusal = [&](const std::string& text) {
    SomeOptions o;
    auto path = scratch.write("d.toml", text);
    return error_of([&] { config::read_toml_items(path, "sets", "parts", [&] { return fields_of_some(o); }); }, Exit::config);
  };
  EXPECT_THAT(refusal("max_steps = 3\n"), HasSubstr("'max_steps' stands outside of [general] and [[sets]]"));
  EXPECT_THAT(refusal("sets = [1]\n"), HasSubstr("'sets' must be a list of tables, written [[sets]]"));
  EXPECT_THAT(refusal("[[sets]]\nparts = 'x'\n"), HasSubstr("'parts' must be a list of tables"));
  EXPECT_THAT(refusal("[[sets]]\nmax_stps = 3\n"), HasSubstr("did you mean 'max_steps'?"));
  EXPECT_THAT(refusal("[[sets]]\nmodel = [1.5]\n"), HasSubstr("line 2: 'model' must be a list of texts, not 1.5"));
}
