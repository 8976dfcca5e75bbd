#include "studio/server.h"

#include <fmt/core.h>

#include <chrono>
#include <tuple>

#include "base/text.h"
#include "report/run_pages.h"
#include "studio/assets.h"
#include "studio/routes.h"

namespace burnish::studio {

namespace {

constexpr size_t kNumThreads = 96;     // each open page of a run keeps one
constexpr int64_t kMostPages = 48;     // the other threads answer what is asked once
constexpr int64_t kMostCompared = 12;  // runs on one page
constexpr auto kPatience = std::chrono::seconds(2);

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self'; connect-src "
    "'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

}  // namespace

Server::Server(const Options& options)
    : server_("studio", options.address, options.port, kNumThreads, options.access.certificate),
      studio_(options, server_.port()),
      routes_(server_.http()) {
  auto& http = server_.http();
  http.set_read_timeout(kPatience.count(), 0);  // with who says nothing more
  http.set_keep_alive_timeout(kPatience.count());
  http.set_pre_routing_handler([this](const Request& request, Response& response) {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("X-Frame-Options", "DENY");
    using Handled = httplib::Server::HandlerResponse;
    return studio_.guard.admits(request, response) ? Handled::Unhandled : Handled::Handled;
  });
  add_pages();
  add_routes();
}

void Server::add_routes() {
  routes_.get("/api", [this](const Request&, Response& response) { answer(response, routes_.describe()); });
  add_run_routes(routes_, studio_);
  add_about_run_routes(routes_, studio_);
  add_queue_routes(routes_, studio_);
  add_bin_routes(routes_, studio_);
  add_form_routes(routes_, studio_);
  add_first_run_routes(routes_, studio_);
  add_model_routes(routes_, studio_);
  add_drawing_routes(routes_, studio_);
  add_file_routes(routes_, studio_);
  add_mask_routes(routes_, studio_);  // before those of the picture itself, which "NAME/mask" would fit as well
  add_picture_routes(routes_, studio_);
  add_dataset_routes(routes_, studio_);
  add_annotation_routes(routes_, studio_);
  add_look_routes(routes_, studio_);
  add_cut_routes(routes_, studio_);
  add_machine_routes(routes_, studio_);
  routes_.post("/api/studio/close", {{"stop_runs", Is::truth}}, [this](const Request& request, Response& response) {
    const bool ends_jobs = body_of(request).at("stop_runs").get<bool>();
    done(response);
    stop(ends_jobs);
  });
}

void Server::stop(bool ends_jobs) {
  if (ends_jobs) studio_.queue.end_jobs();
  server_.stop();
}

std::string Server::address() const {
  const auto& [address, access] = std::tie(studio_.options.address, studio_.options.access);
  auto shown = access.public_address;
  while (shown.ends_with('/')) shown.pop_back();
  const auto host = address == "0.0.0.0" ? "127.0.0.1" : address;
  if (shown.empty()) shown = fmt::format("{}://{}:{}", access.certificate ? "https" : "http", host, server_.port());
  return fmt::format("{}/?token={}", shown, studio_.guard.token());
}

void Server::add_pages() {
  auto& http = server_.http();
  http.Post("/log_in", [this](const Request& request, Response& response) { studio_.guard.log_in(request, response); });
  for (const auto& asset : kAssets) {
    http.Get(asset.name == "index.html" ? "/" : fmt::format("/page/{}", asset.name), [&asset](const Request&, Response& response) {
      response.set_header("Content-Security-Policy", kPolicy);
      response.set_header("Cache-Control", "no-cache");
      report::send_whole(response, std::string(asset.text), asset.media_type);
    });
  }
  auto open = std::make_shared<report::OpenPages>();
  open->most = kMostPages;
  auto runs = [this](const Request& request) {  // those that are there, of names with slashes between them
    std::vector<std::string> found;
    for (const auto& name : split_list(request.matches[1].str(), '/')) {
      auto run = Workspace::find(studio_.workspace.runs(), name);
      if (run && std::ssize(found) < kMostCompared) found.push_back(run->string());
    }
    return found;
  };
  report::add_run_pages(http, {.prefix = "/runs/([^/]+)", .num_groups = 1, .runs = runs, .script = "page/controls.js", .open = open});
  report::add_run_pages(
      http, {.prefix = "/compare/((?:[^/]+/)*[^/]+)", .num_groups = 1, .runs = runs, .script = "page/compare.js", .open = open});
}

}  // namespace burnish::studio
