#include "convert/lora_format.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "adapters/adapter_tensors.h"
#include "adapters/layers_in_file.h"
#include "base/choice.h"
#include "base/input_error.h"
#include "models/files/loading.h"

namespace burnish::convert {

namespace {

using adapters::AdapterWeights;
using adapters::Kind;

const std::vector<std::string> kFormatNames{"diffusers", "peft", "kohya", "onetrainer", "lycoris", "comfyui", "diffsynth"};
constexpr const char* kBakeHint = "--lora_type lora with --lora_rank or --lora_energy makes it a LoRA";

const std::string& name_of(LoraFormat format) { return kFormatNames.at(static_cast<size_t>(format)); }

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// A layer of the file and ours behind it.
struct Spelling {
  std::string name;
  std::vector<std::string> layers;
  bool swapped_halves = false;
};

/// Returns what stands before our path where the format has no table of names.
std::string prefix_of(const models::Model& model, const std::string& component, LoraFormat format) {
  const auto& layers = model.names().of(component).layers;
  switch (format) {
    case LoraFormat::diffusers: return loras::diffusers_prefix(model, component) + layers.weights;
    case LoraFormat::peft: return "base_model.model." + layers.weights;
    case LoraFormat::kohya: return layers.kohya + layers.weights;
    case LoraFormat::onetrainer: return layers.before_onetrainer() + layers.weights;
    case LoraFormat::lycoris: return loras::layer_prefixes(model, component).lycoris;
    case LoraFormat::comfyui:
      if (!layers.comfyui.empty()) return layers.comfyui + layers.weights;
      break;
    case LoraFormat::diffsynth:
      if (layers.diffsynth) return *layers.diffsynth + layers.weights;
      break;
  }
  config_error(
      "convert",
      "the format {} has no names for the layers of the {}; choose another --lora_format, or leave them out with --lora_base_model",
      name_of(format), component);
}

bool has_flat_names(LoraFormat format) {
  return format == LoraFormat::kohya || format == LoraFormat::onetrainer || format == LoraFormat::lycoris;
}

std::vector<Spelling> spellings(const models::Model& model, const std::string& component, LoraFormat format,
                                const std::map<std::string, const AdapterWeights*>& by_path) {
  const auto& names = model.names().of(component);
  std::vector<Spelling> all;
  auto table = names.written.find(name_of(format));
  if (table == names.written.end()) {
    auto prefix = prefix_of(model, component, format);
    for (const auto& [path, weights] : by_path)
      all.push_back({has_flat_names(format) ? underscored(prefix + path) : prefix + path, {path}});
    return all;
  }
  std::set<std::string> named;
  const std::string comfyui = "diffusion_model.";
  for (const auto& [theirs, ours] : table->second) {
    if (std::none_of(ours.begin(), ours.end(), [&](const auto& path) { return by_path.contains(path); })) continue;
    auto known = theirs.starts_with(comfyui) ? theirs.substr(comfyui.size()) : theirs;
    all.push_back({theirs, ours, names.swapped_halves.contains(known)});
    named.insert(ours.begin(), ours.end());
  }
  for (const auto& [path, weights] : by_path) {
    if (!named.contains(path)) config_error("convert", "the format {} has no name for the layer '{}'", name_of(format), path);
  }
  return all;
}

const at::Tensor& part_of(const AdapterWeights& w, const std::string& part) {
  return std::find_if(w.parameters.begin(), w.parameters.end(), [&](const auto& p) { return p.first == part; })->second;
}

/// A config Error for what readers of the format do not know, and for what is read here and never written.
void check_kind(const AdapterWeights& w, LoraFormat format) {
  auto refuse = [&](const std::string& what) {
    config_error("convert", "'{}' is {}, which readers of the format {} do not take; {}", w.path, what, name_of(format), kBakeHint);
  };
  if (!adapters::make_update(w.kind, w.parameters, w.scale))
    config_error("convert", "'{}' is {}, which is read here and never written; {}", w.path, adapters::kind_name(w.kind), kBakeHint);
  bool lora_alone = format == LoraFormat::diffusers || format == LoraFormat::peft || format == LoraFormat::diffsynth;
  if (!lora_alone) return;
  if (w.kind != Kind::lora) refuse(std::string(adapters::kind_name(w.kind)));
  if (w.magnitude.m.defined() && format == LoraFormat::diffsynth) refuse("DoRA");
  if (w.magnitude.m.defined() && w.magnitude.axis == adapters::NormAxis::input) refuse("DoRA over inputs");
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return value > 0 && std::frexp(value, &exponent) == 0.5;
}

/// The dtype that holds all factors as they are.
c10::ScalarType common_dtype(const AdapterWeights& w) {
  auto dtype = w.parameters.at(0).second.scalar_type();
  for (const auto& [name, tensor] : w.parameters) dtype = c10::promoteTypes(dtype, tensor.scalar_type());
  return dtype;
}

void replace_ending(std::string& name, const std::string& ending, const std::string& by) {
  if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), by);
}

