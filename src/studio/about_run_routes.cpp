#include <fmt/core.h>

#include <array>

#include "io/files.h"
#include "records/previews.h"
#include "studio/files.h"
#include "studio/routes.h"
#include "studio/run_samples.h"
#include "studio/studio.h"
#include "studio/workspace_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kBest = "/api/runs/NAME/best";
constexpr const char* kCard = "/api/runs/NAME/card";
constexpr const char* kCaptions = "/api/runs/NAME/compared_captions";
constexpr const char* kGradients = "/api/runs/NAME/compared_gradients";

/// Lists the numbers of a run's previews that are pictures, by their steps.
json previews_of(const fs::path& run) {
  auto steps = json::object();
  for (const auto& preview : records::find_previews(run)) {
    const bool is_shown = preview.kind == records::PreviewKind::png || preview.kind == records::PreviewKind::webp;
    if (is_shown) steps[std::to_string(preview.step)].push_back(preview.number);
  }
  return steps;
}

json ranking_of(const AboutRuns& rankings, const fs::path& run) {
  auto standing = rankings.standing(run.filename().string());
  auto ranking = last_object_in(rankings.said(run.filename().string()));
  const bool is_ranked = ranking.is_object() && ranking.contains("saves");
  if (is_ranked) standing["says"] = "";
  standing["ranking"] = is_ranked ? std::move(ranking) : json();
  standing["previews"] = previews_of(run);
  return standing;
}

/// Says what a run's card holds, and where it was sent.
json card_of(const AboutRuns& cards, const fs::path& run) {
  auto standing = cards.standing(run.filename().string());
  const auto text = run / "card/README.md";
  standing["text"] = io::is_there(text) ? io::read_text(text) : "";
  return standing;
}

/// Options of `burnish card` as TOML.
std::string settings_of_card(const json& wish) {
  std::string settings;
  for (const auto& [name, value] : wish.items()) settings += fmt::format("{} = {}\n", name, to_toml(value));
  return settings;
}

/// Names a run as `best` and `card` take it.
std::string naming(const fs::path& run) { return fmt::format("run = {}\n", to_toml(json::array({run.string()}))); }

/// Says how a comparison of a run's samples stands, and those that it names: of which `named` is true.
json comparison_of(Studio& studio, const AboutRuns& asked, const fs::path& run, const char* named) {
  auto standing = asked.standing(run.filename().string());
  const auto said = last_object_in(asked.said(run.filename().string()));
  standing["dataset"] = dataset_of(studio, run);
  standing["samples"] = json();
  if (!said.is_object() || !said.contains("samples")) return standing;
  standing["says"] = "";
  standing["samples"] = json::array();
  for (auto sample : said["samples"]) {
    if (!sample.value(named, false)) continue;
    name_item(studio, standing["dataset"], sample);
    standing["samples"].push_back(std::move(sample));
  }
  return standing;
}

void add_comparison(Routes& routes, Studio& studio, const char* path, AboutRuns& asked, const char* question, const char* named) {
  auto of_run = [&studio](auto handle) { return of_folder(studio.workspace.runs(), "there is no such run", handle); };
  routes.get(path, of_run([&studio, &asked, named](const fs::path& run, const Request&, Response& response) {
               answer(response, comparison_of(studio, asked, run, named));
             }));
  routes.post(path, {}, of_run([&asked, question](const fs::path& run, const Request&, Response& response) {
                asked.start(run, fmt::format("json = true\nsettings = {}\n{}\n", to_toml(json((run / "config.toml").string())), question));
                done(response);
              }));
}

}  // namespace

void add_about_run_routes(Routes& routes, Studio& studio) {
  auto of_run = [&studio](auto handle) { return of_folder(studio.workspace.runs(), "there is no such run", handle); };
  auto& rankings = studio.runs.rankings();
  auto& cards = studio.runs.cards();
  routes.get(kBest,
             of_run([&rankings](const fs::path& run, const Request&, Response& response) { answer(response, ranking_of(rankings, run)); }));
  routes.post(kBest, {{"model", Is::texts, false}}, of_run([&rankings](const fs::path& run, const Request& request, Response& response) {
                const auto models = body_of(request).value("model", json::array());
                const auto model = models.empty() ? "" : fmt::format("model = {}\n", to_toml(models));
                rankings.start(run, naming(run) + "json = true\n" + model);
                done(response);
              }));
  routes.get(kCard, of_run([&cards](const fs::path& run, const Request&, Response& response) { answer(response, card_of(cards, run)); }));
  std::vector<Taken> takes{{"private", Is::truth, false}};
  for (const char* text : {"title", "base_model", "license", "description", "trigger_word", "tags", "publish"})
    takes.push_back({text, Is::text, false});
  routes.post(kCard, takes, of_run([&cards](const fs::path& run, const Request& request, Response& response) {
                auto wish = body_of(request);
                wish["overwrite"] = true;
                cards.start(run, naming(run) + settings_of_card(wish));
                done(response);
              }));
  auto &captions = studio.runs.captions(), &gradients = studio.runs.gradients();
  add_comparison(routes, studio, kCaptions, captions, "compare_captions = 4", "says_little");
  add_comparison(routes, studio, kGradients, gradients, "compare_gradients = true", "pulls_elsewhere");
  for (const auto& [path, about] :
       {std::pair(kBest, &rankings), std::pair(kCard, &cards), std::pair(kCaptions, &captions), std::pair(kGradients, &gradients)}) {
    routes.post(std::string(path) + "/stop", {}, of_run([about](const fs::path& run, const Request&, Response& response) {
                  if (!about->stop(run.filename().string())) return refuse(response, 409, "nothing is being done of that");
                  done(response);
                }));
  }
}

}  // namespace burnish::studio
