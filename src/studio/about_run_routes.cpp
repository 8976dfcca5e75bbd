#include <fmt/core.h>

#include <array>

#include "io/files.h"
#include "records/previews.h"
#include "studio/files.h"
#include "studio/routes.h"
#include "studio/studio.h"
#include "studio/workspace_handlers.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kBest = "/api/runs/NAME/best";
constexpr const char* kCard = "/api/runs/NAME/card";

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

}  // namespace

void add_about_run_routes(Routes& routes, Studio& studio) {
  auto of_run = [&studio](auto handle) { return of_folder(studio.workspace.runs(), "there is no such run", handle); };
  auto& rankings = studio.runs.rankings();
  auto& cards = studio.runs.cards();
  routes.get(kBest,
             of_run([&rankings](const fs::path& run, const Request&, Response& response) { answer(response, ranking_of(rankings, run)); }));
  routes.post(kBest, {{"model", Is::texts, false}}, of_run([&rankings](const fs::path& run, const Request& request, Response& response) {
                const auto models = body_of(request).value("model", json::array());
                rankings.start(run, models.empty() ? "json = true\n" : fmt::format("json = true\nmodel = {}\n", to_toml(models)));
                done(response);
              }));
  routes.get(kCard, of_run([&cards](const fs::path& run, const Request&, Response& response) { answer(response, card_of(cards, run)); }));
  std::vector<Taken> takes{{"private", Is::truth, false}};
  for (const char* text : {"title", "base_model", "license", "description", "trigger_word", "tags", "publish"})
    takes.push_back({text, Is::text, false});
  routes.post(kCard, takes, of_run([&cards](const fs::path& run, const Request& request, Response& response) {
                auto wish = body_of(request);
                wish["overwrite"] = true;
                cards.start(run, settings_of_card(wish));
                done(response);
              }));
  for (const auto& [path, about] : {std::pair(kBest, &rankings), std::pair(kCard, &cards)}) {
    routes.post(std::string(path) + "/stop", {}, of_run([about](const fs::path& run, const Request&, Response& response) {
                  if (!about->stop(run.filename().string())) return refuse(response, 409, "nothing is being done of that");
                  done(response);
                }));
  }
}

}  // namespace burnish::studio
