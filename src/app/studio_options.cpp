#include "app/studio_options.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "config/pages.h"
#include "config/refusal.h"
#include "train/options/check.h"
#include "train/options/fields.h"
#include "train/options/idle_options.h"

namespace burnish::app {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json value_of(const config::Field& field) {
  return std::visit([](const auto* value) { return json(*value); }, field.slot);
}

/// studio::Options::form.
json form_of(const std::string& settings, bool trusts_settings) {
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  json form{{"values", json::object()}, {"problems", json::array()}, {"idle", json::array()}};
  try {
    config::read_toml_text(settings, fields, trusts_settings);
    for (const auto& idle : train::idle_options(options))
      form["idle"].push_back({{"option", idle.option}, {"belongs_to", idle.belongs_to}});
    train::check(options);
  } catch (const config::Refusal& refusal) {
    form["problems"] = json::parse(config::to_json(refusal.problems())).at("problems");
  } catch (const Error& error) {
    form["problems"].push_back({{"option", ""}, {"sentence", without_source(error)}});
  }
  for (const auto& field : fields.list()) form["values"][field.name] = value_of(field);
  return form;
}

std::string own_path() {
  std::error_code error;
  auto path = fs::read_symlink("/proc/self/exe", error);
  if (error) config_error("studio", "the program cannot find itself: {}", error.message());
  return path.string();
}

/// Finds a folder that comes with the program: in its packages, where it is installed, and where it was built.
fs::path beside(const fs::path& program, const std::string& name) {
  for (const char* place : {"", "../share/burnish", ".."}) {
    auto folder = program.parent_path() / place / name;
    if (fs::is_directory(folder)) return folder.lexically_normal();
  }
  return {};
}

fs::path default_folder() {
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? fs::path(home) / "burnish" : fs::path("burnish");
}

}  // namespace

studio::Options studio_options(const std::vector<std::string>& folders, bool trusts_settings) {
  if (folders.size() > 1) config_error("studio", "one folder is the workspace, not {}: {}", folders.size(), join(folders));
  train::TrainOptions options;
  config::Fields of_train;
  train::fields(of_train, options);
  const auto program = own_path();
  return {.folder = folders.empty() ? default_folder() : fs::path(folders[0]),
          .program = program,
          .schema = config::to_json("train", "fine-tune a diffusion model", of_train),
          .form = [trusts_settings](const std::string& text) { return form_of(text, trusts_settings); },
          .recipes = beside(program, "recipes"),
          .demo = beside(program, "assets"),
          .trusts_settings = trusts_settings};
}

}  // namespace burnish::app
