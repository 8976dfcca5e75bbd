#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/verbs.h"
#include "base/error.h"
#include "base/process.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "config/pages.h"
#include "config/refusal.h"
#include "studio/server.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"

namespace burnish::app {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json value_of(const config::Field& field) {
  return std::visit([](const auto* value) { return json(*value); }, field.slot);
}

/// studio::Options::form.
json form_of(const std::string& settings) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  json form{{"values", json::object()}, {"problems", json::array()}, {"idle", json::array()}};
  try {
    config::read_toml_text(settings, fields);
    for (const auto& idle : train::idle_options(options))
      form["idle"].push_back({{"option", idle.option}, {"belongs_to", idle.belongs_to}});
    train::check(options);
  } catch (const config::Refusal& refusal) {
    form["problems"] = json::parse(config::to_json(refusal.problems())).at("problems");
  } catch (const Error& error) {
    form["problems"].push_back({{"option", ""}, {"sentence", without_source(error)}});
  }
  for (const auto& field : fields.list()) form["values"][field.name] = value_of(field);
  return form;
}

std::string own_path() {
  std::error_code error;
  auto path = fs::read_symlink("/proc/self/exe", error);
  if (error) config_error("studio", "the program cannot find itself: {}", error.message());
  return path.string();
}

/// Beside the program: in its packages, where it is installed, and where it was built.
fs::path recipes_beside(const fs::path& program) {
  for (const char* place : {"recipes", "../share/burnish/recipes", "../recipes"}) {
    auto folder = program.parent_path() / place;
    if (fs::is_directory(folder)) return folder.lexically_normal();
  }
  return {};
}

fs::path default_folder() {
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fs::path(home) / "burnish" : fs::path("burnish");
}

/// Where there is a screen to open it on. It is a help, and no harm if it fails.
void open_browser(const std::string& address) {
  if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr) return;
  try {
    start_process({.words = {"xdg-open", address}, .output = "/dev/null", .outlives = true});
  } catch (const Error&) {
    return;
  }
}

}  // namespace

void studio(const Arguments& arguments) {
  std::vector<std::string> folders;
  int64_t port = 7879;
  bool listen = false, no_browser = false;
  config::Fields fields;
  fields.group("Workspace");
  fields.positional("folder", folders,
                    "folder of datasets, runs and the queue; ~/burnish where none is named, and made where it is not there");
  fields.group("Page");
  fields("port", port, "port of the page; 0 takes a free one");
  fields("listen", listen, "let other machines in too, whoever knows the token: over a network that others hear, a tunnel is safer");
  fields("no_browser", no_browser, "open no browser");
  auto parsed = config::read_command_line("studio", "make, start, queue and follow runs in the browser", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  if (folders.size() > 1) config_error("studio", "one folder is the workspace, not {}: {}", folders.size(), join(folders));

  train::TrainOptions options;
  config::Fields of_train;
  train::fields(of_train, options);
  const auto program = own_path();
  sigset_t signals;  // before threads are started, which inherit it
  sigemptyset(&signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  studio::Server server({.folder = folders.empty() ? default_folder() : fs::path(folders[0]),
                         .address = listen ? "0.0.0.0" : "127.0.0.1",
                         .port = port,
                         .program = program,
                         .schema = config::to_json("train", "fine-tune a diffusion model", of_train),
                         .form = form_of,
                         .recipes = recipes_beside(program)});
  print("{}\n(Ctrl-C ends the studio; runs go on, and are there when it is opened again)\n", server.address());
  std::fflush(stdout);
  if (!no_browser) open_browser(server.address());
  std::thread ends([&] {
    int number = 0;
    sigwait(&signals, &number);
    server.stop();
  });
  server.serve();
  pthread_kill(ends.native_handle(), SIGTERM);
  ends.join();
}

}  // namespace burnish::app
