#include "app/drawn_variants.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/input_error.h"
#include "base/text.h"
#include "loras/merged.h"

namespace burnish::app {

namespace {

/// The paths of blocks of the model's denoisers that a LoRA adapts; experts have them alike.
std::vector<std::string> adapted_blocks(models::Model& model, const loras::LoraFile& file) {
  std::vector<std::string> blocks;
  const auto adapters = loras::read(model, file.path);
  for (const auto& [component, weights] : adapters) {
    if (!model.names().is_denoiser(component)) continue;
    for (const auto& block : models::block_paths(model.components(), component)) {
      const bool is_adapted = std::ranges::any_of(weights, [&](const auto& w) { return lies_below(w.path, block); });
      if (is_adapted && !contains(blocks, block)) blocks.push_back(block);
    }
  }
  return blocks;
}

std::string with_number(const std::vector<std::string>& blocks, int number) {
  std::vector<std::string> entries;
  for (const auto& block : blocks) entries.push_back(fmt::format("{}={}", block, number));
  return fmt::format("{}", fmt::join(entries, ","));
}

std::vector<DrawnVariant> without_blocks(SampleOptions& o, models::Model& model) {
  if (o.lora.size() != 1) config_error("sample", "without_blocks leaves blocks of one LoRA out, and {} has {}", o.run, o.lora.size());
  auto file = loras::parse_lora_file(o.lora.front());
  if (file.layers.is_given())
    config_error("sample", "without_blocks leaves out blocks by itself, and {} has strengths of layers; take one out", o.lora.front());
  const auto blocks = adapted_blocks(model, file);
  const auto num_groups = static_cast<size_t>(o.without_blocks);
  if (blocks.size() < num_groups)
    config_error("sample", "without_blocks {} is more than the {} blocks that {} adapts", o.without_blocks, blocks.size(), file.path);
  file.layers = *loras::LayerStrengths::parse(with_number(blocks, 0));
  o.lora = {loras::text_of(file)};
  std::vector<DrawnVariant> variants{{"", std::vector<double>(num_groups + 1, 1)}};
  for (size_t group = 0; group < num_groups; ++group) {
    const auto begin = blocks.size() * group / num_groups, end = blocks.size() * (group + 1) / num_groups;
    const std::vector<std::string> of_group(blocks.begin() + static_cast<ptrdiff_t>(begin), blocks.begin() + static_cast<ptrdiff_t>(end));
    file.layers = *loras::LayerStrengths::parse(".*=0," + with_number(of_group, 1));
    o.lora.push_back(loras::text_of(file));
    const auto numbers = end - begin == 1 ? std::to_string(begin) : fmt::format("{}-{}", begin, end - 1);
    variants.push_back({numbers, variants.front().factors,
                        of_group.size() == 1 ? of_group.front() : fmt::format("{} to {}", of_group.front(), of_group.back())});
    variants.back().factors[group + 1] = 0;
  }
  return variants;
}

}  // namespace

std::vector<DrawnVariant> variants_of(SampleOptions& o, models::Model& model) {
  if (o.without_blocks > 0) return without_blocks(o, model);
  std::vector<DrawnVariant> variants;
  for (auto factor : strengths_of(o)) variants.push_back({fmt::format("{}", factor), std::vector<double>(o.lora.size(), factor)});
  return variants;
}

std::vector<drawing::Picture> at_variants(const std::vector<drawing::Picture>& pictures, const std::vector<DrawnVariant>& variants) {
  std::vector<drawing::Picture> all;
  for (const auto& variant : variants) {
    for (auto picture : pictures) {
      // The groups of one LoRA all have its strength.
      if (picture.strengths.size() < variant.factors.size()) picture.strengths.resize(variant.factors.size(), picture.strengths.front());
      for (size_t i = 0; i < variant.factors.size(); ++i) picture.strengths[i] *= variant.factors[i];
      all.push_back(std::move(picture));
    }
  }
  return all;
}

}  // namespace burnish::app
