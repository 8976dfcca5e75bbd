#include "train/run/ways_to_load.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "loras/embedding_file.h"

namespace burnish::train {

namespace {

using adapters::Layout;

/// An adapter in the programs that read its layout (adapters/layout.h).
std::string in_other_programs(const TrainedFile& file, const std::filesystem::path& folder) {
  if (*file.layout == Layout::diffsynth) return "DiffSynth-Studio: pipe.load_lora with the file";
  const auto& kind = file.metadata.at("adapter");
  const bool named_by_diffusers = *file.layout == Layout::diffusers;
  std::vector<std::string> ways;
  if (!named_by_diffusers || kind != "dora")  // ComfyUI does not see a magnitude of that name
    ways.push_back(fmt::format("ComfyUI: copy {} into models/loras, and load it with Load LoRA", file.name));
  if (named_by_diffusers || (*file.layout == Layout::kohya && kind == "lora"))
    ways.push_back(fmt::format("diffusers: pipe.load_lora_weights(\"{}\", weight_name=\"{}\")", folder.string(), file.name));
  return fmt::format("{}", fmt::join(ways, "; "));
}

}  // namespace

std::vector<std::string> ways_to_load(const std::vector<TrainedFile>& files, const std::filesystem::path& folder) {
  std::vector<std::string> lines{fmt::format("draw with it: burnish sample --run '{}' --prompt \"...\"", folder.string())};
  for (const auto& file : files) {
    if (file.layout && file.is_known_elsewhere) lines.push_back(in_other_programs(file, folder));
  }
  auto is_whole = [](const TrainedFile& file) { return !file.layout && !file.metadata.contains(loras::kEmbeddingKey); };
  if (std::ranges::any_of(files, is_whole))
    lines.emplace_back(
        "whole weights: diffusers takes them in a copy of the model's folder, in place of the component's own; ComfyUI takes that folder "
        "as "
        "one file, which burnish convert FOLDER model.safetensors makes");
  return lines;
}

}  // namespace burnish::train
