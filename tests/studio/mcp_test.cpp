// A studio as assistants use it: the protocol, whatever lines say, and tools that are requests of the interface.
#include "studio/mcp.h"

#include <ATen/ATen.h>

#include <sstream>

#include "base/error.h"
#include "data/image.h"
#include "io/safetensors.h"
#include "records/previews.h"
#include "studio/claim.h"
#include "studio/mcp_calls.h"
#include "tests/studio/served.h"

using namespace burnish;
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

const json kOptions = json::parse(R"({"options": [
  {"name": "lora_rank", "level": "first_run", "type": "whole number", "default": 32, "meaning": "rank", "least": 1},
  {"name": "model", "level": "first_run", "type": "list of texts", "default": [], "meaning": "files"},
  {"name": "save_minutes", "level": "usual", "type": "number", "default": 0.0, "meaning": "also save", "unit": "minutes"},
  {"name": "on_end", "level": "first_run", "type": "text", "default": "", "meaning": "command", "acts_outside": true}]})");

class McpTest : public StudioTest {
 protected:
  McpTest()
      : client_({port}, token),
        mcp([this](const std::string& method, const std::string& path, const json& body) { return client_.ask(method, path, body); },
            kOptions) {}

  json say(const json& message) const {
    auto answered = mcp.answer(message.dump());
    return answered ? json::parse(*answered) : json();
  }
  json request(const std::string& method, const json& parameters = json::object()) const {
    return say({{"jsonrpc", "2.0"}, {"id", 7}, {"method", method}, {"params", parameters}});
  }
  json call(const std::string& tool, const json& arguments = json::object()) const {
    return request("tools/call", {{"name", tool}, {"arguments", arguments}})["result"];
  }
  /// The sentence of a call that came to nothing.
  std::string refusal(const std::string& tool, const json& arguments = json::object()) const {
    auto result = call(tool, arguments);
    EXPECT_EQ(result["isError"], true) << result;
    return result["content"][0]["text"];
  }
  int code_of(const std::string& line) const { return json::parse(mcp.answer(line).value())["error"]["code"]; }

 private:
  studio::Client client_;

 protected:
  studio::Mcp mcp;
};

}  // namespace

TEST_F(McpTest, AgreesOnAVersion) {
  for (const char* version : {"2025-06-18", "2025-03-26", "2024-11-05"})
    EXPECT_EQ(request("initialize", {{"protocolVersion", version}})["result"]["protocolVersion"], version);
  auto begun = request("initialize", {{"protocolVersion", "1999-01-01"}});
  EXPECT_EQ(begun["id"], 7);
  EXPECT_EQ(begun["result"]["protocolVersion"], "2025-06-18") << "the latest that is spoken here";
  EXPECT_TRUE(begun["result"]["capabilities"].contains("tools"));
  EXPECT_EQ(begun["result"]["serverInfo"]["name"], "burnish");
  EXPECT_TRUE(say({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}).is_null()) << "no answer is wanted";
  EXPECT_EQ(request("ping")["result"], json::object());
}

TEST_F(McpTest, DescribesItsTools) {
  auto tools = request("tools/list")["result"]["tools"];
  ASSERT_EQ(tools.size(), studio::tools().size());
  for (const auto& tool : tools) {
    EXPECT_TRUE(tool["inputSchema"]["type"] == "object" && tool["inputSchema"]["properties"].is_object()) << tool;
    EXPECT_GT(tool["description"].get<std::string>().size(), 20u);
  }
  auto plan = *std::ranges::find_if(tools, [](const json& tool) { return tool["name"] == "plan_run"; });
  EXPECT_EQ(plan["annotations"]["readOnlyHint"], true);
  auto options = plan["inputSchema"]["properties"]["options"]["properties"];
  EXPECT_EQ(options["lora_rank"], json::parse(R"({"type": "integer", "description": "rank", "default": 32, "minimum": 1})"));
  EXPECT_FALSE(options.contains("on_end")) << "which an assistant is not offered";
  EXPECT_FALSE(options.contains("save_minutes")) << "found by list_options";
  auto removes = *std::ranges::find_if(tools, [](const json& tool) { return tool["name"] == "delete_run"; });
  EXPECT_EQ(removes["annotations"]["destructiveHint"], true);
}

