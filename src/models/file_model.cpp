#include "models/file_model.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/dtype.h"
#include "base/error.h"
#include "io/files.h"
#include "models/loading.h"

namespace burnish::models {

namespace {

/// Without the layers that `wanted` has nothing of. Every layer in a file belongs to one part as a whole.
io::TensorSource only(const io::TensorSource& tensors, const io::KeyMap& keys, const io::Shapes& wanted) {
  std::vector<std::string> others;
  for (const auto& name : without_scales(tensors).names()) {
    if (!wanted.contains(keys.to_ours(name).ours[0])) others.push_back(name.substr(0, name.rfind('.') + 1));
  }
  return tensors.without(others);
}

}  // namespace

void FileModel::add_component(const std::string& name, const std::string& what, Source source) {
  if (source.entry && !source.tensors && !is_random(name)) {
    data_error("models", "{} holds a config.json and no weights; add the weights, or train from scratch with --init random",
               source.entry->label);
  }
  declared_.push_back({name, what, std::move(source)});
}

const FileModel::Declared* FileModel::declared(const std::string& component) const {
  auto name = component_of(component);
  auto it = std::find_if(declared_.begin(), declared_.end(), [&](const Declared& d) { return d.name == name; });
  return it == declared_.end() ? nullptr : &*it;
}

const Source& FileModel::source(const std::string& component) const {
  static const Source kNone;
  const auto* found = declared(component);
  return found ? found->source : kNone;
}

at::TensorOptions FileModel::options_for(const std::string& component) const {
  return at::TensorOptions().dtype(component == "vae" ? at::kFloat : options_.dtype).device(options_.device);
}

void FileModel::initialise(nn::Module&) const {
  config_error("models", "init random is not supported for this model; choose init pretrained");
}

std::unique_ptr<nn::Module> FileModel::skeleton(const std::string& component) const {
  return build(component, options_for(component).device(at::kMeta));
}

std::vector<Component> FileModel::components() const {
  std::vector<Component> list;
  for (const auto& [name, what, source] : declared_) {
    if (source.entry) list.push_back(held(name));
  }
  return list;
}

/// How a component or a part will be held; without a name when the files hold no such component.
Component FileModel::held(const std::string& component) const {
  const auto& from = source(component);
  if (!from.entry) return {};
  auto on_meta = skeleton(component);
  if (!store_of(component)) return {component, from.entry->label, on_meta->num_bytes()};
  auto plan = plan_storage(*on_meta, from.tensors ? &*from.tensors : nullptr, from.keys, *store_of(component));
  auto share = static_cast<double>(plan.stored_elements) / static_cast<double>(plan.elements);
  return {component, from.entry->label, plan.num_bytes, plan.num_stored, plan.num_kept, share};
}

void FileModel::check(const std::string& component) {
  const auto* found = declared(component);
  if (!found || !found->source.entry) {
    data_error("models", "this run needs a {}, and there is none in {}; name it with a further --model", found ? found->what : component,
               files_.describe());
  }
  load_tokenizer(component);
  if (is_random(component)) return;
  const auto& from = found->source;
  io::check_named(without_scales(*from.tensors), from.keys, shapes_of(*skeleton(component_of(component))), from.entry->label);
}

Provenance FileModel::provenance(const std::string& component) const {
  const auto& from = source(component);
  Provenance made;
  if (!from.entry) return made;
  if (from.tensors) {
    for (const auto& file : from.tensors->files()) made.files.push_back(file->path());
  }
  auto dtype = c10::typeMetaToScalarType(options_for(component).dtype());
  made.settings = fmt::format("config {}, {}", from.entry->config.dump(), dtype_name(dtype));
  if (const auto* store = store_of(component); store && !store->settings().empty()) made.settings += ", " + store->settings();
  if (auto own = settings(component); !own.empty()) made.settings += ", " + own;
  if (auto folder = tokenizer_folder(component); !folder.empty()) {
    for (const auto& file : io::glob(folder, "*")) {
      if (std::filesystem::is_regular_file(file)) made.files.push_back(file);
    }
  }
  return made;
}

void FileModel::load(const std::string& component) {
  if (loaded_.contains(component)) return;
  check(component);
  auto built = skeleton(component);
  if (is_random(component)) {
    // The whole is drawn for a part too, so that a part's numbers do not depend on what is loaded beside it.
    auto whole = skeleton(component_of(component));
    initialise(*whole);
    auto made = whole->parameters();
    built->visit_parameters([&](const std::string& path, at::Tensor& p) { p = made.at(path)->to(options_.device); });
    if (auto* store = store_of(component)) store_weights(*built, *store, options_.device);
  } else {
    const auto& from = source(component);
    bool is_part = component != component_of(component);
    load_weights(*built, is_part ? only(*from.tensors, from.keys, shapes_of(*built)) : *from.tensors, from.keys, options_for(component),
                 store_of(component), from.entry->label);
  }
  loaded_[component] = std::move(built);
}

nn::Module& FileModel::module(const std::string& component) {
  auto it = loaded_.find(component);
  for (auto name = component; it == loaded_.end() && name.find('.') != name.npos;) {
    name.resize(name.rfind('.'));
    it = loaded_.find(name);
  }
  if (it == loaded_.end() && component == component_of(component))
    it = std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& item) { return component_of(item.first) == component; });
  if (it == loaded_.end()) throw std::logic_error("component " + component + " is not loaded");
  return *it->second;
}

void FileModel::check_size(int64_t height, int64_t width) const {
  auto division = size_division();
  if (height < division || width < division || height % division || width % division)
    config_error("models", "height and width must be multiples of {} pixels for this model, not {} and {}", division, height, width);
}

std::vector<std::string> FileModel::foreign_layer(const std::string& component, const std::string& name) const {
  auto table = foreign_layers_.find(component);
  if (table == foreign_layers_.end()) return {};
  auto it = table->second.find(name);
  return it == table->second.end() ? std::vector<std::string>{} : it->second;
}

}  // namespace burnish::models
