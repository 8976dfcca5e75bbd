#include <fmt/core.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "app/studio_options.h"
#include "app/verbs.h"
#include "base/error.h"
#include "base/http_address.h"
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

/// Holds what `burnish studio` may be told.
struct StudioOptions {
  std::vector<std::string> folders;
  int64_t port = 7879;
  bool listen = false, no_browser = false, stop_runs = false, trust_settings = false;
  std::string webhook, certificate, certificate_key, password_file, public_address;
};

void studio_fields(config::Fields& f, StudioOptions& o) {
  f.group("Workspace");
  f.positional("folder", o.folders,
               "folder of datasets, runs and the queue; ~/burnish where none is named, and made where it is not there");
  f.group("Page");
  f("port", o.port, "port of the page; 0 takes a free one");
  f("listen", o.listen,
    "let other machines in too, whoever knows the token: over a network that others hear, with a certificate or by a tunnel");
  f.path("password_file", o.password_file,
         "file that you alone can read, with a password in its first line, which may be typed in place of the token");
  f.path("certificate", o.certificate, "certificate with its chain, in PEM, by which the page is served over HTTPS; with certificate_key");
  f.path("certificate_key", o.certificate_key, "the certificate's key, in PEM");
  f("public_address", o.public_address,
    "address under which a proxy shows the page, as https://home.example/burnish; the proxy takes the path away");
  f("no_browser", o.no_browser, "open no browser");
  f("stop_runs", o.stop_runs, "Ctrl-C stops the runs of the studio as well, each after its step, saved; otherwise they go on");
  f("webhook", o.webhook, "http or https address that is told when a run of the studio starts, saves and ends, as by train's webhook");
  f("trust_settings", o.trust_settings,
    "let settings name commands to run and addresses to tell (on_save, on_end, webhook): whoever has the token can then run programs "
    "here");
}

studio::Access access_of(const StudioOptions& o) {
  studio::Access access{.listens = o.listen, .public_address = o.public_address};
  if (o.certificate.empty() != o.certificate_key.empty())
    config_error("studio", "{} is needed beside {}: they are the two files of a certificate",
                 o.certificate.empty() ? "certificate" : "certificate_key", o.certificate.empty() ? "certificate_key" : "certificate");
  if (!o.certificate.empty()) access.certificate = {o.certificate, o.certificate_key};
  if (!o.password_file.empty()) access.password = studio::password_in(o.password_file);
  return access;
}

studio::Options server_options(const StudioOptions& o) {
  if (!o.webhook.empty() && !is_http(o.webhook))
    config_error("studio", "webhook must be an address that begins with https:// or http://, not '{}'", o.webhook);
  auto options = studio_options(o.folders, o.trust_settings);
  options.address = o.listen ? "0.0.0.0" : "127.0.0.1";
  options.port = o.port;
  options.webhook = o.webhook;
  options.access = access_of(o);
  return options;
}

}  // namespace

void studio(const Arguments& arguments) {
  StudioOptions o;
  config::Fields fields;
  studio_fields(fields, o);
  auto parsed = config::read_command_line("studio", "make, start, queue and follow runs in the browser", arguments, fields);
  if (parsed.help) return print("{}", parsed.help_text);
  const auto options = server_options(o);
  studio::check_not_open(options.folder);
  sigset_t signals;  // before threads are started, which inherit it
  sigemptyset(&signals);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  studio::Server server(options);
  print("{}\n(Ctrl-C ends the studio; runs {})\n", server.address(),
        o.stop_runs ? "stop after their step, and are saved" : "go on, and are there when it is opened again");
  std::fflush(stdout);
  if (!o.no_browser) open_browser(server.address());
  std::atomic<bool> is_closed = false;  // from its page
  std::thread ends([&] {
    int number = 0;
    sigwait(&signals, &number);
    if (!is_closed) server.stop(o.stop_runs);
  });
  server.serve();
  is_closed = true;
  pthread_kill(ends.native_handle(), SIGTERM);
  ends.join();
}

}  // namespace burnish::app
