// `burnish mcp` as an assistant's program starts it, spoken to over pipes.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "tests/integration/refused.h"
#include "tests/places.h"

using namespace burnish;
using namespace burnish::test;
using nlohmann::json;

namespace {

/// The program with its input and output on pipes.
class Spoken {
 public:
  explicit Spoken(const fs::path& workspace) {
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC) + ::pipe2(out.data(), O_CLOEXEC), 0) << "which another program started here would hold open";
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execl(test::kProgram, "burnish", "mcp", workspace.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = ::fdopen(out[0], "r");
  }
  ~Spoken() {
    if (to_ >= 0) end();
    std::fclose(from_);
  }
  Spoken(const Spoken&) = delete;
  Spoken& operator=(const Spoken&) = delete;

  json request(const std::string& method, const json& parameters) {
    const auto line = json{{"jsonrpc", "2.0"}, {"id", ++number_}, {"method", method}, {"params", parameters}}.dump() + "\n";
    EXPECT_EQ(::write(to_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    char* text = nullptr;
    size_t size = 0;
    const auto length = ::getline(&text, &size, from_);
    auto answer = json::parse(std::string(text, static_cast<size_t>(std::max<ssize_t>(length, 0))), nullptr, false);
    std::free(text);
    EXPECT_EQ(answer.value("id", 0), number_) << answer;
    return answer;
  }
  json call(const std::string& tool, const json& arguments = json::object()) {
    return request("tools/call", {{"name", tool}, {"arguments", arguments}})["result"];
  }
  /// Ends its input; its exit code.
  int end() {
    ::close(std::exchange(to_, -1));
    int status = 0;
    ::waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t child_ = 0;
  int to_ = -1, number_ = 0;
  std::FILE* from_ = nullptr;
};

class McpProgram : public BadInput {};

}  // namespace

TEST_F(McpProgram, PlansAndTrainsByOptionsAndEndsWithItsInput) {
  Spoken first(at("work"));
  auto begun = first.request("initialize", {{"protocolVersion", "2025-06-18"}});
  EXPECT_EQ(begun["result"]["serverInfo"]["name"], "burnish");
  json options{{"model", {(kGolden / "model").string()}},
               {"tokenizer_path", (kAssets / "tokenizer").string()},
               {"tokenizer_2_path", (kAssets / "tokenizer_2").string()},
               {"dataset_metadata_path", (kGolden / "pictures/metadata.csv").string()},
               {"height", 48},
               {"width", 64},
               {"lora_rank", 2},
               {"max_steps", 2}};
  auto plan = first.call("plan_run", {{"options", options}})["structuredContent"];
  EXPECT_EQ(plan["exit_code"], 0) << plan;
  EXPECT_TRUE(plan["plan"].contains("stages")) << plan;

  auto wrong = options;
  wrong["lora_rnk"] = 2;
  EXPECT_NE(first.call("plan_run", {{"options", wrong}})["structuredContent"]["problems"].dump().find("did you mean 'lora_rank'"),
            std::string::npos);
  wrong = options;
  wrong["on_end"] = "touch " + at("harm").string();
  EXPECT_NE(first.call("plan_run", {{"options", wrong}})["structuredContent"]["problems"].dump().find("--trust_settings"),
            std::string::npos);

  // Another one speaks to the studio that the first has opened.
  Spoken second(at("work"));
  EXPECT_EQ(second.call("start_run", {{"name", "cat"}, {"options", options}})["structuredContent"]["run"], "cat");
  EXPECT_NE(second.call("start_run", {{"name", "harm"}, {"options", wrong}}).dump().find("--trust_settings"), std::string::npos);
  auto state = [&](const char* run) {
    auto found = first.call("get_run", {{"run", run}});
    return found.contains("structuredContent") ? found["structuredContent"].value("state", "") : "";  // it takes a moment until it is there
  };
  for (int i = 0; i < 1200 && state("cat") != "done"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(state("cat"), "done");
  EXPECT_EQ(first.call("list_run_files", {{"run", "cat"}})["structuredContent"]["entries"][0]["name"], "step-2.safetensors");
  // How a job ended is known to the studio that started it.
  auto first_jobs = [&] { return first.call("get_queue")["structuredContent"]["jobs"]; };
  for (int i = 0; i < 600 && first_jobs()[0]["state"] != "ended"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(first.end(), 0);

  // And when the first has gone, it opens the workspace itself.
  const auto jobs = second.call("get_queue")["structuredContent"]["jobs"];
  ASSERT_EQ(jobs.size(), 1u) << "what is refused is in no list";
  EXPECT_EQ(jobs[0]["exit_code"], 0);
  EXPECT_FALSE(fs::exists(at("harm"))) << "no settings run commands here";
  EXPECT_EQ(second.end(), 0);
}
