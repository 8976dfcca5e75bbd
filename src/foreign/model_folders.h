#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::foreign {

/// A folder in which another program keeps models.
struct ProgramFolder {
  std::string program;  ///< "ComfyUI"
  std::filesystem::path path;
};

/// Lists the folders of models of ComfyUI and others that are there, where these programs put them below the home folder.
std::vector<ProgramFolder> folders_of_programs();

/// Returns the program in whose folder a model lies; "" for none.
std::string program_of(const std::string& model);

}  // namespace burnish::foreign