TEST_F(McpTest, PlansStartsAndFollowsARun) {
  auto plan = call("plan_run", {{"options", {{"lora_rank", 8}}}});
  EXPECT_EQ(plan["isError"], false);
  EXPECT_EQ(plan["structuredContent"]["plan"]["bytes"], 1) << "as the program says it";
  EXPECT_EQ(json::parse(plan["content"][0]["text"].get<std::string>()), plan["structuredContent"]);

  // The settings of this place are shell commands.
  auto started = call("start_run", {{"name", "cat"}, {"settings", "echo seen > \"$RUN/log\"; echo printed\n"}});
  EXPECT_EQ(started["structuredContent"]["run"], "cat");
  ASSERT_TRUE(comes_true([&] { return call("get_queue")["structuredContent"]["jobs"][0]["state"] == "ended"; }));
  EXPECT_EQ(call("get_run", {{"run", "cat"}})["structuredContent"]["name"], "cat");
  EXPECT_EQ(call("get_run_log", {{"run", "cat"}})["structuredContent"]["text"], "printed\n");
  auto runs = call("list_runs")["structuredContent"];
  EXPECT_EQ(runs["total"], 1);
  EXPECT_EQ(runs["entries"][0]["name"], "cat");
  EXPECT_EQ(call("list_runs", {{"first", 1}})["structuredContent"]["entries"], json::array());

  EXPECT_THAT(refusal("stop_run", {{"run", "cat"}}), HasSubstr("not known to run"));
  EXPECT_THAT(refusal("get_run", {{"run", "dog"}}), HasSubstr("no such run"));
  EXPECT_THAT(refusal("get_run_settings", {{"run", "../cat"}}), HasSubstr("no such"));
  EXPECT_EQ(call("delete_run", {{"run", "cat"}})["isError"], false);
  EXPECT_FALSE(fs::exists(run("cat")));
}

TEST_F(McpTest, WritesSettingsOfOptions) {
  auto text =
      studio::settings_text({{"options", {{"lora_rank", 8}, {"model", {"a \"b\"\n", "ä"}}, {"learning_rate", 1e-4}, {"resume", true}}},
                             {"settings", "max_steps = 3\n"}});
  EXPECT_EQ(text, "learning_rate = 0.0001\nlora_rank = 8\nmodel = [\"a \\\"b\\\"\\n\",\"ä\"]\nresume = true\nmax_steps = 3\n");
  EXPECT_THAT(refusal("plan_run", {{"options", {{"a b", 1}}}}), HasSubstr("is no option"));
  EXPECT_THAT(refusal("plan_run", {{"options", {{"a", json::object()}}}}), HasSubstr("the value of a"));
  EXPECT_THAT(refusal("plan_run", {{"options", {{"a", {json::array()}}}}}), HasSubstr("the value of a"));
  EXPECT_THAT(refusal("plan_run", {{"settings", 3}}), HasSubstr("settings must be a text"));
}

TEST_F(McpTest, LooksAtDatasets) {
  ASSERT_EQ(ask("/api/datasets", json{{"name", "cats"}})["name"], "cats");
  std::ofstream(root() / "datasets/cats/a.png") << "no picture";
  EXPECT_EQ(call("list_datasets")["structuredContent"]["entries"][0]["items"], 1);
  EXPECT_THAT(call("list_pictures", {{"dataset", "cats"}})["structuredContent"]["entries"][0]["problem"].get<std::string>(),
              HasSubstr("a.png"));
  auto before = call("write_captions", {{"dataset", "cats"}, {"captions", {{"a.png", "a cat"}}}});
  EXPECT_EQ(before["structuredContent"]["before"]["a.png"], "");
  EXPECT_EQ(text_of(root() / "datasets/cats/a.txt"), "a cat\n");
  EXPECT_THAT(refusal("write_captions", {{"dataset", "cats"}, {"captions", {{"a.png", 3}}}}), HasSubstr("'captions'"));
  fs::create_directories(run("cat") / "samples/step-000002");
  std::ofstream(run("cat") / "samples/step-000002/00.png") << "\x89PNG\r\n\x1a\n";
  auto preview = call("get_preview", {{"run", "cat"}, {"step", 2}, {"number", 0}});
  EXPECT_EQ(preview["content"][0]["type"], "image") << preview;
  EXPECT_EQ(preview["content"][0]["mimeType"], "image/png");
  EXPECT_EQ(preview["content"][0]["data"], "iVBORw0KGgo=");
}