/// The tensors of one layer of the file. `layer` has the product of one of our layers behind it.
io::NamedTensors layer_tensors(AdapterWeights w, const Spelling& spelling, nn::LinearMap& layer, const models::LayerNames& layers,
                               LoraFormat format, std::optional<c10::ScalarType> dtype) {
  using adapters::Layout;
  bool as_peft = format == LoraFormat::diffusers || format == LoraFormat::peft;
  bool takes_alpha = format == LoraFormat::diffusers ? layers.diffusers_alpha
                     : format == LoraFormat::comfyui ? layers.comfyui_alpha
                                                     : format != LoraFormat::diffsynth;
  auto stored = dtype.value_or(common_dtype(w));
  if (!dtype && !takes_alpha && !is_power_of_two(w.scale)) stored = c10::promoteTypes(stored, at::kFloat);
  bool is_scaled = format == LoraFormat::comfyui && !takes_alpha && w.kind == Kind::lora;
  for (auto& [name, tensor] : w.parameters) {
    if (is_scaled && name == "lora_B.weight") tensor = tensor.to(at::kFloat) * w.scale;
    tensor = tensor.to(stored).contiguous();
  }
  if (is_scaled) w.scale = 1;
  if (w.magnitude.m.defined()) w.magnitude.m = w.magnitude.m.to(at::kFloat);
  auto update = std::shared_ptr<adapters::Update>(adapters::make_update(w.kind, w.parameters, w.scale));
  auto adapter = std::make_shared<adapters::Adapter>(w.path, update, w.magnitude);
  bool plain = as_peft || format == LoraFormat::diffsynth;
  // The layer's whole name stands in the prefix, since paths are written in ways of their own.
  adapters::LayerPrefixes prefixes{spelling.name, spelling.name, spelling.name, takes_alpha};
  auto tensors = adapters::adapter_tensors({{"", &layer, adapter}}, prefixes, stored, plain ? Layout::diffusers : Layout::kohya);
  if (is_scaled) std::erase_if(tensors, [](const auto& item) { return item.first.ends_with(".alpha"); });
  for (auto& [name, tensor] : tensors) {
    if (format == LoraFormat::comfyui) {
      replace_ending(name, ".lora_down.weight", ".lora_A.weight");
      replace_ending(name, ".lora_up.weight", ".lora_B.weight");
    } else if (format == LoraFormat::diffsynth) {
      replace_ending(name, ".weight", ".default.weight");
    }
  }
  return tensors;
}

/// Rank and alpha of layers, of which peft keeps the most common apart.
struct PeftNumbers {
  std::map<std::string, double> of_layer;
  double most_common() const {
    std::map<double, int64_t> counts;
    for (const auto& [path, number] : of_layer) ++counts[number];
    return std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->first;
  }
  nlohmann::json pattern(bool whole) const {
    auto json = nlohmann::json::object();
    for (const auto& [path, number] : of_layer) {
      if (number == most_common()) continue;
      if (whole) json[path] = static_cast<int64_t>(number);
      else json[path] = number;
    }
    return json;
  }
};

bool is_of_bias(const AdapterWeights& w) { return w.target == "bias"; }
bool is_of_table(const AdapterWeights& w) { return w.target.empty(); }

/// Returns what stands behind a name for a change of the bias or of the norm of that name.
const char* ending_of(const AdapterWeights& vector, bool is_norm, LoraFormat format) {
  if (format == LoraFormat::diffusers || format == LoraFormat::peft) return ".lora_B.bias";
  if (format == LoraFormat::lycoris && is_norm) return is_of_bias(vector) ? ".b_norm" : ".w_norm";
  return is_of_bias(vector) ? ".diff_b" : ".diff";
}

/// A vector with a number for each row of our layer.
at::Tensor own_rows(const AdapterWeights& vector) {
  auto diff = part_of(vector, "diff").flatten();
  if (vector.fused_rows.count > 0) diff = diff.narrow(0, vector.fused_rows.begin, vector.fused_rows.count);
  return diff * vector.scale;
}

using ByPath = std::map<std::string, const AdapterWeights*>;

