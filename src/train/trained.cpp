#include "train/trained.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "adapters/adapter_config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers_by_name.h"
#include "base/random_key.h"
#include "base/text.h"
#include "io/checkpoint_files.h"
#include "loras/lora_file.h"
#include "quant/trained_codes.h"
#include "train/checkpoint_agreement.h"
#include "train/training_units.h"

namespace burnish::train {

namespace {

std::string targets_of(const TrainedSettings& settings, const models::Model& model, const std::string& component) {
  return settings.targets ? *settings.targets : model.names().of(component).lora_targets;
}

int64_t whole_rank(double rank) {
  if (rank != std::floor(rank)) config_error("train", "lora_rank_groups must hold whole numbers, not {}", rank);
  return static_cast<int64_t>(rank);
}

std::string type_of(const adapters::Adapter& adapter) {
  return adapter.is_dora() ? "dora" : std::string(adapters::kind_name(adapter.update().kind()));
}

/// Which programs make of a DoRA what was trained.
const char* readers_of(adapters::NormAxis axis) {
  return axis == adapters::NormAxis::input
             ? "dora_norm input: OneTrainer and ComfyUI load such a file as it was trained; peft, diffusers and LyCORIS do not"
             : "dora_norm output: peft and diffusers load such a file as it was trained; ComfyUI may take norms of the base alone";
}

}  // namespace

Trained::Trained(const TrainedSettings& settings, models::Model& model) : settings_(settings), model_(&model) {
  names_ = pipeline::components_of(training_units(model));
  for (const auto& name : settings.whole) add_whole(name);
  for (const auto& name : settings.adapted) add_adapters(component_called(name, names_));
  bool from_file = !settings.lora_checkpoint.empty() && settings.adapted.empty();  // then the file decides
  if (from_file && !whole_.empty())
    config_error("train",
                 "trainable_models and lora_checkpoint are given, and lora_base_model does not say what carries the adapters; name it, or "
                 "give one of them");
  if (whole_.empty() && adapted_components_.empty() && !from_file) add_adapters(model.names().denoiser());
  if (settings.from_scratch && !whole_components().contains(model.names().denoiser()))
    config_error("train", "init random needs trainable_models {}; a LoRA on random weights teaches nothing", model.names().denoiser());
  check_rates();
  choose_layers();
}

void Trained::add_whole(const std::string& name) {
  auto dot = name.find('.');
  auto component = component_called(name.substr(0, dot), names_);
  auto path = dot == name.npos ? "" : name.substr(dot + 1);
  auto full = path.empty() ? component : component + "." + path;
  for (const auto& other : whole_) {
    if (pipeline::overlap(other.name, full))
      config_error("train", "trainable_models names {} and {}, which are the same weights", other.name, full);
  }
  whole_.push_back({full, component, path});
}

void Trained::add_adapters(const std::string& component) {
  if (whole_components().contains(component))
    config_error(
        "train",
        "{} is to train whole (trainable_models) and under an adapter (lora_base_model or lora_checkpoint); take it out of one of them",
        component);
  for (const auto& other : adapted_components_) {
    if (other.component == component) config_error("train", "lora_base_model names {} twice", component);
  }
  adapted_components_.push_back({component, {}, {}, {}, {}, {}});
}

void Trained::check_rates() const {
  for (const auto& [name, rate] : settings_.component_rates) {
    if (name.empty()) continue;
    auto component = component_called(name, names_);
    bool trains = whole_components().contains(component) || std::any_of(adapted_components_.begin(), adapted_components_.end(),
                                                                        [&](const auto& a) { return a.component == component; });
    if (!trains && settings_.lora_checkpoint.empty())
      config_error("train",
                   "text_encoder_lr gives a learning rate for {}, which does not train; name it in lora_base_model or trainable_models",
                   name);
  }
}

std::set<std::string> Trained::whole_components() const {
  std::set<std::string> components;
  for (const auto& whole : whole_) components.insert(whole.component);
  return components;
}

std::map<std::string, std::vector<std::string>> Trained::whole_paths() const {
  std::map<std::string, std::vector<std::string>> paths;
  for (const auto& whole : whole_) paths[whole.component].push_back(whole.path);
  return paths;
}

/// The layers that are to carry adapters when no file decides it.
std::vector<std::string> Trained::targeted(const std::string& component) const {
  auto skeleton = model_->components().skeleton(component);
  auto names = [&](const std::string& path) { return model_->names().of(component).target_names(path); };
  return adapters::match_targets(*skeleton, targets_of(settings_, *model_, component), names);
}

void Trained::read_checkpoint() {
  auto by_component = loras::read(*model_, settings_.lora_checkpoint);
  if (adapted_components_.empty()) {
    for (const auto& [component, weights] : by_component) add_adapters(component);
  }
  auto asked = settings_.adapter;
  // The header says the alpha also where a format has the scale multiplied into the weights.
  auto metadata = io::TensorSource::open({adapters::find_adapter(settings_.lora_checkpoint).tensors}).metadata();
  auto given = settings_.given;
  if (metadata["alpha"] == fmt::format("{}", asked.alpha)) {
    asked.alpha = 0;
    std::erase(given, "lora_alpha");
  }
  for (auto& adapters : adapted_components_) {
    if (!by_component.contains(adapters.component))
      config_error("train", "lora_base_model names {}, and {} holds no adapters of it; take it out, or give another file",
                   adapters.component, settings_.lora_checkpoint);
    adapters.weights = std::move(by_component.at(adapters.component));
    by_component.erase(adapters.component);
    adapters::check_trainable(*model_->components().skeleton(adapters.component), adapters.weights, settings_.lora_checkpoint);
    for (const auto& w : adapters.weights) adapters.paths.push_back(w.path);
    check_agreement(asked, given, adapters.weights, settings_.lora_checkpoint);
    if (settings_.targets) check_same_layers(targeted(adapters.component), adapters.paths, adapters.component, settings_.lora_checkpoint);
  }
  if (!by_component.empty())
    config_error("train", "{} holds adapters of {}, which lora_base_model leaves out; name it too", settings_.lora_checkpoint,
                 by_component.begin()->first);
  rank_ = adapters::rank_of(adapted_components_[0].weights[0]);
}

void Trained::choose_layers() {
  rank_ = settings_.adapter.rank;
  for (const auto& whole : whole_) {
    if (whole.path.empty() || !model_->components().has(whole.component)) continue;
    auto skeleton = model_->components().skeleton(whole.component);
    auto slots = skeleton->parameters();
    if (std::none_of(slots.begin(), slots.end(), [&](const auto& slot) { return lies_below(slot.first, whole.path); }))
      config_error("train", "trainable_models names {}, and {} has no such part", whole.name, whole.component);
  }
  if (!settings_.lora_checkpoint.empty()) return read_checkpoint();
  for (auto& adapters : adapted_components_) {
    if (model_->components().has(adapters.component)) adapters.paths = targeted(adapters.component);
  }
  if (settings_.targets) check_all_targets_matched();
  choose_ranks();
  choose_fused();
  check_layout();
}

/// A name that is misspelled must not look like layers that train.
void Trained::check_all_targets_matched() const {
  std::map<std::string, std::string> nearest;  // of the names that match in no component so far
  bool is_first = true;
  for (const auto& adapters : adapted_components_) {
    if (!model_->components().has(adapters.component)) continue;
    auto skeleton = model_->components().skeleton(adapters.component);
    auto aliases = [&](const std::string& path) { return model_->names().of(adapters.component).target_names(path); };
    auto unmatched = adapters::unmatched_targets(*skeleton, *settings_.targets, aliases);
    if (is_first) {
      for (const auto& name : unmatched) nearest[name] = "";
    }
    std::erase_if(nearest, [&](const auto& item) { return !contains(unmatched, item.first); });
    for (auto& [name, near] : nearest) {
      if (near.empty()) near = adapters::nearest_target(*skeleton, name, aliases);
    }
    is_first = false;
  }
  if (nearest.empty()) return;
  const auto& [name, near] = *nearest.begin();
  config_error("train", "lora_target_modules names '{}', and no layer is called so{}; correct it, or take it out", name,
               near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
}

void Trained::choose_ranks() {
  NumbersByName ranks("train", "lora_rank_groups", settings_.rank_groups, 1), alphas("train", "lora_alpha_groups", settings_.alpha_groups);
  for (auto& adapters : adapted_components_) {
    for (const auto& path : adapters.paths) {
      auto& options = adapters.options[path] = settings_.adapter;
      auto full = adapters.component + "." + path;
      if (auto rank = ranks.find(full)) options.rank = whole_rank(*rank);
      if (auto alpha = alphas.find(full)) options.alpha = *alpha;
    }
  }
  ranks.check_all_fitted();
  alphas.check_all_fitted();
}

/// After choose_ranks: layers that share an adapter have one rank.
void Trained::choose_fused() {
  for (auto& adapters : adapted_components_) {
    if (!model_->components().has(adapters.component)) continue;
    const auto& names = model_->names().of(adapters.component);
    auto skeleton = model_->components().skeleton(adapters.component);
    auto aliases = [&](const std::string& path) { return names.target_names(path); };
    for (const auto& name : adapters::fused_targets(*skeleton, targets_of(settings_, *model_, adapters.component), aliases)) {
      adapters.fused.push_back(names.foreign_layer(name));
      const auto& layers = adapters.fused.back();
      const auto& first = adapters.options.at(layers.at(0));
      for (const auto& layer : layers) {
        const auto& own = adapters.options.at(layer);
        if (own.rank != first.rank || own.alpha != first.alpha)
          config_error("train",
                       "lora_target_modules names {}, of which {} and {} share an adapter, and they have different ranks or alphas by "
                       "groups; name the whole of it there, or the single layers as targets",
                       name, layers[0], layer);
      }
    }
  }
}

/// Lays out adapters of rank 1 on layers without weights: what cannot be written is said before anything is computed. Ranks that a layout
/// cannot hold side by side are said when the adapters themselves are there (start).
void Trained::check_layout() const {
  if (settings_.layout == adapters::Layout::automatic || settings_.adapter.type == "full") return;
  for (const auto& a : adapted_components_) {
    if (!model_->components().has(a.component)) continue;
    auto skeleton = model_->components().skeleton(a.component);
    auto small = settings_.adapter;
    small.rank = 1;
    if (small.type == "dora") small.type = "lora";  // a magnitude needs the weight
    auto adapted = adapters::attach(
        *skeleton, [&](const std::string&) { return small; }, a.paths, 0, nullptr, a.fused, c10::Device(c10::kCPU));
    adapters::adapter_tensors(adapted, loras::layer_prefixes(*model_, a.component), at::kFloat, settings_.layout);
  }
}

void Trained::check_groups(const optim::GroupOptions& groups, double learning_rate) const {
  optim::ParameterList named;  // by name alone
  for (const auto& a : adapted_components_) {
    if (!model_->components().has(a.component)) return;
    for (const auto& w : a.weights) {
      for (const auto& [name, value] : w.parameters) named.push_back({a.component + "." + w.path + "." + name, {}});
      if (w.magnitude.m.defined()) named.push_back({a.component + "." + w.path + ".lora_magnitude_vector", {}});
    }
    for (const auto& [path, options] : a.options) {
      for (const auto& name : adapters::parameter_names(options)) named.push_back({a.component + "." + path + "." + name, {}});
    }
  }
  for (const auto& whole : whole_) {
    if (!model_->components().has(whole.component)) return;
    auto skeleton = model_->components().skeleton(whole.component);
    for (const auto& [path, slot] : skeleton->parameters()) {
      if (lies_below(path, whole.path)) named.push_back({whole.component + "." + path, {}});
    }
  }
  optim::apply_groups(named, groups, learning_rate);
}

/// The ranks that a component's adapters have, in the order of their layers.
std::string Trained::ranks(const Adapters& adapters) const {
  std::vector<std::string> ranks;
  for (const auto& path : adapters.paths) {
    auto it = adapters.options.find(path);
    auto rank = std::to_string(it == adapters.options.end() ? rank_ : it->second.rank);
    if (!contains(ranks, rank)) ranks.push_back(rank);
  }
  return ranks.empty() ? std::to_string(rank_) : join(ranks, "/");
}

bool Trained::trains(const std::string& component, const std::string& path) const {
  auto layer = path.substr(0, path.rfind('.'));
  return std::any_of(whole_.begin(), whole_.end(), [&](const auto& w) { return w.component == component && lies_below(path, w.path); }) ||
         std::any_of(adapted_components_.begin(), adapted_components_.end(),
                     [&](const auto& a) { return a.component == component && contains(a.paths, layer); });
}

std::set<std::string> Trained::models() const {
  std::set<std::string> all, components = whole_components();
  for (const auto& adapters : adapted_components_) components.insert(adapters.component);
  for (const auto& component : components) {
    auto parts = model_->components().parts(component);
    for (const auto& part : parts) {
      if (parts.size() == 1 || !model_->components().has(component)) {
        all.insert(part);
        continue;
      }
      auto skeleton = model_->components().skeleton(part);
      auto slots = skeleton->parameters();
      if (std::any_of(slots.begin(), slots.end(), [&](const auto& slot) { return trains(component, slot.first); })) all.insert(part);
    }
  }
  return all;
}

std::string Trained::text() const {
  std::vector<std::string> texts;
  for (const auto& whole : whole_) texts.push_back(whole.name == model_->names().denoiser() ? "full" : "full " + whole.name);
  for (const auto& a : adapted_components_) {
    auto where = a.component == model_->names().denoiser() ? "" : " of " + a.component;
    bool has_rank = settings_.adapter.type != "full";
    texts.push_back(
        fmt::format("{} on {} layers{}", has_rank ? settings_.adapter.type + " rank " + ranks(a) : "full deltas", a.paths.size(), where));
  }
  return join(texts);
}

void Trained::start(const std::shared_ptr<const adapters::Dropout>& dropout) {
  for (const auto& component : names_) {
    bool whole = whole_components().contains(component);
    auto it = std::find_if(adapted_components_.begin(), adapted_components_.end(), [&](const auto& a) { return a.component == component; });
    if (!whole && it == adapted_components_.end()) continue;
    auto& root = model_->components().module(component);
    root.visit_parameters([&](const std::string& path, at::Tensor& p) {
      p.set_requires_grad(
          std::any_of(whole_.begin(), whole_.end(), [&](const auto& w) { return w.component == component && lies_below(path, w.path); }));
    });
    if (it == adapted_components_.end()) continue;
    if (!it->weights.empty()) {
      it->adapted = adapters::attach_weights(root, it->weights, settings_.lora_checkpoint, dropout);
      it->weights.clear();
      continue;
    }
    auto seed = settings_.seed;
    if (component != model_->names().denoiser()) seed ^= mix64(component);  // encoders may have layers of equal names
    it->adapted = adapters::attach(
        root, [&](const std::string& path) { return it->options.at(path); }, it->paths, seed, dropout, it->fused);
  }
  note_adapters();
  if (has_adapters()) adapter_file(0, at::kFloat);  // so that what cannot be written is said now
}

void Trained::note_adapters() const {
  for (const auto& a : adapted_components_) {
    std::map<std::pair<int64_t, double>, int64_t> counts;  // by rank and scale
    for (const auto& item : a.adapted) ++counts[{item.adapter->update().rank(), item.adapter->update().scale()}];
    for (const auto& [kind, count] : counts)
      info("{} of rank {}, scale {:.4g} on {} layers of {}", type_of(*a.adapted[0].adapter), kind.first, kind.second, count, a.component);
  }
  if (adapted_components_.empty()) return;
  const auto& first = *adapted_components_[0].adapted[0].adapter;
  if (first.is_dora()) info("{}", readers_of(first.magnitude().axis));
}

double Trained::lr_factor(const std::string& component) const {
  double rate = settings_.learning_rate;
  for (const auto& [name, chosen] : settings_.component_rates) {
    if (name.empty() ? !model_->names().is_denoiser(component) : component_called(name, names_) == component) rate = chosen;
  }
  return rate / settings_.learning_rate;
}

optim::ParameterList Trained::parameters() const {
  optim::ParameterList parameters;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& a : adapted_components_) {
    for (const auto& item : a.adapted) {
      for (const auto& [name, value] : item.adapter->parameters()) {
        if (!seen.insert(value.unsafeGetTensorImpl()).second) continue;
        parameters.push_back({a.component + "." + item.path + "." + name, value, lr_factor(a.component)});
      }
    }
  }
  for (const auto& whole : whole_) {
    auto& root = model_->components().module(whole.component);
    auto codes = quant::trained_codes(root);
    root.visit_parameters([&](const std::string& path, at::Tensor& p) {
      if (lies_below(path, whole.path)) parameters.push_back({whole.component + "." + path, p, lr_factor(whole.component), codes[path]});
    });
  }
  return parameters;
}

Trained::File Trained::adapter_file(int64_t step, c10::ScalarType dtype) const {
  File file{.name = fmt::format("step-{}.safetensors", step), .values = {}, .metadata = {}};
  std::vector<adapters::AdaptedList> all;
  for (const auto& a : adapted_components_) all.push_back(a.adapted);
  auto layout = adapters::settled(settings_.layout, all);
  for (const auto& a : adapted_components_) {
    auto prefixes = loras::layer_prefixes(*model_, a.component);
    for (auto& [name, tensor] : adapters::adapter_tensors(a.adapted, prefixes, dtype, layout))
      file.values.push_back({{name, tensor.scalar_type(), tensor.sizes().vec()}, [tensor] { return tensor; }});
  }
  std::vector<std::string> ranks, alphas;
  auto note = [](std::vector<std::string>& seen, const std::string& number) {
    if (!contains(seen, number)) seen.push_back(number);
  };
  for (const auto& a : adapted_components_) {
    for (const auto& item : a.adapted) {
      const auto& update = item.adapter->update();
      note(ranks, std::to_string(update.rank()));
      note(alphas, fmt::format("{}", update.scale() * static_cast<double>(std::max<int64_t>(1, update.rank()))));
    }
  }
  const auto& first = *adapted_components_[0].adapted[0].adapter;
  file.metadata["adapter"] = type_of(first);
  file.metadata["rank"] = join(ranks, "/");
  file.metadata["alpha"] = join(alphas, "/");
  if (!first.is_dora()) return file;
  bool by_input = first.magnitude().axis == adapters::NormAxis::input;
  file.metadata["dora_norm"] = by_input ? "input" : "output";
  if (by_input) file.readers = readers_of(adapters::NormAxis::input);
  return file;
}

std::vector<Trained::File> Trained::files(int64_t step, c10::ScalarType dtype, const optim::Optimizer& optimizer, Exact exact) const {
  const auto& parameters = optimizer.parameters();
  if (!exact) exact = [&parameters, dtype](size_t number) { return optim::kept_value(parameters[number]).to(dtype); };
  std::map<std::string, size_t> index;  // of a parameter in the optimizer
  for (size_t i = 0; i < parameters.size(); ++i) index[parameters[i].name] = i;
  std::vector<File> files;
  if (has_adapters()) files.push_back(adapter_file(step, dtype));
  for (const auto& component : whole_components()) {
    bool plain_name = component == model_->names().denoiser() && !has_adapters();
    File file{.name = fmt::format("step-{}{}.safetensors", step, plain_name ? "" : "." + component), .values = {}, .metadata = {}};
    auto prefix = model_->names().of(component).layers.weights;
    model_->components().module(component).visit_parameters([&](const std::string& path, at::Tensor&) {
      auto it = index.find(component + "." + path);
      if (it == index.end()) return;
      file.values.push_back(
          {{prefix + path, dtype, parameters[it->second].value.sizes().vec()}, [exact, number = it->second] { return exact(number); }});
    });
    files.push_back(std::move(file));
  }
  return files;
}

std::string targets_outside(const std::string& part, const TrainedSettings& settings, models::Model& model) {
  auto component = pipeline::component_of(part);
  if (!settings.lora_checkpoint.empty() || !model.components().has(component)) return "";
  auto skeleton = model.components().skeleton(part);
  auto names = [&](const std::string& path) { return model.names().of(component).target_names(path); };
  return join(adapters::unmatched_targets(*skeleton, targets_of(settings, model, component), names), ",");
}

}  // namespace burnish::train
