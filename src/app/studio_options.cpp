#include "app/studio_options.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/studio_settings.h"
#include "base/input_error.h"
#include "base/text.h"
#include "base/typed_path.h"
#include "config/pages.h"
#include "train/options/fields.h"

namespace burnish::app {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

studio::Options studio_options(const std::vector<std::string>& folders, bool trusts_settings) {
  if (folders.size() > 1) config_error("studio", "one folder is the workspace, not {}: {}", folders.size(), join(folders));
  train::TrainOptions options;
  config::Fields of_train;
  train::fields(of_train, options);
  const auto program = own_path();
  const fs::path workspace = typed_path(folders.empty() ? "~/burnish" : folders[0]);
  return {.folder = workspace,
          .program = program,
          .schema = config::to_json("train", "fine-tune a diffusion model", of_train),
          .form = [trusts_settings](const std::string& text) { return form_of(text, trusts_settings); },
          .problems = [workspace, trusts_settings](const std::string& verb,
                                                   const std::string& text) { return problems_of(verb, text, workspace, trusts_settings); },
          .recipes = beside(program, "recipes"),
          .demo = beside(program, "assets"),
          .trusts_settings = trusts_settings};
}

}  // namespace burnish::app
