#include "adapters/targets.h"

#include <algorithm>
#include <regex>

#include "base/error.h"
#include "base/text.h"

namespace burnish::adapters {

NamedLinears all_linears(nn::Module& root) {
  NamedLinears linears;
  root.visit([&](const std::string& path, nn::Module& module) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&module)) linears.emplace_back(path, linear);
  });
  return linears;
}

namespace {

bool ends_with_name(const std::string& path, const std::string& name) {
  return path == name || (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

/// A path with a number in it lies inside a list of blocks.
bool inside_blocks(const std::string& path) {
  for (const auto& part : split_list(path, '.')) {
    if (std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; })) return true;
  }
  return false;
}

NamedLinears select(const NamedLinears& linears, const std::function<bool(const std::string&, nn::Linear&)>& wanted) {
  NamedLinears chosen;
  for (const auto& [path, linear] : linears) {
    if (wanted(path, *linear)) chosen.emplace_back(path, linear);
  }
  return chosen;
}

std::vector<std::string> names_of(const std::string& path, const AliasesOf& aliases) {
  auto names = aliases(path);
  return names.empty() ? std::vector<std::string>{path} : names;
}

NamedLinears by_regex(const NamedLinears& linears, const std::string& pattern, const AliasesOf& aliases) {
  try {
    std::regex regex(pattern);
    return select(linears, [&](const std::string& path, nn::Linear&) {
      auto names = names_of(path, aliases);
      return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return std::regex_match(name, regex); });
    });
  } catch (const std::regex_error&) {
    return {};
  }
}

NamedLinears by_names(const NamedLinears& linears, const std::vector<std::string>& names, const AliasesOf& aliases) {
  return select(linears, [&](const std::string& path, nn::Linear&) {
    auto known = names_of(path, aliases);
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return std::any_of(known.begin(), known.end(), [&](const std::string& k) { return ends_with_name(k, name); });
    });
  });
}

}  // namespace

NamedLinears match_targets(nn::Module& root, const std::string& targets, const AliasesOf& aliases) {
  auto linears = all_linears(root);
  auto names = split_list(targets);
  NamedLinears chosen;
  if (names.empty()) {
    chosen = select(linears, [](const std::string& path, nn::Linear& linear) {
      return inside_blocks(path) && std::min(linear.in_features(), linear.out_features()) >= 512;
    });
  } else if (names.size() == 1) {
    if (names[0] == "all-linear") return linears;
    chosen = by_regex(linears, names[0], aliases);
    if (chosen.empty()) chosen = by_names(linears, names, aliases);
  } else {
    chosen = by_names(linears, names, aliases);
  }
  if (chosen.empty()) {
    std::vector<std::string> some;
    for (size_t i = 0; i < linears.size() && some.size() < 4; i += std::max<size_t>(1, linears.size() / 4))
      some.push_back(linears[i].first);
    config_error("adapters", "lora_target_modules '{}' matches none of the {} linear layers; there are for example {}", targets,
                 linears.size(), join(some));
  }
  return chosen;
}

}  // namespace burnish::adapters
