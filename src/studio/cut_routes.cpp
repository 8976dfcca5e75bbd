#include <nlohmann/json.hpp>

#include "io/files.h"
#include "studio/dataset_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// The file of the settings of a run, or of a job; nothing where there is none.
std::optional<fs::path> settings_file(const Studio& studio, const json& body) {
  if (body.contains("run")) {
    auto run = Workspace::find(studio.workspace.runs(), body.at("run").get<std::string>());
    if (run && io::is_there(*run / "config.toml")) return *run / "config.toml";
    return std::nullopt;
  }
  const auto id = body.at("job").get<std::string>();
  for (const auto& job : studio.queue.jobs()) {
    if (job.id == id) return studio.queue.settings_of(id);
  }
  return std::nullopt;
}

/// Orders what was said by the names that the dataset's files have on the page.
json by_file(json said, const fs::path& folder) {
  auto files = json::object();
  const auto root = fs::weakly_canonical(folder);  // a dataset may be a link
  for (auto& picture : said.at("pictures")) {
    const fs::path path = picture.at("file").get<std::string>();
    files[fs::weakly_canonical(path).lexically_relative(root).string()] = std::move(picture.at("cuts"));
  }
  return {{"files", files}, {"unusable", said.at("unusable")}};
}

void say(Studio& studio, const fs::path& folder, const Request& request, Response& response) {
  const auto body = body_of(request);
  std::vector<std::string> words{"data", folder.string(), "--json", "--settings"};
  Said said;
  if (body.contains("settings")) {
    said = studio.program.run_on(body.at("settings").get<std::string>(), words);
  } else {
    const auto file = settings_file(studio, body);
    if (!file) return refuse(response, 404, "there are no such settings; name a run, a job, or give the settings themselves");
    words.push_back(file->string());
    said = studio.program.run(words);
  }
  auto value = answer_of(said, "cuts");
  if (value.contains("cuts")) value["cuts"] = by_file(std::move(value["cuts"]), folder);
  answer(response, value);
}

}  // namespace

void add_cut_routes(Routes& routes, Studio& studio) {
  routes.post("/api/datasets/NAME/cuts", {{"settings", Is::text, false}, {"run", Is::text, false}, {"job", Is::text, false}},
              of_dataset(studio, [&studio](const fs::path& folder, const Request& request, Response& response) {
                say(studio, folder, request, response);
              }));
}

}  // namespace burnish::studio
