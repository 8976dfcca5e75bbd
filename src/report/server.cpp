#include "report/server.h"

#include <httplib.h>

#include "report/run_follower.h"
#include "report/run_pages.h"

namespace burnish::report {

namespace {
constexpr size_t kNumThreads = 32;  // each open page keeps one
constexpr int64_t kMostPages = 24;  // the other threads answer what is asked once

std::vector<std::string> checked(std::vector<std::string> runs) {
  for (const auto& run : runs) check_run(run, /*may_begin=*/true);
  return runs;
}
}  // namespace

Server::Server(std::vector<std::string> runs, int64_t port)
    : runs_(checked(std::move(runs))), server_("watch", "127.0.0.1", port, kNumThreads) {
  auto& http = server_.http();
  http.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    if (request.get_header_value_count("Host") == 1 && is_loopback_host(request.get_header_value("Host")))
      return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("burnish watch answers to 127.0.0.1 and localhost alone\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  auto open = std::make_shared<OpenPages>();
  open->most = kMostPages;
  add_run_pages(http, {.runs = [this](const auto&) { return runs_; }, .open = std::move(open)});
}

}  // namespace burnish::report
