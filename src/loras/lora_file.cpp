#include "loras/lora_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <numeric>

#include "adapters/adapter_config.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/text.h"
#include "models/files/loading.h"

namespace burnish::loras {

namespace {

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

std::optional<std::string> without(const std::string& name, const std::string& prefix) {
  if (prefix.empty() || !name.starts_with(prefix)) return std::nullopt;
  return name.substr(prefix.size());
}

/// Holds what a file may call the layers of one component.
struct Names {
  std::string component;
  models::LayerNames prefixes;
  io::Shapes parameters;                                   ///< of every parameter by its name
  std::map<std::string, int64_t> outputs, inputs;          ///< by the path of a layer, norm or table
  std::map<std::string, std::string> path_of_underscored;  ///< "layers_0_q" and, with the file's prefix, "text_model_layers_0_q"
  bool is_other_expert = false;                            ///< whether only names that are its own alone are of this component
};

Names names_of(models::Model& model, const std::string& component, bool is_there) {
  Names names{component, model.names().of(component).layers, {}, {}, {}, {}};
  if (!is_there) return names;
  auto skeleton = model.components().skeleton(component);
  names.parameters = models::shapes_of(*skeleton);
  for (const auto& [parameter, sizes] : names.parameters) {
    if (parameter.ends_with(".bias") || sizes.empty()) continue;
    const bool is_table = !parameter.ends_with(".weight");
    auto path = is_table ? parameter : parameter.substr(0, parameter.rfind('.'));
    const auto numel = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    names.outputs[path] = is_table ? numel : sizes[0];
    names.inputs[path] = numel / std::max<int64_t>(1, names.outputs[path]);
    names.path_of_underscored[underscored(path)] = path;
    names.path_of_underscored[underscored(names.prefixes.weights + path)] = path;
  }
  return names;
}

/// In one component, by our paths.
adapters::Behind behind(const models::Model& model, const Names& names, const std::string& name) {
  const auto& known = model.names().of(names.component);
  auto foreign = [&](const std::string& theirs) {
    return adapters::Behind{known.foreign_layer(theirs), known.swapped_halves.contains(theirs)};
  };
  if (auto found = foreign(name); !found.layers.empty()) return found;
  auto prefixes = names.prefixes.others;
  prefixes.insert(prefixes.begin(), {names.prefixes.diffusers, names.component + ".", names.prefixes.kohya,
                                     names.prefixes.before_onetrainer(), names.prefixes.comfyui});
  for (const auto& prefix : prefixes) {
    auto rest = without(name, prefix);
    if (!rest) continue;
    if (!prefix.ends_with('_')) return {{without(*rest, names.prefixes.weights).value_or(*rest)}};
    auto it = names.path_of_underscored.find(*rest);
    return {{it == names.path_of_underscored.end() ? *rest : it->second}};
  }
  // LyCORIS has one prefix for all components, before our names or those of another program.
  auto rest = without(name, "lycoris_");
  if (!rest) return {};
  if (auto it = names.path_of_underscored.find(*rest); it != names.path_of_underscored.end()) return {{it->second}};
  return foreign("lora_unet_" + *rest);
}

/// In small letters, without what stands between words.
std::string letters_of(const std::string& text) {
  std::string letters;
  for (unsigned char c : text) {
    if (std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

/// The expert that a file says it adapts, or else the one that is alone; null where it says none of several.
const models::Expert* expert_of(const models::Model& model, const std::string& file, const models::Expert* alone) {
  const auto& names = model.names();
  if (names.experts.size() == 1) return &names.experts.front();
  auto metadata = io::TensorSource::open({adapters::find_adapter(file).tensors}).metadata();
  const auto said = metadata[kExpertKey], letters = letters_of(std::filesystem::path(file).filename().string());
  std::vector<const models::Expert*> named;
  for (const auto& expert : names.experts) {
    if (said.empty() ? letters.find(letters_of(expert.name)) != letters.npos : said == expert.name) named.push_back(&expert);
  }
  if (named.size() == 1) return named.front();
  const auto there = model.experts_there();
  return alone != nullptr || there.size() > 1 ? alone : names.expert_of(there.front().component);
}

[[noreturn]] void refuse_unknown_expert(const models::Names& names, const std::string& file) {
  std::vector<std::string> words;
  for (const auto& expert : names.experts) words.push_back(expert.name);
  data_error("loras", "{} does not say which expert of this model it adapts ({}); let the file's name say it", file, join(words));
}

/// The only component that has a layer of this name; `denoiser` where there is none, or more than one.
std::string component_with(const std::vector<Names>& all, const std::string& denoiser, std::string& name) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& names : all) {
    if (names.is_other_expert) continue;
    auto path = without(name, names.prefixes.weights).value_or(name);
    if (names.outputs.contains(path)) found.emplace_back(names.component, path);
  }
  if (found.size() != 1) return denoiser;
  name = found[0].second;
  return found[0].first;
}

/// Every component that the model's units run with this denoiser, whether or not its files are there; the denoiser first.
std::vector<std::string> component_names(models::Model& model, const std::string& denoiser) {
  auto groups = model.units_of(*model.names().expert_of(denoiser));
  std::vector<std::string> names{denoiser};
  for (const auto* group : {&groups.encode_prompt, &groups.encode_image, &groups.encode_references, &groups.encode_size, &groups.add_noise,
                            &groups.denoise, &groups.draw_away, &groups.weigh, &groups.decode}) {
    for (const auto& name : pipeline::components_of(*group)) {
      if (!contains(names, name)) names.push_back(name);
    }
  }
  return names;
}

/// A file may hold the layers of several experts, under names that are of one alone ("transformer_2."); all others are its own expert's.
void add_other_experts(models::Model& model, const std::string& denoiser, const std::function<bool(const std::string&)>& is_known,
                       std::vector<Names>& all) {
  for (const auto& expert : model.names().experts) {
    if (expert.component == denoiser) continue;
    all.push_back(names_of(model, expert.component, is_known(expert.component)));
    all.back().is_other_expert = true;
  }
}

bool is_of_one_expert(const models::Model& model, const std::vector<Names>& all, const std::string& name) {
  return std::ranges::count_if(all, [&](const Names& names) {
           return model.names().is_denoiser(names.component) && !behind(model, names, name).layers.empty();
         }) == 1;
}

/// Has a change of a parameter that belongs to no layer be one of a table, whose numbers stand one below the other.
void tell_table(const std::vector<Names>& all, const std::string& component, adapters::AdapterWeights& weights) {
  const bool is_table = weights.target == "weight" && std::ranges::any_of(all, [&](const auto& names) {
                          return names.component == component && names.parameters.contains(weights.path) &&
                                 !names.parameters.contains(weights.path + ".weight");
                        });
  if (!is_table) return;
  weights.target = "";
  if (weights.kind != adapters::Kind::full) return;
  for (auto& [name, value] : weights.parameters) value = value.reshape({-1, 1});
}

/// Tells whether a change is of a bias that its layer lacks, and a factor of it.
bool is_of_no_bias(const std::vector<Names>& all, const std::string& component, const adapters::AdapterWeights& weights) {
  return weights.target == "bias" && weights.kind == adapters::Kind::ia3 && std::any_of(all.begin(), all.end(), [&](const auto& names) {
           return names.component == component && names.outputs.contains(weights.path) &&
                  !names.parameters.contains(weights.path + ".bias");
         });
}

/// Tells whether an adapter is of no account: its layer is never run, or is not there and would be left as it is.
bool is_left_out(const models::Model& model, const std::vector<Names>& all, const std::string& component,
                 const adapters::AdapterWeights& weights) {
  if (model.names().of(component).not_run.contains(weights.path)) return true;
  bool is_there = std::any_of(all.begin(), all.end(),
                              [&](const auto& names) { return names.component == component && names.outputs.contains(weights.path); });
  return !is_there && adapters::is_zero(weights);
}

/// Refuses layers that DiffSynth-Studio fused where it is known to write two orders of rows under one name: its names of the component are
/// ours then, and no table says others.
void check_fused_rows(const models::Model& model, const std::vector<Names>& all, const std::string& file) {
  const std::string ending = ".lora_B.default.weight";
  for (const auto& name : io::TensorSource::open({adapters::find_adapter(file).tensors}).names()) {
    if (!name.ends_with(ending)) continue;
    const auto layer = name.substr(0, name.size() - ending.size());
    for (const auto& names : all) {
      const auto& known = model.names().of(names.component);
      if (!known.layers.diffsynth || known.written.contains("diffsynth") || known.foreign_layer(layer).size() < 2) continue;
      data_error("loras",
                 "{}: DiffSynth-Studio writes the rows of '{}' in one order for some files of this model and in another for others, and "
                 "nothing in the file says which; take the LoRA in diffusers' or ComfyUI's names",
                 file, layer);
    }
  }
}

/// Tells of a file that says it was made for another version of the model, whose layers are as wide.
void tell_version(const models::Model& model, const std::string& file) {
  const auto& names = model.names();
  auto metadata = io::TensorSource::open({adapters::find_adapter(file).tensors}).metadata();
  auto said = metadata["modelspec.architecture"];
  said = said.substr(0, said.find('/'));
  if (said.empty() || said == names.variant) return;
  for (const auto* family : models::all_families()) {
    const bool is_other =
        family->name == names.family && std::ranges::find(family->variants, said, &models::Variant::title) != family->variants.end();
    if (is_other)
      warn("{} was trained on {}, and this model is {}; its layers fit, and how good it is here nobody promises", file, said,
           names.variant);
  }
}

/// Holds what was read to the components that it is for.
void check_components(models::Model& model, const std::string& file, Absent absent, const AdaptersByComponent& by_component) {
  for (const auto& [component, weights] : by_component) {
    const bool is_known = absent == Absent::as_published || model.components().has(component);
    if (!is_known && absent == Absent::unchecked) continue;
    if (!is_known)
      data_error("train",
                 "{} adapts the {} (and {} layers of it), which is not among the files of this run; name it with a further --model", file,
                 component, weights.size());
    adapters::check_fit(*model.components().skeleton(component), weights, file);
  }
}

}  // namespace

AdaptersByComponent read(models::Model& model, const std::string& file, Absent absent, const models::Expert* alone) {
  auto is_known = [&](const std::string& component) { return absent == Absent::as_published || model.components().has(component); };
  std::vector<Names> all;
  const auto* expert = expert_of(model, file, alone);
  const auto denoiser = (expert ? *expert : model.names().experts.front()).component;
  for (const auto& component : component_names(model, denoiser)) all.push_back(names_of(model, component, is_known(component)));
  add_other_experts(model, denoiser, is_known, all);
  check_fused_rows(model, all, file);
  bool is_told = expert != nullptr;
  // adapters/ knows layers by one name; ours start with the component here.
  auto layers_of = [&](const std::string& name) {
    // Of components that files call alike, it is the one that has the layer.
    std::optional<adapters::Behind> first;
    for (const auto& names : all) {
      auto found = behind(model, names, name);
      if (found.layers.empty()) continue;
      is_told = is_told || (model.names().is_denoiser(names.component) && is_of_one_expert(model, all, name));
      const bool has_all = std::ranges::all_of(found.layers, [&](const auto& path) { return names.outputs.contains(path); });
      for (auto& path : found.layers) path.insert(0, names.component + ".");
      if (has_all) return found;
      if (!first) first = found;
    }
    if (first) return *first;
    auto path = name;
    auto component = component_with(all, denoiser, path);
    return adapters::Behind{{component + "." + path}};
  };
  auto side_of = [&](const std::string& layer, std::map<std::string, int64_t> Names::*sides) {
    for (const auto& names : all) {
      if (auto path = without(layer, names.component + "."); path && (names.*sides).contains(*path)) return (names.*sides).at(*path);
    }
    return int64_t{0};
  };
  auto rows_of = [&](const std::string& layer) { return side_of(layer, &Names::outputs); };
  auto columns_of = [&](const std::string& layer) { return side_of(layer, &Names::inputs); };
  AdaptersByComponent by_component;
  std::vector<std::string> skipped;
  for (auto& weights : adapters::read_adapter(file, layers_of, rows_of, columns_of)) {
    auto component = denoiser;  // also of a name that nobody knows
    for (const auto& names : all) {
      auto path = without(weights.path, names.component + ".");
      if (!path) continue;
      component = names.component;
      weights.path = *path;
      break;
    }
    tell_table(all, component, weights);
    if (is_of_no_bias(all, component, weights)) continue;
    if (is_left_out(model, all, component, weights)) skipped.push_back(component + "." + weights.path);
    else by_component[component].push_back(std::move(weights));
  }
  if (!skipped.empty()) info("{}: {} layers that this model does not have or run are skipped ({} first)", file, skipped.size(), skipped[0]);
  if (by_component.empty())
    data_error("train", "{} is a LoRA for another model: it adapts '{}' (and {} more), and this one has or runs no such layers", file,
               skipped.at(0), skipped.size() - 1);
  if (!is_told && by_component.contains(denoiser) && absent != Absent::as_published) refuse_unknown_expert(model.names(), file);
  check_components(model, file, absent, by_component);
  if (absent == Absent::refused) tell_version(model, file);
  return by_component;
}

std::vector<Sibling> siblings(models::Model& model, const std::vector<std::string>& files) {
  std::vector<Sibling> beside;
  auto is_known = [&](const std::filesystem::path& path) {
    std::error_code ignored;
    auto is_same = [&](const std::string& other) { return std::filesystem::equivalent(other, path, ignored); };
    return std::ranges::any_of(files, is_same) || std::ranges::any_of(beside, is_same, &Sibling::path);
  };
  for (size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path path = files[i];
    const auto name = path.filename().string();
    for (const auto& own : model.names().experts) {
      const auto at = own.name.empty() ? name.npos : name.rfind(own.name);
      if (at == name.npos) continue;
      for (const auto& other : model.names().experts) {
        auto renamed = name;
        const auto sibling = path.parent_path() / renamed.replace(at, own.name.size(), other.name);
        std::error_code ignored;
        const bool is_wanted = other.name != own.name && model.components().has(other.component);
        if (is_wanted && std::filesystem::exists(sibling, ignored) && !is_known(sibling)) beside.push_back({sibling.string(), other, i});
      }
    }
  }
  return beside;
}

std::string diffusers_prefix(const models::Model& model, const std::string& component) {
  const auto& names = model.names();
  return names.of(contains(names.denoisers(), component) ? names.experts.front().component : component).layers.diffusers;
}

adapters::LayerPrefixes layer_prefixes(const models::Model& model, const std::string& component) {
  const auto& known = model.names().of(component);
  const auto& names = known.layers;
  auto kohya = names.kohya + underscored(names.weights);
  auto lycoris = contains(model.names().denoisers(), component) ? "lycoris_" : kohya;
  auto written_in = [&](const char* format) {
    auto it = known.written.find(format);
    return it == known.written.end() ? models::LayerTable() : it->second;
  };
  adapters::LayerPrefixes prefixes{diffusers_prefix(model, component) + names.weights,
                                   kohya,
                                   lycoris,
                                   names.diffusers_alpha,
                                   written_in("kohya"),
                                   written_in("diffsynth"),
                                   known.swapped_halves};
  if (!names.onetrainer.empty()) prefixes.onetrainer = names.onetrainer + underscored(names.weights);
  if (names.diffsynth) prefixes.diffsynth = *names.diffsynth + names.weights;
  prefixes.diffusers_layers = written_in("diffusers");
  if (prefixes.kohya_layers.empty() && prefixes.diffsynth_layers.empty() && prefixes.diffusers_layers.empty()) return prefixes;
  std::map<std::string, int64_t> rows;
  auto skeleton = model.components().skeleton(component);
  for (const auto& [path, layer] : adapters::all_layers(*skeleton)) rows[path] = layer->out_features();
  prefixes.rows_of = [rows](const std::string& path) { return rows.at(path); };
  return prefixes;
}

}  // namespace burnish::loras
