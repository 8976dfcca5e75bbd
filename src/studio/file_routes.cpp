#include <fmt/core.h>

#include "io/files.h"
#include "report/local_server.h"
#include "studio/arrival.h"
#include "studio/bin.h"
#include "studio/routes.h"
#include "studio/runs.h"
#include "studio/studio.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kMostOfWeights = size_t{64} << 30;

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
  make_folder(path->parent_path());
  Arrival arrival(path->parent_path());
  take_file(arrival.path(), path->filename().string(), kMostOfWeights, read);
  const auto name = path->filename().string();
  const bool is_part = path->parent_path().parent_path() != studio.workspace.root();  // other files of its folder name it
  if (!is_part) return answer(response, {{"name", arrival.settle(name)}});
  if (!arrival.settle_as(name))
    refuse_with(409, fmt::format("there is a {} already; put the folder here under another name", named_by(request).name));
  answer(response, {{"name", name}});
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

void add_conversions(Routes& routes, Studio& studio) {
  auto& conversions = studio.files.conversions();
  routes.get("/api/conversions", [&conversions](const Request&, Response& response) {
    auto all = json::array();
    for (const auto& job : conversions.jobs()) all.push_back(describe(conversions, job));
    answer(response, all);
  });
  routes.post(
      "/api/conversions", {{"inputs", Is::list}, {"name", Is::text}, {"settings", Is::text, false}},
      [&studio](const Request& request, Response& response) { answer(response, to_json(convert(studio.files, body_of(request)))); });
  routes.post("/api/conversions/ID/stop", {}, [&conversions](const Request& request, Response& response) {
    for (const auto& one : conversions.jobs()) {
      if (one.id == request.matches[1] && interrupt(one)) return done(response);
    }
    refuse(response, 409, "no such conversion goes on");
  });
  routes.remove("/api/conversions/ID", [&conversions](const Request& request, Response& response) {
    if (!conversions.remove(request.matches[1])) return refuse(response, 404, "there is no such conversion, or it goes on");
    done(response);
  });
}

}  // namespace

void add_file_routes(Routes& routes, Studio& studio) {
  routes.get("/api/files", [&studio](const Request&, Response& response) { answer(response, studio.files.list()); });
  routes.get("/api/inspect/PLACE/PATH", of_file(studio, [&studio](const fs::path& path, const Request&, Response& response) {
               inspect(studio.program, path, response);
             }));
  routes.get("/api/files/PLACE/PATH", of_file(studio, [](const fs::path& path, const Request&, Response& response) {
               if (io::is_folder(path)) return refuse(response, 400, "a folder is taken away file by file");
               send_file(path, response);
             }));
  routes.remove("/api/files/SHELF/NAME", of_file(studio, [&studio](const fs::path& path, const Request&, Response& response) {
                  answer(response, {{"bin", throw_away(studio.workspace, path)}});
                }));
  routes.put("/api/files/SHELF/PATH", [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    take(studio, request, response, read);
  });
  routes.get("/api/options/VERB", [&studio](const Request& request, Response& response) {
    report::send_whole(response, studio.program.options_of(request.matches[1]), "application/json");
  });
  add_conversions(routes, studio);
}

}  // namespace burnish::studio
