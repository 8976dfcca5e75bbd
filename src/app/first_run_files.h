#pragma once
#include "app/first_run.h"

namespace burnish::app {

/// The files of a first run, and where they go.
struct FirstRunFiles {
  std::string toml_path = {}, prompts_path = {}, run_folder = {};  ///< names seen from the current folder
  std::string toml = {}, prompts = {};                             ///< texts
};

/// Writes a word as a shell takes it.
std::string in_shell(const std::string& word);

/// Names the file of prompts beside a file of settings.
std::string prompts_path_of(const std::string& toml_path);

/// Writes settings as a TOML file that says of each what it does and what to change first, and prompts for previews. The run's folder is
/// one that is not there yet, and outside of the pictures' folder.
FirstRunFiles write_first_run(const FirstRunAnswers& answers, const FirstRun& run, const std::string& toml_path);

}  // namespace burnish::app