/// The changes of biases, or those of norms and tables, in the names of a file: parts of a fused layer one behind the other, zeros for
/// parts without.
io::NamedTensors vector_tensors(const ByPath& vectors, const ByPath& weights, const std::map<std::string, nn::LinearMap*>& layers,
                                const models::Model& model, const std::string& component, LoraFormat format) {
  io::NamedTensors tensors;
  const auto& names = model.names().of(component).layers;
  const bool takes_alpha = format == LoraFormat::peft || names.diffusers_alpha;
  const auto shapes = models::shapes_of(*model.components().skeleton(component));
  for (const auto& spelling : spellings(model, component, format, vectors)) {
    std::vector<at::Tensor> parts;
    const AdapterWeights* last = nullptr;
    for (const auto& path : spelling.layers) {
      auto it = vectors.find(path);
      if (it != vectors.end()) last = it->second;
      parts.push_back(it == vectors.end() ? at::zeros({layers.at(path)->out_features()}) : own_rows(*it->second));
    }
    if (spelling.swapped_halves) {
      auto halves = at::cat(parts).chunk(2);
      parts = {halves.at(1), halves.at(0)};
    }
    auto value = at::cat(parts);
    if (is_of_table(*last)) value = value.view(shapes.at(last->path));
    const std::string ending = ending_of(*last, !layers.contains(last->path), format);
    // A bias of the second factor is multiplied with the LoRA's scale.
    if (ending == ".lora_B.bias" && takes_alpha) value = value / weights.at(last->path)->scale;
    tensors.emplace_back(spelling.name + ending, value);
  }
  return tensors;
}

std::string peft_config(const std::vector<AdapterWeights>& weights, const std::string& prefix, bool has_biases) {
  PeftNumbers ranks, alphas;
  bool use_dora = false;
  auto targets = nlohmann::json::array();
  for (const auto& w : weights) {
    auto rank = static_cast<double>(adapters::rank_of(w));
    auto path = prefix + w.path;
    ranks.of_layer[path] = rank;
    alphas.of_layer[path] = static_cast<double>(static_cast<float>(w.scale * rank));
    use_dora = use_dora || w.magnitude.m.defined();
    targets.push_back(path);
  }
  nlohmann::ordered_json json{{"peft_type", "LORA"},
                              {"task_type", nullptr},
                              {"base_model_name_or_path", nullptr},
                              {"r", static_cast<int64_t>(ranks.most_common())},
                              {"lora_alpha", alphas.most_common()},
                              {"rank_pattern", ranks.pattern(true)},
                              {"alpha_pattern", alphas.pattern(false)},
                              {"target_modules", targets},
                              {"use_dora", use_dora},
                              {"use_rslora", false},
                              {"lora_dropout", 0.0},
                              {"bias", "none"},
                              {"fan_in_fan_out", false},
                              {"init_lora_weights", true},
                              {"inference_mode", true}};
  if (has_biases) json["lora_bias"] = true;
  return json.dump(2) + "\n";
}

}  // namespace

const std::vector<std::string>& lora_formats() { return kFormatNames; }

std::optional<LoraFormat> format_of_names(const std::vector<std::string>& names) {
  auto any_begins = [&](std::string_view with) {
    return std::ranges::any_of(names, [&](const auto& name) { return name.starts_with(with); });
  };
  auto any_ends = [&](std::string_view with) { return std::ranges::any_of(names, [&](const auto& name) { return name.ends_with(with); }); };
  if (any_begins("base_model.model.")) return LoraFormat::peft;
  if (any_ends(".lora_A.default.weight")) return LoraFormat::diffsynth;
  if (any_begins("diffusion_model.")) return LoraFormat::comfyui;
  if (any_begins("lycoris_")) return LoraFormat::lycoris;
  if (any_begins("lora_transformer_")) return LoraFormat::onetrainer;
  if (any_begins("lora_unet_") || any_begins("lora_te")) return LoraFormat::kohya;
  const bool is_of_pipeline = any_begins("transformer.") || any_begins("unet.") || any_begins("text_encoder");
  if (is_of_pipeline && any_ends(".lora_A.weight")) return LoraFormat::diffusers;
  return std::nullopt;
}

std::string_view readers_of(LoraFormat format, bool is_lora) {
  switch (format) {
    case LoraFormat::diffusers: return is_lora ? "ComfyUI, diffusers" : "diffusers";  // ComfyUI sees no magnitude of that name
    case LoraFormat::peft: return "peft";
    case LoraFormat::kohya: return is_lora ? "sd-scripts, ComfyUI, diffusers" : "sd-scripts, ComfyUI";
    case LoraFormat::onetrainer: return "OneTrainer, ComfyUI";
    case LoraFormat::lycoris: return "LyCORIS, ComfyUI";
    case LoraFormat::comfyui: return "ComfyUI";
    case LoraFormat::diffsynth: return "DiffSynth-Studio";
  }
  return "";
}

