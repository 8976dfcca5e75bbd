#include "train/samples/kept.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <stdexcept>

#include "base/input_error.h"

namespace burnish::train {

pipeline::Values Kept::values(const Pick& pick, const std::vector<std::string>& names) const {
  auto row = by_row.find(pick.row);
  if (row == by_row.end()) data_error("train", "row {} is not among the {} usable samples", pick.row, by_row.size());
  const auto& own = row->second.at(static_cast<size_t>(pick.variant));
  pipeline::Values values;
  for (const auto& name : names) {
    auto entry = own.find(name), empty = empty_caption.find(name);
    if (pick.empty_caption && empty != empty_caption.end()) entry = empty;
    else if (entry == own.end())
      data_error("train", "the list of the cache has no key for {} of row {}; it is damaged, so make the cache again", name, pick.row);
    values[name] = take(entry->second.section->at(entry->second.key), name);
  }
  return values;
}

int64_t Kept::num_complete() const {
  auto is_there = [](const CacheSlots& entries) {
    return std::all_of(entries.begin(), entries.end(), [](const auto& p) { return p.second.section->contains(p.second.key); });
  };
  if (!is_there(empty_caption)) return 0;
  return std::count_if(by_row.begin(), by_row.end(),
                       [&](const auto& item) { return std::all_of(item.second.begin(), item.second.end(), is_there); });
}

int64_t Kept::num_bytes() const {
  std::set<std::pair<data::CacheSection*, std::string>> counted;
  int64_t bytes = 0;
  for (const auto& [row, variants] : by_row) {
    for (const auto& entries : variants) {
      for (const auto& [name, entry] : entries) {
        if (!entry.section->contains(entry.key) || !counted.emplace(entry.section, entry.key).second) continue;
        bytes += data::num_bytes(entry.section->at(entry.key));
      }
    }
  }
  return bytes;
}

void put(data::Tensors& entry, const std::string& name, const pipeline::Value& value) {
  if (std::holds_alternative<std::string>(value)) throw std::logic_error("the text '" + name + "' cannot be kept in a cache");
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
    entry[name] = *tensor;
    return;
  }
  const auto& list = std::get<pipeline::TensorLists>(value).at(0);
  entry[name + ".size"] = at::tensor({std::ssize(list)});
  for (size_t i = 0; i < list.size(); ++i) entry[name + "." + std::to_string(i)] = list[i];
}

pipeline::Value take(const data::Tensors& entry, const std::string& name) {
  auto size = entry.find(name + ".size");
  if (size == entry.end()) return entry.at(name);
  std::vector<at::Tensor> list;
  for (int64_t i = 0; i < size->second.item<int64_t>(); ++i) list.push_back(entry.at(name + "." + std::to_string(i)));
  return pipeline::TensorLists{std::move(list)};
}

void check_empty_caption(const Kept& kept, const pipeline::Schedule& schedule, const InputTable& inputs) {
  auto others = inputs.labels();
  others.erase("prompt");
  auto of_caption = pipeline::label(schedule.units, {{"prompt", {.sample = true}}}, {}).values;
  auto of_others = pipeline::label(schedule.units, others, {}).values;
  for (const auto& [name, entry] : kept.by_row.begin()->second.front()) {
    if (!of_caption[name].sample || kept.empty_caption.contains(name)) continue;
    if (of_others[name].sample)
      data_error("train", "caption_dropout needs the {} of an empty caption, and here it depends on pictures as well; set it to 0", name);
    data_error("train", "caption_dropout needs the empty caption, which an imported cache does not hold; set it to 0");
  }
}

}  // namespace burnish::train
