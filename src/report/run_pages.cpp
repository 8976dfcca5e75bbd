#include "report/run_pages.h"

#include <fmt/core.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "io/files.h"
#include "report/local_server.h"
#include "report/page.h"
#include "report/run_follower.h"
#include "report/strip.h"

namespace burnish::report {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kNoRun =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>burnish</title>"
    "<h1>There is no such run</h1><p>It may have another name now, or lie in the bin. <a href=\"../../\">All runs</a></p></html>";

constexpr auto kPause = std::chrono::milliseconds(250);  // between two looks at the run

/// What leads from a page to the server's first one, whatever a proxy puts before both.
std::string way_up(const std::string& path) {
  std::string way;
  for (auto depth = std::ranges::count(path, '/'); depth > 1; --depth) way += "../";
  return way;
}

int64_t to_number(const std::string& digits) { return parse_number<int64_t>(digits).value_or(0); }

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

/// What `previews/RUN/STEP/NUMBER` names, of which `first` is the first group.
std::optional<Found> find_preview(const std::vector<std::string>& runs, const httplib::Request& request, size_t first) {
  auto run = static_cast<size_t>(to_number(request.matches[first]));
  if (run >= runs.size()) return std::nullopt;
  for (auto kind : records::kPreviewKinds) {
    auto path = records::preview_path(runs[run], to_number(request.matches[first + 1]), to_number(request.matches[first + 2]), kind);
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

/// Answers with a file of a preview, where `path_of` finds one.
template <typename PathOf>
httplib::Server::Handler preview_handler(const RunPages& pages, const PathOf& path_of) {
  return [pages, path_of](const httplib::Request& request, httplib::Response& response) {
    response.status = 404;
    auto found = find_preview(pages.runs(request), request, pages.num_groups + 1);
    if (found) path_of(*found, request, response);
  };
}

void add_previews(httplib::Server& server, const RunPages& pages) {
  const auto preview = pages.prefix + R"(/previews/(\d{1,4})/(\d{1,9})/(\d{1,9}))";
  const auto frame_group = pages.num_groups + 4;
  server.Get(preview, preview_handler(pages, [](const Found& found, const auto& request, auto& response) {
               if (!io::is_folder(found.path)) answer(request, response, io::read_text(found.path), records::media_type(found.kind));
             }));
  server.Get(preview + R"(/(\d{1,9}))", preview_handler(pages, [frame_group](const Found& found, const auto& request, auto& response) {
               if (!io::is_folder(found.path)) return;
               auto frame = found.path / fmt::format("{:05}.png", to_number(request.matches[frame_group]));
               if (io::is_there(frame)) answer(request, response, io::read_text(frame), records::media_type(found.kind));
             }));
  server.Get(preview + "/strip", preview_handler(pages, [](const Found& found, const auto& request, auto& response) {
               try {
                 answer(request, response, strip_of(found.path), "image/webp");
               } catch (const Error& error) {
                 warn("left out: {}", error.what());
               }
             }));
}

}  // namespace

void add_run_pages(httplib::Server& server, const RunPages& pages) {
  server.Get(pages.prefix + "/", [pages](const httplib::Request& request, httplib::Response& response) {
    const bool is_there = !pages.runs(request).empty();
    response.status = is_there ? 200 : 404;
    if (!is_there) return response.set_content(kNoRun, "text/html; charset=utf-8");
    const auto script = pages.script.empty() ? "" : way_up(request.path) + pages.script;
    send_whole(response, page(json::array(), /*live=*/true, script), "text/html; charset=utf-8");
  });
  server.Get(pages.prefix + "/events", [pages](const httplib::Request& request, httplib::Response& response) {
    response.status = 404;
    const auto runs = pages.runs(request);
    if (runs.empty()) return;
    response.status = 200;
    response.set_header("Cache-Control", "no-store");
    auto followers = std::make_shared<std::vector<RunFollower>>(follow(runs));
    const auto number = ++pages.open->num_opened;
    response.set_chunked_content_provider("text/event-stream", [open = pages.open, followers, number](size_t, httplib::DataSink& sink) {
      // The oldest page makes way for the newest; its browser asks again.
      return open->num_opened - number < open->most && send_news(*followers, sink);
    });
  });
  add_previews(server, pages);
}

}  // namespace burnish::report
