#include <fmt/core.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "app/studio_options.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/input_error.h"
#include "base/process.h"
#include "base/say.h"
#include "config/command_line.h"
#include "studio/claim.h"
#include "studio/server.h"

namespace burnish::app {

namespace {

/// Opens the page where there is a screen. It is a help, and no harm if it fails.
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
  std::string webhook;
  bool listen = false, no_browser = false, stop_runs = false, trust_settings = false;
  config::Fields fields;
  fields.group("Workspace");
  fields.positional("folder", folders,
                    "folder of datasets, runs and the queue; ~/burnish where none is named, and made where it is not there");
  fields.group("Page");
  fields("port", port, "port of the page; 0 takes a free one");
  fields("listen", listen, "let other machines in too, whoever knows the token: over a network that others hear, a tunnel is safer");
  fields("no_browser", no_browser, "open no browser");
  fields("stop_runs", stop_runs, "Ctrl-C stops the runs of the studio as well, each after its step, saved; otherwise they go on");
  fields("webhook", webhook, "http or https address that is told when a run of the studio starts, saves and ends, as by train's webhook");
  fields("trust_settings", trust_settings,
         "let settings name commands to run and addresses to tell (on_save, on_end, webhook): whoever has the token can then run programs "
         "here");
  auto parsed = config::read_command_line("studio", "make, start, queue and follow runs in the browser", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  auto options = studio_options(folders, trust_settings);
  options.address = listen ? "0.0.0.0" : "127.0.0.1";
  options.port = port;
  if (!webhook.empty() && !webhook.starts_with("http://") && !webhook.starts_with("https://"))
    config_error("studio", "webhook must be an address that begins with https:// or http://, not '{}'", webhook);
  options.webhook = webhook;
  studio::check_not_open(options.folder);
  sigset_t signals;  // before threads are started, which inherit it
  sigemptyset(&signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  studio::Server server(options);
  print("{}\n(Ctrl-C ends the studio; runs {})\n", server.address(),
        stop_runs ? "stop after their step, and are saved" : "go on, and are there when it is opened again");
  std::fflush(stdout);
  if (!no_browser) open_browser(server.address());
  std::atomic<bool> is_closed = false;  // from its page
  std::thread ends([&] {
    int number = 0;
    sigwait(&signals, &number);
    if (!is_closed) server.stop(stop_runs);
  });
  server.serve();
  is_closed = true;
  pthread_kill(ends.native_handle(), SIGTERM);
  ends.join();
}

}  // namespace burnish::app
