#include "foreign/model_folders.h"

#include <array>
#include <string_view>

#include "base/home.h"
#include "io/files.h"

namespace burnish::foreign {

namespace fs = std::filesystem;

namespace {

/// Where a program is put below the home folder, and its folders of models below that.
struct Known {
  std::string_view program, folder;
  std::array<std::string_view, 4> models;
};

constexpr std::array<std::string_view, 4> kOfComfy{"models/diffusers", "models/checkpoints", "models/diffusion_models", "models/unet"};
constexpr std::array<std::string_view, 4> kOfWebUi{"models/Stable-diffusion", "models/diffusers"};

constexpr Known kKnown[] = {
    {"ComfyUI", "ComfyUI", kOfComfy},
    {"ComfyUI", "comfyui", kOfComfy},
    {"ComfyUI", "comfy/ComfyUI", kOfComfy},
    {"ComfyUI", "Documents/ComfyUI", kOfComfy},
    {"Stable Diffusion WebUI", "stable-diffusion-webui", kOfWebUi},
    {"Stable Diffusion WebUI Forge", "stable-diffusion-webui-forge", kOfWebUi},
    {"SwarmUI", "SwarmUI", {"Models/Stable-Diffusion", "Models/diffusion_models"}},
    {"Stability Matrix", "StabilityMatrix/Data", {"Models/StableDiffusion", "Models/DiffusionModels"}},
    {"Fooocus", "Fooocus", {"models/checkpoints"}},
};

}  // namespace

std::vector<ProgramFolder> folders_of_programs() {
  std::vector<ProgramFolder> found;
  for (const auto& known : kKnown) {
    for (auto models : known.models) {
      const auto folder = fs::path(with_home("~")) / known.folder / models;
      if (!models.empty() && io::is_folder(folder)) found.push_back({std::string(known.program), folder});
    }
  }
  return found;
}

std::string program_of(const std::string& model) {
  for (const auto& [program, folder] : folders_of_programs()) {
    if (model.starts_with(folder.string() + "/")) return program;
  }
  return "";
}

}  // namespace burnish::foreign
