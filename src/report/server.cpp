#include "report/server.h"

#include <fmt/core.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/short_waits.h"
#include "io/files.h"
#include "report/page.h"
#include "report/run_follower.h"
#include "report/strip.h"

namespace burnish::report {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr auto kPause = std::chrono::milliseconds(250);  // between two looks at the run
constexpr size_t kNumThreads = 32;                       // each open page keeps one
constexpr int64_t kMostPages = 24;                       // the other threads answer what is asked once

int64_t to_number(const std::string& digits) {
  int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

/// Where the browser gets a preview of a run, by its number, a frame of it by the frame's number, and its strip; it is another URL when the
/// preview was drawn again.
std::string preview_url(size_t run, const records::Preview& preview, const fs::path& path, const std::string& part) {
  std::error_code ignored;
  auto time = fs::last_write_time(path, ignored).time_since_epoch().count();
  return fmt::format("previews/{}/{}/{}{}?{}", run, preview.step, preview.number, part, time);
}

RunFollower follow(const std::string& run, const std::string& name, size_t number) {
  auto file = [number](const fs::path& path, const records::Preview& preview) {
    bool is_frame = preview.kind == records::PreviewKind::frames;
    return preview_url(number, preview, path, is_frame ? fmt::format("/{}", to_number(path.stem())) : "");
  };
  auto strip = [number](const fs::path& path, const records::Preview& preview) { return preview_url(number, preview, path, "/strip"); };
  return {run, name, file, strip};
}

std::vector<RunFollower> follow(const std::vector<std::string>& runs) {
  std::vector<RunFollower> followers;
  auto names = run_names(runs);
  for (size_t i = 0; i < runs.size(); ++i) followers.push_back(follow(runs[i], names[i], i));
  return followers;
}

/// A preview that is there, with its path.
struct Found {
  records::PreviewKind kind;
  fs::path path;
};

/// What `previews/RUN/STEP/NUMBER` names.
std::optional<Found> find_preview(const std::vector<std::string>& runs, const httplib::Request& request) {
  auto run = static_cast<size_t>(to_number(request.matches[1]));
  if (run >= runs.size()) return std::nullopt;
  for (auto kind : records::kPreviewKinds) {
    auto path = records::preview_path(runs[run], to_number(request.matches[2]), to_number(request.matches[3]), kind);
    if (io::is_there(path)) return Found{kind, path};
  }
  return std::nullopt;
}

/// Answers with bytes that stay what they are; of a range with that part of them (RFC 9110, 14), so that videos can be moved through.
void answer(const httplib::Request& request, httplib::Response& response, const std::string& bytes, const char* media_type) {
  response.status = request.ranges.empty() ? 200 : 206;
  response.set_header("Cache-Control", "private, max-age=86400");
  response.set_header("Accept-Ranges", "bytes");
  response.set_content(bytes, media_type);
}

/// One open page: writes what is new of the runs as events (WHATWG HTML, 9.2) until the browser goes.
bool send_news(std::vector<RunFollower>& runs, httplib::DataSink& sink) {
  bool is_quiet = true;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto news = runs[i].next();
    if (news.is_null()) continue;
    is_quiet = false;
    news["run"] = i;
    auto text = "data: " + news.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n\n";
    if (!sink.write(text.data(), text.size())) return false;
  }
  if (is_quiet) std::this_thread::sleep_for(kPause);
  return sink.is_writable();
}

}  // namespace

struct Server::Http {
  httplib::Server server;
  std::atomic<int64_t> num_pages = 0;  ///< that were opened so far
};

bool is_loopback_host(const std::string& host) {
  auto colon = host.rfind(':');
  bool has_port = colon != std::string::npos && host.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  auto name = has_port ? host.substr(0, colon) : host;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

Server::Server(std::vector<std::string> runs, int64_t port) : runs_(std::move(runs)), http_(std::make_unique<Http>()) {
  if (port < 0 || port > 65535) config_error("watch", "port must be from 0 to 65535, not {}", port);
  for (const auto& run : runs_) check_run(run, /*may_begin=*/true);
  auto& server = http_->server;
  // The library would share the port with another program that shares it too.
  server.set_socket_options([](socket_t socket) {
    int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.new_task_queue = [] { return new httplib::ThreadPool(kNumThreads); };
  server.set_tcp_nodelay(true);
  if (port == 0) port_ = server.bind_to_any_port("127.0.0.1");
  else if (server.bind_to_port("127.0.0.1", static_cast<int>(port))) port_ = static_cast<int>(port);
  if (port_ <= 0) config_error("watch", "port {} of 127.0.0.1 cannot be had, another program may use it; --port 0 takes a free one", port);
  add_routes();
}

Server::~Server() = default;

void Server::add_routes() {
  auto& server = http_->server;
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    if (request.get_header_value_count("Host") == 1 && is_loopback_host(request.get_header_value("Host")))
      return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("burnish watch answers to 127.0.0.1 and localhost alone\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(page(json::array(), /*live=*/true), "text/html; charset=utf-8");
  });
  server.Get("/events", [this](const httplib::Request&, httplib::Response& response) {
    response.set_header("Cache-Control", "no-store");
    auto followers = std::make_shared<std::vector<RunFollower>>(follow(runs_));
    const auto number = ++http_->num_pages;
    response.set_chunked_content_provider("text/event-stream", [this, followers, number](size_t, httplib::DataSink& sink) {
      // The oldest page makes way for the newest; its browser asks again.
      return http_->num_pages - number < kMostPages && send_news(*followers, sink);
    });
  });
  add_preview_routes();
}

void Server::add_preview_routes() {
  auto& server = http_->server;
  const std::string preview = R"(/previews/(\d{1,4})/(\d{1,9})/(\d{1,9}))";
  server.Get(preview, [this](const httplib::Request& request, httplib::Response& response) {
    response.status = 404;
    auto found = find_preview(runs_, request);
    if (found && !io::is_folder(found->path)) answer(request, response, io::read_text(found->path), records::media_type(found->kind));
  });
  server.Get(preview + R"(/(\d{1,9}))", [this](const httplib::Request& request, httplib::Response& response) {
    response.status = 404;
    auto found = find_preview(runs_, request);
    if (!found || !io::is_folder(found->path)) return;
    auto frame = found->path / fmt::format("{:05}.png", to_number(request.matches[4]));
    if (io::is_there(frame)) answer(request, response, io::read_text(frame), records::media_type(found->kind));
  });
  server.Get(preview + "/strip", [this](const httplib::Request& request, httplib::Response& response) {
    response.status = 404;
    auto found = find_preview(runs_, request);
    if (!found) return;
    try {
      answer(request, response, strip_of(found->path), "image/webp");
    } catch (const Error& error) {
      warn("left out: {}", error.what());
    }
  });
}

void Server::serve() {
  // The library ends the program where it cannot start all of its threads.
  if (startable_threads(kNumThreads) < static_cast<int64_t>(kNumThreads))
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  http_->server.listen_after_bind();
}

void Server::stop() { http_->server.stop(); }

}  // namespace burnish::report
