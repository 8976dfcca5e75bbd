// Programs whose terminal is closed, and whose readers go away: what they tell is lost, and nothing else.
#include <gmock/gmock.h>

#include "tests/integration/on_terminal.h"
#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;

namespace {

using namespace std::chrono_literals;

class Terminal : public testing::Test {
 protected:
  static std::string program(const std::string& arguments) { return quoted(test::kProgram) + " " + arguments; }
  std::string train(const std::string& run) const {
    return "train " + golden_model() + golden_data() + "--lora_rank 4 --learning_rate 1e-3 --max_steps 100000 " +
           option("output_path", folder / run);
  }
  Scratch folder;
};

}  // namespace

TEST_F(Terminal, ThatIsClosedWhileItTrainsLeavesASave) {
  OnTerminal run(program(train("run")));
  while (!fs::exists(folder / "run/log.jsonl") || read_log(folder / "run").size() < 3) run.show(50ms);
  run.hang_up();
  EXPECT_EQ(ended(run.wait()), "code 130");
  EXPECT_TRUE(fs::exists(folder / "run/state/state.safetensors"));
  EXPECT_EQ(nlohmann::json::parse(read_file(folder / "run/status.json")).at("state"), "interrupted");
}

/// Before a program listens, the hang-up itself ends it, as it ends any program.
TEST_F(Terminal, ThatIsClosedAtAnyInstantIsNoFailure) {
  const auto drawing =
      golden_model() + "--prompt cat --height 64 --width 64 --num_inference_steps 500 " + option("output_path", folder / "out");
  const std::vector<std::string> commands{train("run"), "sample " + drawing,
                                          "cache " + golden_model() + golden_data() + option("cache_path", folder / "cache"),
                                          "launch --num_processes 2 -- " + train("launched")};
  for (const auto& command : commands) {
    for (auto time : {100ms, 400ms, 800ms, 1200ms, 2000ms, 3500ms}) {
      for (const char* name : {"run", "out", "cache", "launched"}) fs::remove_all(folder / name);
      OnTerminal run(program(command));
      run.show(time);
      run.hang_up();
      EXPECT_THAT(ended(run.wait()), testing::AnyOf("code 130", "code 0", "signal 1", "code 129"))
          << time.count() << " ms into " << command;
    }
  }
}

TEST_F(Terminal, AReaderThatGoesAwayDoesNotEndARun) {
  auto arguments = train("run");
  arguments.replace(arguments.find("100000"), 6, "4");
  auto status = std::system(("( BURNISH_PROGRESS_SECONDS=0.01 " + program(arguments) + " 2>&1; echo $? >'" + (folder / "code").string() +
                             "' ) | head -n 1 >/dev/null")
                                .c_str());
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(folder / "code"), "0\n");
  EXPECT_EQ(read_log(folder / "run").size(), 4u);
  EXPECT_EQ(std::system((program(arguments + "--overwrite ") + " >/dev/full 2>/dev/full").c_str()), 0);
}

TEST_F(Terminal, AResultThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(WEXITSTATUS(std::system((program("plan --help") + " >/dev/full 2>/dev/null").c_str())), 3);
}
