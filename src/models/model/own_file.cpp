#include "models/model/own_file.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <set>

namespace burnish::models {

namespace {

/// Finds what stands in the file before the names of a component's tensors; nothing where it is not one and the same.
std::optional<std::string> prefix_of(const Source& source) {
  std::map<const io::TensorInfo*, std::string> in_file;  // each is one tensor of the file, whatever it is called
  for (const auto& name : source.entry->tensors->names()) in_file[&source.entry->tensors->info(name)] = name;
  std::optional<std::string> prefix;
  for (const auto& theirs : source.tensors->names()) {
    const auto found = in_file.find(&source.tensors->info(theirs));
    if (found == in_file.end() || !found->second.ends_with(theirs)) return std::nullopt;
    const auto before = found->second.substr(0, found->second.size() - theirs.size());
    if (prefix && *prefix != before) return std::nullopt;
    prefix = before;
  }
  return prefix;
}

/// Tells whether the rules of reading, taken backwards, make the very tensors that the file has.
bool is_written_as_read(const Source& source) {
  const auto shapes = source.shapes();
  std::vector<std::string> ours;
  for (const auto& [name, shape] : shapes) ours.push_back(name);
  return std::ranges::all_of(source.keys.to_file(ours), [&](const io::KeyRule& rule) {
    std::vector<at::Tensor> parts;
    for (const auto& name : rule.ours) parts.push_back(at::empty(shapes.at(name), at::TensorOptions().device(at::kMeta)));
    return source.tensors->contains(rule.theirs) && io::tensor_in_file(rule, parts).sizes() == source.tensors->info(rule.theirs).shape;
  });
}

}  // namespace

FileNames names_in_folder(const Model& model, const std::string& component) {
  const auto& usual = model.names().of(component).folder_file;
  const auto& source = model.components().source(component);
  if (source.entry == nullptr || !source.entry->tensors || source.entry->component.empty() || !source.tensors || source.is_original)
    return usual;
  const auto prefix = prefix_of(source);
  if (!prefix) return usual;
  return is_written_as_read(source) ? FileNames{*prefix, source.keys} : usual;
}

io::TensorSource unread_tensors(const ModelEntry& entry, const Components& components) {
  std::set<const io::TensorInfo*> read;
  for (const auto& component : components.list()) {
    const auto& tensors = *components.source(component.name).tensors;
    for (const auto& theirs : tensors.names()) read.insert(&tensors.info(theirs));
  }
  return entry.tensors->renamed([&](const auto& name) { return read.contains(&entry.tensors->info(name)) ? std::string() : name; });
}

}  // namespace burnish::models
