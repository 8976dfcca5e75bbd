#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "app/run_options.h"
#include "app/verbs.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/say.h"
#include "base/text.h"
#include "config/command_line.h"
#include "config/everyday_words.h"
#include "hub/publish.h"
#include "io/files.h"
#include "io/safetensors.h"
#include "loras/embedding_file.h"
#include "models/files/hub_files.h"
#include "models/registry.h"
#include "records/saved_weights.h"
#include "report/model_card.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

struct CardChoice {
  std::vector<std::string> runs;
  std::string output, title, base_model, license, description, trigger, tags;
  int64_t num_samples = 8;
  hub::Publication hub = {};
  bool overwrite = false;
};

void fields(config::Fields& f, CardChoice& o) {
  f.group("Run");
  f.positional("run", o.runs, "folder of a training run");
  f.group("Card");
  f.path("output", o.output, "folder to write: README.md, weights, samples/; card in the run's folder without it").called(config::kOutput);
  f("title", o.title, "title of the model; that of the saved weights without it (metadata_title, output_name)");
  f("base_model", o.base_model, "id on Hugging Face of the model that was trained over; found by name without it");
  f("license", o.license, "license of the weights, as 'cc-by-4.0'; that of the saved weights without it");
  f("description", o.description, "a sentence or more on what it is for; that of the saved weights without it");
  f("trigger_word", o.trigger, "word that brings it out in a prompt; that of the datasets without it").called(config::kTrigger);
  f("tags", o.tags, "further tags, with commas between");
  f("num_samples", o.num_samples, "pictures of the run's last previews, at most").at_least(0);
  f("overwrite", o.overwrite, "replace a card that is there");
  f.group("Hub");
  f("publish", o.hub.id, "id of a model of yours on Hugging Face, as 'me/cats', which the card is sent to; it is made where there is none");
  f("private", o.hub.is_private, "make the model that publish names for you alone");
}

/// The id of the published model of that title, where there is one alone.
std::string published_id(const std::string& title) {
  std::set<std::string> ids;
  for (const auto& name : models::published_models()) {
    const auto* variant = models::find_published(name);
    if (variant != nullptr && variant->title == title && !variant->id.empty()) ids.emplace(variant->id);
  }
  return ids.size() == 1 ? *ids.begin() : "";
}

std::string base_id(const train::TrainOptions& trained, const std::string& title) {
  for (const auto& name : trained.model.model) {
    if (models::is_hub_model(name)) return name;
  }
  return published_id(title);
}

/// The task as hubs sort models by it: what is drawn, and of what.
std::string pipeline_tag(const train::TrainOptions& trained, const std::string& resolution) {
  const bool draws_clips = std::ranges::count(resolution, 'x') == 2;
  return fmt::format("{}-to-{}", trained.extra_inputs.empty() ? "text" : "image", draws_clips ? "video" : "image");
}

bool has_diffusers_names(const io::SafetensorsFile& file) {
  const auto& first = file.tensors().begin()->first;
  return first.starts_with("transformer.") || first.starts_with("unet.") || first.starts_with("text_encoder");
}

std::vector<std::pair<std::string, std::string>> facts_of(const io::Metadata& metadata) {
  static const std::pair<const char*, const char*> kRows[] = {
      {"steps", "step"},      {"samples", "ss_num_train_images"}, {"resolution", "resolution"}, {"rank", "rank"},
      {"alpha", "alpha"},     {"optimizer", "ss_optimizer"},      {"seed", "ss_seed"},          {"learning rate", "ss_learning_rate"},
      {"trainer", "trainer"},
  };
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [name, key] : kRows) {
    if (auto it = metadata.find(key); it != metadata.end()) facts.emplace_back(name, it->second);
  }
  return facts;
}

