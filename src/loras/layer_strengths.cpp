#include "loras/layer_strengths.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/input_error.h"
#include "base/number.h"
#include "base/numbers_by_name.h"
#include "base/text.h"
#include "models/files/loading.h"

namespace burnish::loras {

namespace {

constexpr double kMostFactor = 1000;

NumbersByName by_name(std::string_view text, const std::string& of = "the strengths of a LoRA's layers") {
  return {"loras", of, text, -kMostFactor, kMostFactor};
}

/// The names by which the layers of one component go.
class LayerPaths {
 public:
  LayerPaths(const models::Model& model, const std::string& component) : component_(component), names_(model.names().of(component)) {
    if (model.components().find(component) == nullptr) return;
    std::vector<std::string> parameters;
    for (const auto& [name, shape] : models::shapes_of(*model.components().skeleton(component))) parameters.push_back(name);
    for (const auto& rule : names_.single_file.keys.to_file(parameters)) {
      for (const auto& ours : rule.ours) in_single_file_[ours] = rule.theirs;
    }
  }

  std::vector<std::string> of(const adapters::AdapterWeights& weights) const {
    std::vector<std::string> all{component_ + "." + weights.path, weights.path};
    for (const auto& name : names_.target_names(weights.path)) all.push_back(name);
    const auto there = in_single_file_.find(adapters::parameter_of(weights));
    if (there != in_single_file_.end()) all.push_back(there->second);
    return all;
  }

 private:
  std::string component_;
  const models::ComponentNames& names_;
  std::map<std::string, std::string> in_single_file_;  ///< names of parameters there, by ours
};

/// Joins the parts of a list without blanks around them.
std::string join_trimmed(std::vector<std::string> parts) {
  for (auto& part : parts) part = std::string(trim(part));
  return join(parts, ",");
}

using Numbered = std::vector<std::vector<std::string>>;  // the names that each of several numbers is for

void add_blocks(Numbered& all, const std::string& list, const std::vector<int>& numbers) {
  for (auto number : numbers) all.push_back({fmt::format("{}.{}", list, number)});
}

std::vector<int> up_to(size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Numbered of_unet(const std::vector<int>& inputs, const std::vector<int>& outputs) {
  Numbered all{{"text_encoder", "text_encoder_2"}};
  add_blocks(all, "input_blocks", inputs);
  all.push_back({"middle_block"});
  add_blocks(all, "output_blocks", outputs);
  return all;
}

Numbered of_two_streams() {
  Numbered all{{"text_encoder"}, {"text_encoder_2"}, {"img_in", "txt_in", "time_in", "vector_in", "guidance_in"}};
  add_blocks(all, "double_blocks", up_to(19));
  add_blocks(all, "single_blocks", up_to(38));
  all.push_back({"final_layer"});
  return all;
}

/// Lists what sd-webui-lora-block-weight numbers.
const std::vector<Numbered>& numbered_elsewhere() {
  static const std::vector<Numbered> lists{of_unet({1, 2, 4, 5, 7, 8}, {3, 4, 5, 6, 7, 8, 9, 10, 11}), of_unet(up_to(12), up_to(12)),
                                           of_unet({4, 5, 7, 8}, {0, 1, 2, 3, 4, 5}), of_unet(up_to(9), up_to(9)), of_two_streams()};
  return lists;
}

/// Numbers by the names of what they are for.
std::string with_names(const Numbered& names, const std::vector<double>& numbers) {
  std::vector<std::string> entries;
  for (size_t i = 0; i < names.size(); ++i) {
    for (const auto& name : names[i]) entries.push_back(fmt::format("{}={}", name, numbers[i]));
  }
  return join(entries, ",");
}

/// Tells whether each layer of a file has one of the numbers.
bool cover(const Numbered& names, const models::Model& model, const AdaptersByComponent& adapters) {
  auto numbers = by_name(with_names(names, std::vector<double>(names.size(), 1)));
  return std::ranges::all_of(adapters, [&](const auto& of_component) {
    const LayerPaths paths(model, of_component.first);
    return std::ranges::all_of(of_component.second, [&](const auto& w) { return numbers.find(paths.of(w)).has_value(); });
  });
}

/// The blocks of the model's denoisers, each a number, behind one for all other layers where `has_others`.
Numbered blocks_of(const models::Model& model, bool has_others) {
  Numbered all;
  if (has_others) all.push_back({".*"});
  for (const auto& denoiser : model.names().denoisers()) {
    const auto paths = models::block_paths(model.components(), denoiser);
    all.resize(std::max(all.size(), paths.size() + (has_others ? 1 : 0)));
    for (size_t i = 0; i < paths.size(); ++i) all[i + (has_others ? 1 : 0)].push_back(denoiser + "." + paths[i]);
  }
  return all;
}

/// Writes them as numbers by name, one for each block.
std::string named(const std::vector<double>& numbers, const models::Model& model, const AdaptersByComponent& adapters,
                  const std::string& file) {
  std::vector<Numbered> lists;
  std::ranges::copy_if(numbered_elsewhere(), std::back_inserter(lists), [&](const auto& list) { return cover(list, model, adapters); });
  lists.push_back(blocks_of(model, false));
  lists.push_back(blocks_of(model, true));
  std::set<size_t> counts;
  for (const auto& list : lists) {
    if (list.size() == numbers.size()) return with_names(list, numbers);
    counts.insert(list.size());
  }
  config_error("loras", "{} is to have {} numbers, one for each block, and its layers take {}; or write names: attn=0.5", file,
               numbers.size(), fmt::join(counts, " or "));
}

}  // namespace

std::optional<LayerStrengths> LayerStrengths::parse(std::string_view text) {
  LayerStrengths read;
  if (text.find('=') != text.npos) {
    by_name(text);
    read.text_ = join_trimmed(split_numbers(text));
    return read;
  }
  const auto numbers = parse_numbers<double>(text);
  if (!numbers || numbers->size() < 2) return std::nullopt;
  read.text_ = join(split_list(text), ",");
  return read;
}

LayerStrengths::ByComponent LayerStrengths::of(const models::Model& model, const AdaptersByComponent& adapters,
                                               const std::string& file) const {
  ByComponent factors;
  for (const auto& [component, weights] : adapters) factors[component].assign(weights.size(), 1);
  if (!is_given()) return factors;
  const auto by_block = parse_numbers<double>(text_);
  auto numbers = by_name(by_block ? named(*by_block, model, adapters, file) : text_, "the layers of " + file);
  for (const auto& [component, weights] : adapters) {
    const LayerPaths paths(model, component);
    for (size_t i = 0; i < weights.size(); ++i) factors[component][i] = numbers.find(paths.of(weights[i])).value_or(1);
  }
  if (!by_block && !adapters.empty()) {
    const auto& [component, weights] = *adapters.begin();
    numbers.check_all_fitted(fmt::format("that it adapts, as {}.{}", component, weights.empty() ? "" : weights.front().path));
  }
  return factors;
}

}  // namespace burnish::loras
