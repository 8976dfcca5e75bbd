#include "studio/mcp.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <istream>
#include <string_view>

#include "base/error.h"
#include "base/version.h"
#include "studio/mcp_calls.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

constexpr size_t kMostOfALine = 4 << 20;                                   // as of a request's body
constexpr std::array kVersions{"2025-06-18", "2025-03-26", "2024-11-05"};  // the first is the latest
constexpr const char* kInstructions =
    "burnish fine-tunes image and video models (a LoRA, or all of one) on this machine. Look at datasets and options, call plan_run until "
    "it "
    "fits and has no problems, then start_run, which answers at once; follow with get_run and get_preview. Runs go on when this "
    "conversation ends.";

/// Errors of JSON-RPC 2.0, section 5.1.
enum class Wrong { parse = -32700, request = -32600, method = -32601, parameters = -32602 };
struct Refused {
  Wrong wrong;
  std::string sentence;
};

json error_of(const json& id, const Refused& refused) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", static_cast<int>(refused.wrong)}, {"message", refused.sentence}}}};
}

std::string line_of(const json& message) { return message.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace); }

json initialized(const json& parameters) {
  const auto wished = parameters.value("protocolVersion", "");
  const bool is_known = std::ranges::find(kVersions, std::string_view(wished)) != kVersions.end();
  return {{"protocolVersion", is_known ? wished : kVersions.front()},
          {"capabilities", {{"tools", {{"listChanged", false}}}}},
          {"serverInfo", {{"name", "burnish"}, {"title", "Burnish"}, {"version", kVersion}}},
          {"instructions", kInstructions}};
}

/// Tells whether brackets stand in each other more deeply than any message has them: values so deep cannot be copied.
bool is_deep(const std::string& line) {
  constexpr int kMostLevels = 64;
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (in_text && line[i] == '\\') ++i;
    else if (line[i] == '"') in_text = !in_text;
    else if (!in_text && (line[i] == '[' || line[i] == '{') && ++depth > kMostLevels) return true;
    else if (!in_text && (line[i] == ']' || line[i] == '}')) --depth;
  }
  return false;
}

/// A line without its end, of which no more is kept than may be; false where there are no more.
bool read_line(std::istream& in, std::string& line) {
  line.clear();
  for (int c = in.get(); c != std::istream::traits_type::eof(); c = in.get()) {
    if (c == '\n') return true;
    if (line.size() <= kMostOfALine) line += static_cast<char>(c);
  }
  return !line.empty();
}

}  // namespace

json Mcp::result_of(const std::string& method, const json& parameters) const {
  if (method == "initialize") return initialized(parameters);
  if (method == "ping") return json::object();
  if (method == "tools/list") return {{"tools", describe(tools(), options_)}};
  if (method != "tools/call") throw Refused{Wrong::method, "there is no method '" + one_line(method) + "' here"};
  const auto name = parameters.value("name", "");
  const auto tool = std::ranges::find_if(tools(), [&](const Tool& one) { return one.name == name; });
  if (tool == tools().end()) throw Refused{Wrong::parameters, "there is no tool '" + one_line(name) + "'; tools/list lists them"};
  return call(*tool, parameters.value("arguments", json::object()), ask_);
}

json Mcp::answer_message(const json& message) const {
  json id;
  try {
    if (!message.is_object()) throw Refused{Wrong::request, "a message must be an object"};
    if (message.contains("id")) {
      if (!message["id"].is_string() && !message["id"].is_number_integer())
        throw Refused{Wrong::request, "an id must be a text or a whole number"};
      id = message["id"];
    }
    if (!message.contains("method") && (message.contains("result") || message.contains("error"))) return nullptr;  // nothing was asked
    if (message.value("jsonrpc", "") != "2.0" || !message.contains("method") || !message["method"].is_string())
      throw Refused{Wrong::request, "a message must have \"jsonrpc\": \"2.0\" and a method"};
    if (id.is_null()) return nullptr;  // a notification
    const auto parameters = message.value("params", json::object());
    if (!parameters.is_object()) throw Refused{Wrong::parameters, "params must be an object"};
    return {{"jsonrpc", "2.0"}, {"id", id}, {"result", result_of(message["method"], parameters)}};
  } catch (const Refused& refused) {
    return error_of(id, refused);
  } catch (const json::exception&) {
    return error_of(id, {Wrong::parameters, "something in this message is of another kind than was expected"});
  }
}

std::optional<std::string> Mcp::answer(const std::string& line) const {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return std::nullopt;
  if (line.size() > kMostOfALine) return line_of(error_of(nullptr, {Wrong::request, "a message is at most 4 MiB long"}));
  if (is_deep(line)) return line_of(error_of(nullptr, {Wrong::request, "a message is nested in at most 64 levels"}));
  const auto message = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (message.is_discarded()) return line_of(error_of(nullptr, {Wrong::parse, "this line is no JSON"}));
  if (!message.is_array() || message.empty()) {
    const auto answered = answer_message(message);
    return answered.is_null() ? std::nullopt : std::optional(line_of(answered));
  }
  auto answers = json::array();  // a batch, as versions before 2025-06-18 have it
  for (const auto& one : message) {
    if (auto answered = answer_message(one); !answered.is_null()) answers.push_back(std::move(answered));
  }
  return answers.empty() ? std::nullopt : std::optional(line_of(answers));
}

void Mcp::serve(std::istream& in, const std::function<bool(const std::string& line)>& say) const {
  for (std::string line; read_line(in, line);) {
    if (const auto answered = answer(line); answered && !say(*answered)) return;
  }
}

}  // namespace burnish::studio
