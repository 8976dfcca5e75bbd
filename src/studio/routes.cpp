#include "studio/routes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <regex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"

namespace burnish::studio {

using nlohmann::json;

namespace {

constexpr size_t kMostBody = 4 << 20;    // of JSON; files are bounded where they are written
constexpr size_t kMostRead = 256 << 20;  // of a longer body, so that whoever sends it hears why it is refused

/// Patterns by the words of a path that stand for them; any other word in capitals stands for one part of an address.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kPathWords{{{"PLACE", "(files|loras|runs/[^/]+)"},
                                                                                   {"SHELF", "(files|loras)"},
                                                                                   {"ITEM", "(.+)"},
                                                                                   {"PATH", "(.+)"},
                                                                                   {"VERB", "(sample|convert|caption|mask)"}}};

constexpr std::array<std::string_view, 6> kKinds{"a text", "a whole number", "true or false", "a list of texts", "a list", "an object"};

bool is_text(const json& value) { return value.is_string(); }

bool is_of(Taken::Kind kind, const json& value) {
  switch (kind) {
    case Taken::Kind::text: return value.is_string();
    case Taken::Kind::whole: return value.is_number_integer();
    case Taken::Kind::truth: return value.is_boolean();
    case Taken::Kind::texts: return value.is_array() && std::ranges::all_of(value, is_text);
    case Taken::Kind::list: return value.is_array();
    case Taken::Kind::object: return value.is_object();
  }
  return false;
}

std::string kind_of(const Taken& taken) { return std::string(kKinds.at(static_cast<size_t>(taken.kind))); }

/// Refuses a body that lacks something, or holds what the route does not take.
void check_body(const Route& route, const json& body) {
  std::vector<std::string> names;
  for (const auto& taken : route.takes) {
    names.push_back(taken.name);
    if (taken.is_needed && !body.contains(taken.name))
      refuse_with(400, fmt::format("{} {} needs '{}', {}", route.method, route.path, taken.name, kind_of(taken)));
    if (body.contains(taken.name) && !is_of(taken.kind, body[taken.name]))
      refuse_with(400, fmt::format("'{}' of {} {} must be {}", taken.name, route.method, route.path, kind_of(taken)));
  }
  for (const auto& [name, value] : body.items()) {
    if (!contains(names, name))
      refuse_with(400, fmt::format("{} {} takes no '{}'; it takes {}", route.method, route.path, one_line(name),
                                   names.empty() ? "nothing" : join(names)));
  }
}

/// Reads a body into memory, whatever its media type.
std::string body_read(const Request& request, const httplib::ContentReader& read) {
  if (request.is_multipart_form_data()) refuse_with(415, "send a JSON object as the body, not a form");
  std::string body;
  size_t total = 0;
  const bool is_whole = read([&](const char* bytes, size_t count) {
    total += count;
    if (total <= kMostBody) body.append(bytes, count);
    return total <= kMostRead;
  });
  if (total > kMostBody) refuse_with(413, "the body of a request is at most 4 MiB long");
  if (!is_whole) refuse_with(400, "the body of this request broke off");
  return body;
}

/// Says what a status means that nobody gave a sentence.
std::string sentence_of(int status) {
  switch (status) {
    case 400: return "this is no request of HTTP that can be read";
    case 403: return "this may not be asked";
    case 413: return "this request is longer than any that is answered";
    case 414: return "this address is longer than any that is answered";
    case 416: return "the file has no such part";
    default: return status >= 500 ? "the studio could not answer this" : fmt::format("this cannot be answered ({})", status);
  }
}

}  // namespace

std::string pattern_of(const std::string& path) {
  std::string pattern;
  for (size_t at = 0; at < path.size();) {
    const auto end = std::min(path.find('/', at + 1), path.size());
    const std::string_view part = std::string_view(path).substr(at + 1, end - at - 1);
    const bool varies = !part.empty() && std::ranges::all_of(part, [](char c) { return c >= 'A' && c <= 'Z'; });
    const auto word = std::ranges::find(kPathWords, part, [](const auto& known) { return known.first; });
    pattern += "/";
    pattern += !varies ? part : word != kPathWords.end() ? word->second : std::string_view("([^/]+)");
    at = end;
  }
  return pattern;
}

Routes::Routes(httplib::Server& http) : http_(http) {
  http.set_error_handler([this](const Request& request, Response& response) {
    if (response.has_header("Content-Type")) return;  // what is wrong is said
    if (response.status == 404) return refuse_unknown(request, response);
    refuse(response, response.status, sentence_of(response.status));
  });
}

std::string Routes::added(Route route) {
  list_.push_back(std::move(route));
  return pattern_of(list_.back().path);
}

void Routes::get(const std::string& path, Handle handle) { http_.Get(added({"GET", path}), handled(std::move(handle))); }

void Routes::remove(const std::string& path, Handle handle) { http_.Delete(added({"DELETE", path}), handled(std::move(handle))); }

void Routes::post(const std::string& path, std::vector<Taken> takes, Handle handle) {
  const Route route{"POST", path, std::move(takes)};
  http_.Post(added(route),
             [route, handle = std::move(handle)](const Request& request, Response& response, const httplib::ContentReader& read) {
               handled([&](const Request&, Response& answered) {
                 auto whole = request;  // its matches lead into the path of the other
                 whole.body = body_read(request, read);
                 check_body(route, body_of(whole));
                 handle(whole, answered);
               })(request, response);
             });
}

void Routes::put(const std::string& path, TakeFile take) {
  http_.Put(added({.method = "PUT", .path = path, .takes_file = true}),
            [take = std::move(take)](const Request& request, Response& response, const httplib::ContentReader& read) {
              handled([&](const Request& asked, Response& answered) {
                if (asked.is_multipart_form_data()) refuse_with(415, "send the bytes of the file themselves as the body, not a form");
                take(asked, answered, read);
              })(request, response);
            });
}

json Routes::describe() const {
  auto all = json::array();
  for (const auto& route : list_) {
    auto takes = json::array();
    for (const auto& taken : route.takes) takes.push_back({{"name", taken.name}, {"kind", kind_of(taken)}, {"is_needed", taken.is_needed}});
    all.push_back({{"method", route.method}, {"path", route.path}, {"takes", takes}, {"takes_file", route.takes_file}});
  }
  return all;
}

void Routes::refuse_unknown(const Request& request, Response& response) const {
  std::vector<std::string> methods;
  for (const auto& route : list_) {
    if (std::regex_match(request.path, std::regex(pattern_of(route.path))) && !contains(methods, route.method))
      methods.push_back(route.method);
  }
  if (methods.empty()) return refuse(response, 404, "there is no such address; GET /api lists what there is");
  refuse(response, 404, fmt::format("there is no such request; this address takes {}", join(methods)));
}

}  // namespace burnish::studio