TEST_F(McpTest, SaysWhichArgumentsAToolTakes) {
  EXPECT_THAT(refusal("get_run"), HasSubstr("get_run needs 'run'"));
  EXPECT_THAT(refusal("get_run", {{"run", 3}}), HasSubstr("'run' of get_run must be a string"));
  EXPECT_THAT(refusal("get_run", {{"run", "cat"}, {"x", 1}}), HasSubstr("takes no 'x'; it takes run"));
  EXPECT_THAT(refusal("ask_run", {{"run", "cat"}, {"what", "sing"}}), AllOf(HasSubstr("preview"), HasSubstr("stop_after_epoch")));
  EXPECT_THAT(refusal("get_run", json::array()), HasSubstr("must be an object"));
  EXPECT_THAT(refusal("list_runs", {{"first", -1}}), HasSubstr("'first'"));
  EXPECT_EQ(call("list_options", {{"search", "minutes"}})["structuredContent"]["total"], 0) << "of an empty schema";
}

TEST_F(McpTest, WithstandsWhateverLinesSay) {
  EXPECT_EQ(code_of("{"), -32700);
  EXPECT_EQ(code_of("\xff\xfe"), -32700);
  EXPECT_EQ(code_of(std::string(2'000'000, '[')), -32600);
  EXPECT_EQ(code_of("3"), -32600);
  EXPECT_EQ(code_of("[]"), -32600);
  EXPECT_EQ(code_of(R"({"id": 1, "method": "ping"})"), -32600) << "of no version";
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": {}, "method": "ping"})"), -32600);
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": 1, "method": 3})"), -32600);
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "fly\nhigh"})"), -32601);
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 3})"), -32602);
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 3}})"), -32602);
  EXPECT_EQ(request("tools/call", {{"name", "fly"}})["error"]["code"], -32602);
  EXPECT_EQ(mcp.answer(R"({"jsonrpc": "2.0", "id": 1, "result": {}})"), std::nullopt) << "nothing was asked of it";
  EXPECT_EQ(mcp.answer("  \r"), std::nullopt);
  const auto deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(code_of(R"({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": )" + deep + "}}"), -32600);
  const auto brackets = R"("[\"[)" + std::string(1000, '[') + "\"";  // in a text
  EXPECT_EQ(mcp.answer(R"({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": )" + brackets + "}}"),
            R"({"id":1,"jsonrpc":"2.0","result":{}})");
  auto batch = json::parse(*mcp.answer(R"([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "x"}, 3])"));
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[1]["error"]["code"], -32600);
}

TEST_F(McpTest, ServesLinesUntilThereAreNoMore) {
  const std::string ping = R"({"jsonrpc": "2.0", "id": 1, "method": "ping"})";
  std::istringstream in(ping + "\n" + std::string(5 << 20, 'x') + "\n\n" + ping);
  std::vector<json> answers;
  mcp.serve(in, [&](const std::string& line) {
    answers.push_back(json::parse(line));
    return true;
  });
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_THAT(answers[1]["error"]["message"].get<std::string>(), HasSubstr("4 MiB"));
  EXPECT_EQ(answers[2]["result"], json::object()) << "what follows is answered";
}

TEST_F(StudioTest, HoldsItsWorkspace) {
  ASSERT_TRUE(studio::place_of_open(root()));
  EXPECT_EQ(studio::place_of_open(root())->port, port);
  try {
    studio::check_not_open(root());
    FAIL() << "which is open";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is open already, at " + origin() + "/?token=" + token));
  }
  studio::Options another{.folder = root(), .program = program().string(), .schema = R"({"options": []})", .form = {}};
  EXPECT_THROW(studio::Server{another}, Error) << "two would start each job twice";
  EXPECT_FALSE(studio::place_of_open(scratch / "elsewhere"));
}

