// What a run tells others: commands of the user's, and an address.
#include <gmock/gmock.h>

#include "tests/hub/scripted_server.h"
#include "tests/integration/refused.h"

using namespace burnish;
using namespace burnish::test;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

class TellingOthers : public BadInput {
 protected:
  std::string command(const std::string& options) const {
    return "train " + golden_model() + golden_data() + "--learning_rate 1e-3 --lora_rank 2 --lora_target_modules to_q,to_v " + options +
           option("output_path", out());
  }
  Outcome train(const std::string& options) const { return run_burnish(command(options)); }
  std::vector<std::string> lines(const std::string& name) const {
    std::vector<std::string> list;
    std::ifstream file(at(name));
    for (std::string line; std::getline(file, line);) list.push_back(line);
    return list;
  }
  /// A command that adds these variables to a file, in a line.
  std::string note(const std::string& variables, const std::string& file) const {
    return "echo \"" + variables + "\" >> \"" + at(file).string() + "\"";
  }
};

}  // namespace

TEST_F(TellingOthers, CommandsHearOfSavesAndTheEnd) {
  auto saved = note("$BURNISH_RUN_EVENT $BURNISH_RUN_STEP/$BURNISH_RUN_STEPS $BURNISH_RUN_STATE $BURNISH_RUN_FILE", "saves");
  auto ended = "ls \"$BURNISH_RUN_FOLDER/report.html\"; " +
               note("$BURNISH_RUN_EVENT $BURNISH_RUN_STEP $BURNISH_RUN_STATE $BURNISH_RUN_EXIT_CODE", "saves");
  auto outcome = train("--max_steps 4 --save_steps 2 --on_save '" + saved + "' --on_end '" + ended + "' ");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  auto file = [&](int step) { return (out() / ("step-" + std::to_string(step) + ".safetensors")).string(); };
  EXPECT_THAT(lines("saves"), ElementsAre("saved 2/4 training " + file(2), "saved 4/4 saving " + file(4), "ended 4 done 0"));
  EXPECT_EQ(read_file(out() / "commands.log"), (out() / "report.html").string() + "\n");
  EXPECT_THAT(outcome.output, Not(HasSubstr("on_save ended")));
  EXPECT_THAT(read_file(out() / "config.toml"), Not(HasSubstr("on_save")));
}

TEST_F(TellingOthers, TrainingDoesNotWaitForACommand) {
  // It ends when the page is there, which is made when training has ended.
  auto waits = "i=0; while [ $i -lt 1200 ] && [ ! -e \"$BURNISH_RUN_FOLDER/report.html\" ]; do i=$((i + 1)); sleep 0.05; done; " +
               note("$BURNISH_RUN_STEP $([ $i -lt 1200 ] && echo in time)", "saves");
  auto outcome = train("--max_steps 6 --save_steps 2 --on_save '" + waits + "' ");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(lines("saves"), ElementsAre("2 in time", "4 in time", "6 in time"));
}

TEST_F(TellingOthers, ACommandThatFailsIsAWarning) {
  auto outcome = train("--max_steps 2 --on_save 'echo first; echo no disk >&2; exit 3' --on_end 'kill -9 $$' ");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\non_save ended with exit code 3, and said at last: first no disk\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\non_end ended with exit code 137\n"));
}

TEST_F(TellingOthers, CommandsHearHowARunEndedThatDidNotEndWell) {
  auto ended = note("$BURNISH_RUN_STATE $BURNISH_RUN_EXIT_CODE $BURNISH_RUN_SENTENCE", "ends");
  // Once: a third Ctrl-C would end the program without a word.
  auto outcome =
      train("--max_steps 5000 --save_steps 2 --on_save 'mkdir \"$BURNISH_RUN_FOLDER/once\" && kill -INT $PPID' --on_end '" + ended + "' ");
  EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
  outcome = train("--max_steps 2 --overwrite --preview_prompts nothing.txt --on_end '" + ended + "' ");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  ASSERT_EQ(lines("ends").size(), 2u);
  EXPECT_THAT(lines("ends")[0], HasSubstr("interrupted 130 interrupted at step"));
  EXPECT_THAT(lines("ends")[1], HasSubstr("failed 3 "));
  EXPECT_THAT(lines("ends")[1], HasSubstr("nothing.txt"));
}

TEST_F(TellingOthers, OfSeveralProcessesTheFirstTells) {
  auto options =
      "--max_steps 2 --on_save '" + note("saved $BURNISH_RUN_STEP", "told") + "' --on_end '" + note("$BURNISH_RUN_STATE", "told") + "' ";
  auto outcome = run_burnish("launch -n 2 -- " + command(options), "env");  // which has the program itself started
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(lines("told"), ElementsAre("saved 2", "done"));
}

TEST_F(TellingOthers, AFileOfSettingsRunsNothingUnlessItIsTrusted) {
  auto settings = write("run.toml", "max_steps = 2\non_end = 'touch " + at("harm").string() + "'\n");
  auto outcome = train(option("config", settings));
  expect_one_error(outcome, 2, {"on_end in a settings file", "--trust_settings"});
  EXPECT_FALSE(fs::exists(at("harm")) || fs::exists(out()));
  EXPECT_EQ(run_burnish("plan " + command("").substr(6) + option("config", settings)).exit_code, 2);
  EXPECT_EQ(train(option("config", settings) + "--trust_settings ").exit_code, 0);
  EXPECT_TRUE(fs::exists(at("harm")));
  EXPECT_THAT(train("--webhook ftp://x ").output, HasSubstr("webhook must be an address"));
}

TEST_F(TellingOthers, AnAddressIsSentALineOfJson) {
  ScriptedServer server([](const std::string&) { return http(204, ""); });
  auto outcome = train("--max_steps 4 --save_steps 2 --webhook " + server.address() + "/secret ");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  std::vector<std::string> texts;
  std::vector<json> sent;
  for (const auto& request : server.requests()) {
    sent.push_back(json::parse(request.substr(request.find("\r\n\r\n"))));
    texts.push_back(sent.back()["text"]);
    EXPECT_EQ(sent.back()["content"], sent.back()["text"]);
    EXPECT_THAT(request, Not(HasSubstr(at("").string()))) << "no paths";
  }
  EXPECT_THAT(texts, ElementsAre("out: started", "out: step 2 is saved (step-2.safetensors)", "out: step 4 is saved (step-4.safetensors)",
                                 "out: done"));
  EXPECT_EQ(sent[1]["event"], "saved");
  EXPECT_EQ(sent[1]["files"], json::array({"step-2.safetensors"}));
  EXPECT_EQ(sent[1]["steps"], 4);
  EXPECT_EQ(sent[3]["exit_code"], 0);
  EXPECT_THAT(outcome.output, Not(HasSubstr("the webhook")));
}

TEST_F(TellingOthers, AnAddressThatRefusesIsAWarningWithoutTheAddress) {
  ScriptedServer server([](const std::string&) { return http(500, "no"); });
  auto outcome = train("--max_steps 2 --webhook " + server.address() + "/secret ");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("\nthe webhook was not told: it answers 500\n"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("secret")));
  EXPECT_THAT(train("--overwrite --max_steps 2 --webhook http://127.0.0.1:1/secret ").output,
              testing::AllOf(HasSubstr("the webhook was not told"), Not(HasSubstr("secret"))));
}
