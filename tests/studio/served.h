#pragma once
#include <unistd.h>

#include <array>
#include <climits>
#include <optional>
#include <regex>
#include <string>
#include <thread>

#include "tests/studio/workplace.h"

namespace burnish::test {

using httplib::Headers;
using nlohmann::json;

/// A studio that answers on a port of its own.
class StudioTest : public Workplace {
 protected:
  StudioTest() {
    fs::create_directories(root());
    server.emplace(studio::Options{.folder = root(),
                                   .program = program().string(),
                                   .schema = R"({"options": []})",
                                   .form =
                                       [](const std::string& text) {
                                         return json{{"values", {{"seen", text}, {"model", text}}}};
                                       },
                                   .recipes = scratch.path(),
                                   .demo = scratch.path()});
    serving = std::thread([this] { server->serve(); });
    std::smatch match;
    auto address = server->address();
    std::regex_match(address, match, std::regex("http://127.0.0.1:(\\d+)/\\?token=([0-9a-f]{48})"));
    port = std::stoi(match[1]);
    token = match[2];
  }
  ~StudioTest() override {
    server->stop();
    serving.join();
  }

  static std::string host() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
  }
  httplib::Client client() const { return httplib::Client("127.0.0.1", port); }
  std::string cookie() const { return "burnish_" + std::to_string(port) + "=" + token; }
  std::string origin() const { return "http://127.0.0.1:" + std::to_string(port); }
  int status_of(const std::string& path, const Headers& headers) const {
    auto answer = client().Get(path, headers);
    return answer ? answer->status : 0;
  }
  /// Of a request that changes something, with the cookie of the page.
  int status_of_change(Headers headers) const {
    headers.emplace("Cookie", cookie());
    auto answer = client().Post("/api/queue", headers, R"({"is_paused": true})", "application/json");
    return answer ? answer->status : 0;
  }
  json ask(const std::string& path, const std::optional<json>& body = {}) const {
    const Headers headers{{"Authorization", "Bearer " + token}};
    auto answer = body ? client().Post(path, headers, body->dump(), "application/json") : client().Get(path, headers);
    if (!answer) return nullptr;
    auto value = json::parse(answer->body, nullptr, false);
    if (answer->status != 200) return {{"status", answer->status}, {"sentence", value.is_object() ? value.value("sentence", "") : ""}};
    return value;
  }

  std::optional<studio::Server> server;
  std::thread serving;
  int port = 0;
  std::string token;
};

}  // namespace burnish::test