namespace {

/// What stands for each input of the tools, in the place that the test below makes.
const json kThings{{"run", "cat"},
                   {"dataset", "cats"},
                   {"file", "a.png"},
                   {"place", "loras"},
                   {"what", "preview"},
                   {"step", 3},
                   {"number", 0},
                   {"captions", {{"a.png", "a cat"}}},
                   {"is_paused", true},
                   {"fit", true},
                   {"first", 0},
                   {"search", "rank"},
                   {"level", "all"},
                   {"settings", "true"},
                   {"options", {{"a", "b"}}}};

/// A value of another kind than a schema has.
json wrong_for(const json& schema) { return schema["type"] == "string" ? json(3) : json("x"); }

}  // namespace

/// Each tool is called with what its own schema needs, with all that it takes, and with what it does not take.
TEST_F(McpTest, EveryToolTakesWhatItsSchemaSays) {
  fs::create_directories(run("cat") / "state");
  std::ofstream(run("cat") / "config.toml") << "true\n";
  std::ofstream(run("cat") / "status.json") << json{
      {"state", "training"}, {"stage", "train"},     {"done", 3},
      {"total", 10},         {"seconds_left", 7},    {"steps", 10},
      {"sentence", ""},      {"exit_code", nullptr}, {"process", {{"id", 999999999}, {"start", 1}, {"host", host()}}},
      {"started", 5},        {"written", 6}}.dump();
  std::ofstream(scratch / "small.toml") << "# Small: a recipe\nlora_rank = 4\n";
  const auto picture = at::full({8, 8, 3}, 128, at::kByte);
  fs::create_directories(root() / "datasets/cats");
  data::write_png(root() / "datasets/cats/a.png", picture);
  const auto preview = records::preview_path(run("cat"), 3, 0, records::PreviewKind::png);
  fs::create_directories(preview.parent_path());
  data::write_png(preview, picture);
  io::save_safetensors(root() / "loras/x.safetensors", {{"a", at::zeros({2})}});
  ask("/api/queue", json{{"is_paused", true}});
  const auto job = ask("/api/queue/jobs", json{{"name", "waits"}, {"settings", "true"}})["id"];

  const auto listed = request("tools/list")["result"]["tools"];
  ASSERT_FALSE(listed.empty());
  for (const auto& tool : listed) {
    const std::string name = tool["name"];
    SCOPED_TRACE(name);
    const auto& schema = tool["inputSchema"];
    auto things = kThings;
    things["job"] = job;
    things["name"] = name == "get_recipe" ? "small" : name == "inspect_file" ? "x.safetensors" : "fox";
    json needed = json::object(), all = json::object();
    for (const auto& [input, of_input] : schema["properties"].items()) {
      ASSERT_TRUE(things.contains(input)) << "say here what stands for " << input;
      all[input] = things[input];
      auto wrong = json{{input, wrong_for(of_input)}};
      for (const auto& other : schema["required"]) {
        if (other != input) wrong[other.get<std::string>()] = things.at(other.get<std::string>());
      }
      EXPECT_EQ(call(name, wrong)["isError"], true) << wrong;
    }
    for (const auto& input : schema["required"]) needed[input.get<std::string>()] = all.at(input.get<std::string>());
    all["of_no_use"] = 1;
    EXPECT_EQ(call(name, all)["isError"], true);
    all.erase("of_no_use");
    if (tool["annotations"]["destructiveHint"] == true || name == "stop_run" || name == "resume_run") continue;
    for (const auto& arguments : {needed, all}) {
      const auto result = call(name, arguments);
      EXPECT_EQ(result["isError"], false) << arguments << result;
    }
  }
  EXPECT_EQ(call("get_recipe")["structuredContent"], json::parse(R"({"names": ["small"]})"));
  EXPECT_EQ(call("get_recipe", {{"name", "small"}})["structuredContent"]["settings"], "# Small: a recipe\nlora_rank = 4\n");
  EXPECT_THAT(refusal("get_recipe", {{"name", "large"}}), HasSubstr("'large'"));
  EXPECT_THAT(refusal("stop_run", {{"run", "cat"}}), HasSubstr("not known to run"));
  EXPECT_EQ(call("resume_run", {{"run", "cat"}})["isError"], false);
  EXPECT_EQ(call("remove_job", {{"job", job}})["isError"], false);
  EXPECT_EQ(call("delete_run", {{"run", "cat"}})["isError"], false);
}
