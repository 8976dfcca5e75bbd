#include "studio/mcp.h"

#include <csignal>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/studio_options.h"
#include "app/verbs.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/say.h"
#include "config/command_line.h"
#include "studio/client.h"
#include "studio/server.h"

namespace burnish::app {

using nlohmann::json;

namespace {

/// Asks the studio that has the workspace open, and is one itself where there is none.
class Studio {
 public:
  explicit Studio(studio::Options options) : options_(std::move(options)) {}
  ~Studio() { close(); }
  Studio(const Studio&) = delete;
  Studio& operator=(const Studio&) = delete;

  /// One that was there may have ended since, so that the second try may be answered by another.
  studio::Answered ask(const std::string& method, const std::string& path, const json& body) {
    for (bool is_last : {false, true}) {
      if (!client_) client_ = opened();
      auto answered = client_->ask(method, path, body);
      if (answered.status != 0 || is_last) return answered;
      client_.reset();
    }
    return {};
  }

 private:
  studio::Client opened() {
    close();
    auto there = studio::client_of(options_.folder);
    if (!there) {
      server_ = std::make_unique<studio::Server>(options_);
      serving_ = std::thread([this] { server_->serve(); });
      there = studio::client_of(options_.folder);
      info("the workspace is open; `burnish studio {}` says at which address", options_.folder.string());  // which is a secret
    }
    if (!there) config_error("mcp", "{} cannot be opened", options_.folder.string());
    return *there;
  }
  void close() {
    if (!server_) return;
    server_->stop();
    serving_.join();
    server_.reset();
  }

  studio::Options options_;
  std::optional<studio::Client> client_;
  std::unique_ptr<studio::Server> server_;
  std::thread serving_;
};

}  // namespace

void mcp(const Arguments& arguments) {
  std::vector<std::string> folders;
  config::Fields fields;
  fields.positional("folder", folders, "workspace, as of `burnish studio`; ~/burnish where none is named");
  auto parsed = config::read_command_line(
      "mcp", "let an assistant plan, start and follow runs (Model Context Protocol, over stdin and stdout)", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  std::signal(SIGPIPE, SIG_IGN);  // an assistant that has gone ends this by the end of its input
  const auto options = studio_options(folders, /*trusts_settings=*/false);
  Studio studio(options);
  const studio::Mcp server(
      [&](const std::string& method, const std::string& path, const json& body) { return studio.ask(method, path, body); },
      json::parse(options.schema));
  server.serve(std::cin, [](const std::string& line) {
    print("{}\n", line);
    return std::fflush(stdout) == 0;
  });
}

}  // namespace burnish::app
