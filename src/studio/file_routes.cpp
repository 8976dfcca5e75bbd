#include <fmt/core.h>

#include "io/files.h"
#include "report/local_server.h"
#include "studio/bin.h"
#include "studio/json_responses.h"
#include "studio/runs.h"
#include "studio/studio.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kMostOfWeights = size_t{64} << 30;
constexpr const char* kFile = "/api/files/(files|loras|runs/[^/]+)/(.+)";

WeightFile named_by(const Request& request) { return {request.matches[1], request.matches[2]}; }

/// A handler that is given the path of what the address names; 404 where there is none.
template <typename Handle>
httplib::Server::Handler of_file(const Studio& studio, Handle handle) {
  return handled([&studio, handle](const Request& request, Response& response) {
    const auto path = studio.files.find(named_by(request));
    if (!path) return refuse(response, 404, "there is no such file");
    handle(*path, request, response);
  });
}

void take(const Studio& studio, const Request& request, Response& response, const httplib::ContentReader& read) {
  const auto path = studio.files.path_to_add(named_by(request));
  if (!path)
    return refuse(response, 400,
                  fmt::format("'{}' is no file of a model or LoRA by its ending: .safetensors, .pth, .pt, .bin or .ckpt, and in folders "
                              ".json, .txt and .model too",
                              named_by(request).name));
  if (const auto length = request.get_header_value<uint64_t>("Content-Length"); length > 0) io::check_space(*path, length);
  if (take_file(*path, kMostOfWeights, response, read)) answer(response, {{"name", path->filename().string()}});
}

/// Answers with what `burnish inspect` says.
void inspect(Program& program, const fs::path& path, Response& response) {
  const auto said = program.run({"inspect", path.string(), "--json"});
  auto reports = json::parse(said.output, nullptr, /*allow_exceptions=*/false);
  json value{{"reports", reports.is_array() ? std::move(reports) : json::array()}};
  if (said.exit_code != 0) value["sentence"] = sentence_of(said);
  answer(response, value);
}

json describe(Queue& conversions, const Job& job) {
  auto value = to_json(job);
  value["name"] = job.run;
  value["says"] = conversions.says(job.id);
  return value;
}

Job convert(Files& files, const json& body) {
  std::vector<WeightFile> inputs;
  for (const auto& input : body.at("inputs")) inputs.push_back(weight_file_of(input));
  return files.convert(inputs, body.at("name").get<std::string>(), body.value("settings", ""));
}

void add_conversions(httplib::Server& http, Studio& studio) {
  auto& conversions = studio.files.conversions();
  http.Get("/api/conversions", handled([&conversions](const Request&, Response& response) {
             auto all = json::array();
             for (const auto& job : conversions.jobs()) all.push_back(describe(conversions, job));
             answer(response, all);
           }));
  http.Post("/api/conversions", handled([&studio](const Request& request, Response& response) {
              answer(response, to_json(convert(studio.files, body_of(request))));
            }));
  const std::string job = "/api/conversions/([^/]+)";
  http.Post(job + "/stop", handled([&conversions](const Request& request, Response& response) {
              for (const auto& one : conversions.jobs()) {
                if (one.id == request.matches[1] && interrupt(one)) return done(response);
              }
              refuse(response, 409, "no such conversion goes on");
            }));
  http.Delete(job, handled([&conversions](const Request& request, Response& response) {
                if (!conversions.remove(request.matches[1])) return refuse(response, 404, "there is no such conversion, or it goes on");
                done(response);
              }));
}

}  // namespace

void add_file_routes(httplib::Server& http, Studio& studio) {
  const std::string file = kFile;
  http.Get("/api/files", handled([&studio](const Request&, Response& response) { answer(response, studio.files.list()); }));
  http.Get(
      "/api/inspect/(files|loras|runs/[^/]+)/(.+)",
      of_file(studio, [&studio](const fs::path& path, const Request&, Response& response) { inspect(studio.program, path, response); }));
  http.Get(file, of_file(studio, [](const fs::path& path, const Request&, Response& response) {
             if (io::is_folder(path)) return refuse(response, 400, "a folder is taken away file by file");
             send_file(path, response);
           }));
  http.Delete("/api/files/(files|loras)/([^/]+)", of_file(studio, [&studio](const fs::path& path, const Request&, Response& response) {
                answer(response, {{"bin", throw_away(studio.workspace, path)}});
              }));
  http.Put("/api/files/(files|loras)/(.+)", [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    handled([&](const Request& asked, Response& answered) { take(studio, asked, answered, read); })(request, response);
  });
  http.Get("/api/options/(sample|convert|caption|mask)", handled([&studio](const Request& request, Response& response) {
             report::send_whole(response, studio.program.options_of(request.matches[1]), "application/json");
           }));
  add_conversions(http, studio);
}

}  // namespace burnish::studio