LoraFormat parse_lora_format(std::string_view name) {
  for (size_t i = 0; i < kFormatNames.size(); ++i) {
    if (name == kFormatNames[i]) return static_cast<LoraFormat>(i);
  }
  unknown_choice("convert", "lora_format", name, kFormatNames);
}

bool holds_vector(const AdapterWeights& vector, const std::vector<AdapterWeights>& weights, const models::Model& model,
                  const std::string& component, LoraFormat format) {
  if (vector.kind != Kind::full || vector.parameters.size() != 1) return false;
  if (format == LoraFormat::diffusers || format == LoraFormat::peft)
    return is_of_bias(vector) && std::ranges::any_of(weights, [&](const auto& w) { return w.path == vector.path && w.kind == Kind::lora; });
  if (format != LoraFormat::comfyui && format != LoraFormat::lycoris) return false;
  const auto& written = model.names().of(component).written;
  auto table = written.find(name_of(format));
  if (is_of_table(vector) && table == written.end()) return false;
  return table == written.end() || std::ranges::any_of(table->second, [&](const auto& row) {
           return std::ranges::find(row.second, vector.path) != row.second.end();
         });
}

Spelled spell(const std::vector<AdapterWeights>& weights, const std::vector<AdapterWeights>& vectors, const models::Model& model,
              const std::string& component, LoraFormat format, std::optional<c10::ScalarType> dtype) {
  auto skeleton = model.components().skeleton(component);
  const auto& names = model.names().of(component);
  auto list = adapters::all_layers(*skeleton);
  std::map<std::string, nn::LinearMap*> layers(list.begin(), list.end());
  ByPath by_path;
  for (const auto& w : weights) {
    check_kind(w, format);
    by_path[w.path] = &w;
  }
  Spelled file;
  for (const auto& spelling : spellings(model, component, format, by_path)) {
    std::vector<adapters::LayerInFile> parts;
    for (const auto& path : spelling.layers) {
      auto it = by_path.find(path);
      parts.push_back({layers.at(path)->out_features(), it == by_path.end() ? nullptr : it->second});
    }
    auto whole = adapters::in_layer(spelling.name, parts, spelling.swapped_halves, kBakeHint);
    auto tensors = layer_tensors(whole, spelling, *layers.at(spelling.layers[0]), names.layers, format, dtype);
    for (auto& [name, tensor] : tensors) {
      if (format != LoraFormat::peft || !name.ends_with(".alpha")) file.tensors.emplace_back(name, tensor);
    }
  }
  ByPath of_biases, of_norms;
  for (const auto& w : vectors) (is_of_bias(w) ? of_biases : of_norms)[w.path] = &w;
  for (const auto* part : {&of_biases, &of_norms}) {
    for (const auto& [name, value] : vector_tensors(*part, by_path, layers, model, component, format))
      file.tensors.emplace_back(name, value.to(dtype.value_or(at::kFloat)));
  }
  if (format == LoraFormat::peft) file.peft_config = peft_config(weights, names.layers.weights, !vectors.empty());
  return file;
}

void split_blocks(std::vector<AdapterWeights>& weights) {
  std::map<const void*, std::vector<AdapterWeights*>> fused;  // parts of one layer share their lora_A
  for (auto& w : weights) {
    bool by_input = w.magnitude.m.defined() && w.magnitude.axis == adapters::NormAxis::input;
    if (w.kind == Kind::lora && w.fused_rows.count > 0 && !by_input) fused[part_of(w, "lora_A.weight").const_data_ptr()].push_back(&w);
  }
  std::set<std::string> empty;
  for (auto& [shared, parts] : fused) {
    std::vector<AdapterWeights> own;
    std::vector<at::Tensor> used;
    auto count = at::zeros({part_of(*parts[0], "lora_A.weight").size(0)}, at::kLong);
    for (const auto* w : parts) {
      own.push_back(adapters::cut(*w));
      used.push_back(part_of(own.back(), "lora_B.weight").ne(0).any(0));
      count += used.back();
    }
    if (count.max().item<int64_t>() != 1) continue;
    for (size_t i = 0; i < parts.size(); ++i) {
      *parts[i] = own[i];
      auto ranks = used[i].nonzero().flatten();
      if (ranks.numel() == 0 && !own[i].magnitude.m.defined()) empty.insert(own[i].path);
      if (ranks.numel() == 0) continue;
      for (auto& [name, tensor] : parts[i]->parameters) tensor = tensor.index_select(name == "lora_A.weight" ? 0 : 1, ranks);
    }
  }
  std::erase_if(weights, [&](const auto& w) { return empty.contains(w.path); });
}

}  // namespace burnish::convert
