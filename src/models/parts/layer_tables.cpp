#include "models/parts/layer_tables.h"

#include <algorithm>

namespace burnish::models {

std::vector<std::string> each_behind(const std::string& prefix, std::vector<std::string> names) {
  for (auto& name : names) name = prefix + name;
  return names;
}

std::string with_underscores(std::string path) {
  std::ranges::replace(path, '.', '_');
  return path;
}

void add_blocks(RenamedLayers& all, const RenamedLayers& layers, const std::string& theirs, const std::string& ours, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    auto number = std::to_string(i) + ".";
    for (const auto& layer : layers) all.push_back({theirs + number + layer.theirs, each_behind(ours + number, layer.ours)});
  }
}

RenamedLayers with_blocks(RenamedLayers outside, const RenamedLayers& in_blocks, const std::vector<NamedStack>& stacks) {
  for (const auto& stack : stacks) add_blocks(outside, in_blocks, stack.theirs, stack.ours, stack.count);
  return outside;
}

LayerTable named_by(const RenamedLayers& layers, const std::string& kohya) {
  LayerTable table;
  for (const auto& layer : layers) table[layer.theirs] = table[kohya + with_underscores(layer.theirs)] = layer.ours;
  return table;
}

std::map<std::string, LayerTable> written_in(const RenamedLayers& originals) {
  std::map<std::string, LayerTable> written;
  for (const auto& [theirs, ours] : originals) {
    written["comfyui"]["diffusion_model." + theirs] = ours;
    written["kohya"]["lora_unet_" + with_underscores(theirs)] = ours;
  }
  return written;
}

std::map<std::string, LayerTable> written_for_all(const RenamedLayers& layers) {
  auto written = written_in(layers);
  for (const auto& layer : layers) written["diffsynth"][layer.theirs] = layer.ours;
  return written;
}

std::vector<std::string> both_names(const io::KeyMap& keys, const std::string& path) {
  const std::string suffix = ".weight";
  const auto theirs = keys.to_file(std::vector<std::string>{path + suffix}).front().theirs;
  return {path, theirs.substr(0, theirs.size() - suffix.size())};
}

void add_rules(std::vector<io::KeyRule>& rules, const RenamedLayers& layers, const std::string& theirs, const std::string& ours) {
  for (const auto& layer : layers) {
    for (const char* part : {".weight", ".bias"}) {
      auto names = each_behind(ours, layer.ours);
      for (auto& name : names) name += part;
      rules.push_back({theirs + layer.theirs + part, names, names.size() > 1 ? io::KeyRule::Op::stack_rows : io::KeyRule::Op::copy});
    }
  }
}

void add_scales(std::vector<io::KeyRule>& rules, const RenamedLayers& norms, const std::string& theirs, const std::string& ours) {
  for (const auto& norm : norms) rules.push_back({theirs + norm.theirs + ".scale", {ours + norm.ours[0] + ".weight"}});
}

}  // namespace burnish::models
