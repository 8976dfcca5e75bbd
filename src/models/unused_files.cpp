#include "models/unused_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/input_error.h"

namespace burnish::models {

namespace {

/// Returns what the user named an entry by.
const std::string& argument_of(const ModelEntry& entry) { return entry.in_model.empty() ? entry.label : entry.in_model; }

/// The arguments of which something is read.
struct Used {
  std::set<std::string> arguments;
  bool has_model = false;  ///< whether a folder of a whole model is among them, which has tokenizers and a scheduler too
};

Used used_by(const Model& model) {
  Used used;
  std::set<const io::TensorFile*> read;  // some components are of the files of several entries
  for (const auto& [name, names] : model.names().components) {
    const auto& source = model.components().source(name);
    if (source.entry == nullptr) continue;
    used.arguments.insert(argument_of(*source.entry));
    used.has_model |= !source.entry->in_model.empty();
    if (!source.tensors) continue;
    for (const auto& file : source.tensors->files()) read.insert(file.get());
  }
  for (const auto& entry : model.files().entries) {
    if (entry.tensors && std::ranges::any_of(entry.tensors->files(), [&](const auto& file) { return read.contains(file.get()); }))
      used.arguments.insert(argument_of(entry));
  }
  return used;
}

bool is_adapter(const io::TensorSource& tensors) {
  return std::ranges::any_of(tensors.names(), [](const std::string& name) {
    const auto has = [&](const char* part) { return name.find(part) != name.npos; };
    return has("lora_") || has("lokr_") || has("hada_") || has(".oft_");
  });
}

/// Says what an entry holds of which nothing is read, and what to do.
std::string why_unused(const ModelEntry& entry, const Model& model, const std::vector<const Family*>& families) {
  if (entry.tensors && is_adapter(*entry.tensors))
    return "it is an adapter, which --lora_checkpoint trains on, --preset_lora_path merges, and --lora draws with";
  for (const auto* family : families) {
    if (family->name != model.names().family) continue;
    if (const auto words = family->describe(entry); !words.empty())
      return fmt::format("it holds {}, which other files of this {} hold too or which it does not read; name one of them, or take it out",
                         words, model.names().variant);
  }
  for (const auto* family : families) {
    if (const auto words = family->describe(entry); !words.empty())
      return fmt::format("it holds {}, and the model is {}; take it out", words, model.names().variant);
  }
  const auto names = entry.tensors ? entry.tensors->names() : std::vector<std::string>();
  if (names.empty()) return "it has no weights";
  return fmt::format(
      "its {} tensors ('{}' first) are called as those of no part of {}; take it out, or rename them as another program "
      "writes them",
      names.size(), names.front(), model.names().variant);
}

/// The parts that the user named as one.
ModelFiles parts_of(const std::string& argument, const ModelFiles& files) {
  ModelFiles parts;
  std::ranges::copy_if(files.entries, std::back_inserter(parts.entries), [&](const auto& entry) { return argument_of(entry) == argument; });
  return parts;
}

}  // namespace

void refuse_unused(const Model& model, const std::vector<const Family*>& families) {
  const auto used = used_by(model);
  for (const auto& entry : model.files().entries) {
    const auto& argument = argument_of(entry);
    if (used.arguments.contains(argument)) continue;
    const auto parts = parts_of(argument, model.files());
    const bool is_of_family = std::ranges::any_of(
        families, [&](const auto* family) { return family->name == model.names().family && family->recognises(parts); });
    if (!entry.in_model.empty() && is_of_family && !used.has_model) continue;
    const auto other = std::ranges::find_if(families, [&](const auto* family) { return family->recognises(parts); });
    if (parts.entries.size() > 1 && other != families.end())
      data_error("models",
                 "{} is named and nothing of it is read: it is a model of the family {}, and the one that is opened is {}; take one out",
                 argument, (*other)->name, model.names().variant);
    data_error("models", "{} is named and nothing of it is read: {}", argument, why_unused(entry, model, families));
  }
}

}  // namespace burnish::models