report::ModelCard card_of(const fs::path& run, const CardChoice& o) {
  const auto trained = run_options("card", run);
  report::ModelCard card;
  card.run = run;
  card.for_diffusers = true;
  io::Metadata metadata;
  std::string words;
  for (const auto& [part, path] : records::newest_weights(run, trained.output.name)) {
    const auto file = io::SafetensorsFile::open(path);
    const auto& said = file->metadata();
    const bool is_adapter = said.contains("adapter"), has_words = said.contains(loras::kEmbeddingKey);
    if (!is_adapter && !has_words)
      config_error("card",
                   "{} holds whole weights, and hubs show these as a folder of the model: make one with `burnish convert MODEL {} FOLDER`",
                   path.string(), path.string());
    if (has_words) words += (words.empty() ? "" : ", ") + said.at(loras::kEmbeddingKey);
    if (is_adapter || metadata.empty()) metadata = said;
    if (!is_adapter) {
      card.words.emplace_back(said.at(loras::kEmbeddingKey), path);
      continue;
    }
    card.weights.push_back(path);
    card.for_diffusers = card.for_diffusers && has_diffusers_names(*file) && said.at("adapter") == "lora";
  }
  const auto first = [&](const std::string& asked, const char* key) { return asked.empty() ? metadata[key] : asked; };
  card.base_title = metadata["base_model"];
  card.base_id = o.base_model.empty() ? base_id(trained, card.base_title) : o.base_model;
  card.kind = card.weights.empty() ? "textual_inversion" : metadata["adapter"];
  card.title = first(o.title, "modelspec.title");
  card.license = first(o.license, "modelspec.license");
  if (o.license.empty()) card.license_link = metadata["license_link"];
  card.license_notice = metadata["license_notice"];
  card.description = first(o.description, "modelspec.description");
  card.trigger = first(o.trigger, "modelspec.trigger_phrase");
  if (card.trigger.empty()) card.trigger = words;
  card.tags = split_list(first(o.tags, "modelspec.tags"));
  card.pipeline_tag = pipeline_tag(trained, metadata["resolution"]);
  card.facts = facts_of(metadata);
  return card;
}

/// Sends a card, and says where it is then.
void send_card(const fs::path& folder, hub::Publication publication, const hub::Settings& settings) {
  watch_for_interrupt("interrupted: ends after what is on its way");
  publication.message = "Trained with burnish";
  print("{}\n", hub::publish(folder, publication, settings));
}

}  // namespace

void card(const Arguments& arguments) {
  CardChoice o;
  config::Fields f;
  fields(f, o);
  auto parsed = config::read_command_line("card", "write a model card for what a run trained, with weights and pictures, as hubs show it",
                                          arguments, f);
  if (parsed.help) return print("{}", parsed.help_text);
  if (o.runs.size() != 1)
    config_error("card", "{} given; name the folder of one: burnish card runs/cat", o.runs.empty() ? "no run" : "several runs");
  const fs::path run = o.runs.front();
  const auto settings = hub::settings_from_environment();
  if (!o.hub.id.empty()) hub::check_publication(o.hub, settings);
  const auto folder = o.output.empty() ? run / "card" : fs::path(o.output);
  if (!o.hub.id.empty() && !o.overwrite && io::is_there(folder / "README.md"))
    return send_card(folder, o.hub, settings);  // as somebody left it
  const auto card = card_of(run, o);
  report::write_model_card(folder, card, static_cast<size_t>(o.num_samples), o.overwrite);
  print("{}\n", folder.string());
  if (card.base_id.empty())
    warn("no id of {} is known; name it with --base_model, so that the hub shows what the card is for", card.base_title);
  if (card.license.empty()) warn("the card names no license; say it with --license");
  if (!o.hub.id.empty()) return send_card(folder, o.hub, settings);
  tell(stderr, "look at README.md, then: burnish card '{}' --publish NAME/{}\n", run.string(),
       card.title.find(' ') == card.title.npos ? card.title : "MODEL");
}

}  // namespace burnish::app
