#include "adapters/targets.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/input_error.h"
#include "base/pattern.h"
#include "base/text.h"

namespace burnish::adapters {

NamedLayers all_layers(nn::Module& root) {
  NamedLayers layers;
  root.visit([&](const std::string& path, nn::Module& module) {
    if (auto* layer = dynamic_cast<nn::LinearMap*>(&module)) layers.emplace_back(path, layer);
  });
  return layers;
}

namespace {

const std::string kAllLinear = "all-linear";

bool ends_with_name(const std::string& path, const std::string& name) {
  return path == name || (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

/// Returns what stands before the numbers in a path, each a list, with the number.
std::vector<std::pair<std::string, std::string>> lists_of(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> lists;
  std::string before;
  for (const auto& part : split_list(path, '.')) {
    if (std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) lists.emplace_back(before, part);
    before += part + ".";
  }
  return lists;
}

/// The layers inside lists of more than one. Behind the one layer of a to_out there is a dropout, which has no numbers and is no module
/// here.
std::set<std::string> inside_blocks(const NamedLayers& layers) {
  std::map<std::string, std::set<std::string>> numbers;
  for (const auto& [path, layer] : layers) {
    for (const auto& [list, number] : lists_of(path)) numbers[list].insert(number);
  }
  std::set<std::string> inside;
  for (const auto& [path, layer] : layers) {
    auto lists = lists_of(path);
    if (std::any_of(lists.begin(), lists.end(),
                    [&](const auto& list) { return numbers[list.first].size() > 1 || list.first.ends_with(".to_out."); }))
      inside.insert(path);
  }
  return inside;
}

std::vector<std::string> select(const NamedLayers& layers, const std::function<bool(const std::string&, nn::LinearMap&)>& wanted) {
  std::vector<std::string> chosen;
  for (const auto& [path, layer] : layers) {
    if (wanted(path, *layer)) chosen.push_back(path);
  }
  return chosen;
}

bool is_linear(const nn::LinearMap& layer) { return dynamic_cast<const nn::Linear*>(&layer) != nullptr; }

std::vector<std::string> names_of(const std::string& path, const AliasesOf& aliases) {
  auto names = aliases(path);
  return names.empty() ? std::vector<std::string>{path} : names;
}

using Matches = std::function<bool(const std::string& name)>;

Matches by_regex(const std::string& pattern) {
  auto regex = std::make_shared<Pattern>("adapters", "lora_target_modules", pattern);
  return [regex](const std::string& name) { return regex->matches(name); };
}

Matches by_names(const std::vector<std::string>& names) {
  return [names](const std::string& known) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return ends_with_name(known, name); });
  };
}

std::vector<std::string> select(const NamedLayers& layers, const Matches& matches, const AliasesOf& aliases) {
  return select(layers, [&](const std::string& path, nn::LinearMap&) {
    auto names = names_of(path, aliases);
    return std::any_of(names.begin(), names.end(), matches);
  });
}

/// Returns how names are told that user's names, at least one, mean: a single one that matches nothing as an expression is a name.
Matches matching(const NamedLayers& layers, const std::vector<std::string>& names, const AliasesOf& aliases) {
  if (names.size() > 1) return by_names(names);
  auto regex = by_regex(names[0]);
  return select(layers, regex, aliases).empty() ? by_names(names) : regex;
}

}  // namespace

std::vector<std::string> match_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases) {
  auto layers = all_layers(root);
  auto names = split_list(targets);
  std::vector<std::string> chosen;
  if (names.empty()) {
    chosen = select(layers, [inside = inside_blocks(layers)](const std::string& path, nn::LinearMap& layer) {
      return inside.contains(path) && is_linear(layer) && std::min(layer.in_features(), layer.out_features()) >= 512;
    });
  } else if (names.size() == 1 && names[0] == kAllLinear) {
    return select(layers, [](const std::string&, nn::LinearMap& layer) { return is_linear(layer); });
  } else {
    chosen = select(layers, matching(layers, names, aliases), aliases);
  }
  if (chosen.empty()) {
    std::vector<std::string> some;
    for (size_t i = 0; i < layers.size() && some.size() < 4; i += std::max<size_t>(1, layers.size() / 4)) some.push_back(layers[i].first);
    config_error("adapters", "lora_target_modules '{}' matches none of the {} layers; there are for example {}", targets, layers.size(),
                 join(some));
  }
  return chosen;
}

std::vector<std::string> fused_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases) {
  auto names = split_list(targets);
  if (names.empty() || names == std::vector<std::string>{kAllLinear}) return {};
  auto layers = all_layers(root);
  std::map<std::string, std::set<std::string>> layers_by_name;  // one of a layer's names may be its path
  for (const auto& [path, layer] : layers) {
    for (const auto& name : names_of(path, aliases)) layers_by_name[name].insert(path);
  }
  auto matches = matching(layers, names, aliases);
  auto has_own_match = [&](const std::string& path) {
    auto known = names_of(path, aliases);
    return std::any_of(known.begin(), known.end(), [&](const auto& name) { return layers_by_name[name].size() == 1 && matches(name); });
  };
  std::vector<std::string> fused;
  for (const auto& [name, paths] : layers_by_name) {
    if (paths.size() > 1 && matches(name) && std::none_of(paths.begin(), paths.end(), has_own_match)) fused.push_back(name);
  }
  return fused;
}

std::vector<std::string> unmatched_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases) {
  auto names = split_list(targets);
  if (names.size() < 2) return {};
  auto layers = all_layers(root);
  std::erase_if(names, [&](const std::string& name) { return !select(layers, by_names({name}), aliases).empty(); });
  return names;
}

std::string nearest_target(nn::Module& root, const std::string& name, const AliasesOf& aliases) {
  auto num_parts = [](const std::string& path) { return std::ranges::count(path, '.') + 1; };
  std::set<std::string> ends;  // with as many parts as the name has
  for (const auto& [path, layer] : all_layers(root)) {
    for (auto known : names_of(path, aliases)) {
      while (num_parts(known) > num_parts(name)) known.erase(0, known.find('.') + 1);
      ends.insert(known);
    }
  }
  std::vector<std::string> candidates(ends.begin(), ends.end());
  return nearest_name(name, candidates);
}

}  // namespace burnish::adapters
