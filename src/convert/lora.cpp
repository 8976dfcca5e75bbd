#include "convert/lora.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <filesystem>

#include "adapters/adapter_config.h"
#include "adapters/layers_in_file.h"
#include "adapters/make_change.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text.h"
#include "convert/lora_format.h"
#include "convert/weights.h"
#include "io/files.h"
#include "models/loading.h"

namespace burnish::convert {

namespace fs = std::filesystem;

namespace {

using adapters::AdapterWeights;
using loras::AdaptersByComponent;

std::optional<c10::ScalarType> chosen_dtype(const Options& o) {
  return o.dtype == "keep" ? std::nullopt : std::optional(parse_dtype(o.dtype));
}

/// Relative errors of layers.
class Errors {
 public:
  void add(const std::string& layer, double error) { all_.emplace_back(error, layer); }
  void report(LoraReport& report) {
    std::sort(all_.begin(), all_.end());
    report.num_changed = std::ssize(all_);
    if (all_.empty()) return;
    report.median_error = all_[all_.size() / 2].first;
    report.largest_error = all_.back().first;
    report.worst_layer = all_.back().second;
  }

 private:
  std::vector<std::pair<double, std::string>> all_;
};

AdapterWeights lora_of(const std::string& path, const LowRank& factors) {
  AdapterWeights w;
  w.path = path;
  w.parameters = {{"lora_A.weight", factors.a_RI.to(at::kFloat)}, {"lora_B.weight", factors.b_OR.to(at::kFloat)}};
  return w;
}

/// Brings adapters to the rank and the type that options ask for.
class Reshaping {
 public:
  Reshaping(const Options& options, models::Model& model) : rule_{options.lora_rank, options.lora_energy}, model_(model) {
    bakes_ = options.lora_type == "lora";
  }

  /// The adapters to write; what is lost goes into `errors`.
  std::vector<AdapterWeights> apply(const std::string& component, const std::vector<AdapterWeights>& all, Errors& errors) {
    std::vector<AdapterWeights> reshaped;
    for (const auto& w : all) reshaped.push_back(reshape(component, w, all, errors));
    return reshaped;
  }

 private:
  AdapterWeights reshape(const std::string& component, const AdapterWeights& w, const std::vector<AdapterWeights>& all, Errors& errors) {
    bool is_lora = w.kind == adapters::Kind::lora && !w.magnitude.m.defined();
    auto name = component + "." + w.path;
    if (!is_lora && !bakes_) {
      if (has_rule()) config_error("convert", "'{}' is no plain LoRA, whose rank alone can be changed; add --lora_type lora", name);
      return w;
    }
    auto own = is_lora ? adapters::cut(w) : w;
    if (adapters::is_zero(own)) return w;
    if (!is_lora && !has_rule())
      config_error("convert", "say how large the LoRA may become: --lora_rank, or --lora_energy with the share to keep");
    if (!is_lora) {
      auto delta = delta_of(component, w, all);
      if (!delta.any().item<bool>()) return w;
      auto factors = factor(delta, rule_, name);
      errors.add(name, factors.error);
      return lora_of(w.path, factors);
    }
    if (!has_rule()) return w;
    auto a = own.parameters[0].second, b = own.parameters[1].second;
    if (own.parameters[0].first == "lora_B.weight") std::swap(a, b);
    auto factors = factor_product(b.to(at::kDouble) * w.scale, a, rule_);
    if (factors.a_RI.size(0) >= a.size(0)) return w;
    errors.add(name, factors.error);
    return lora_of(w.path, factors);
  }

  bool has_rule() const { return rule_.rank > 0 || rule_.energy > 0; }

  /// What the adapter adds to its weight, as a matrix.
  at::Tensor delta_of(const std::string& component, const AdapterWeights& w, const std::vector<AdapterWeights>& all) {
    at::NoGradGuard no_grad;
    auto parameters = w.parameters;
    for (auto& [name, tensor] : parameters) tensor = tensor.to(at::kFloat).contiguous();
    auto change = adapters::make_change(w.kind, parameters, w.scale, w.fused_rows);
    const auto& layer = *layers_of(component).layer(w.path);
    if (!w.magnitude.m.defined() && !change->needs_weight()) return change->rows(layer.source(), 0, layer.out_features());
    if (!has_weights(model_, component))
      config_error("convert", "what the {} of '{}.{}' adds depends on the weight; name the model's files with --model",
                   w.magnitude.m.defined() ? "DoRA" : adapters::kind_name(w.kind), component, w.path);
    auto& weights = layers_of(component);
    auto before = weights.matrix(w.path);
    nn::LinearMap after(before.clone().view(weights.layer(w.path)->weight.sizes()), weights.layer(w.path)->product());
    adapters::merge(after, {{w, 1.0, adapters::sharing_norms(w, all)}}, [&](const std::string& path) { return weights.matrix(path); });
    return after.weight.flatten(1) - before;
  }

  ComponentWeights& layers_of(const std::string& component) {
    auto it = weights_.find(component);
    if (it == weights_.end()) it = weights_.emplace(component, std::make_unique<ComponentWeights>(model_, component)).first;
    return *it->second;
  }

  RankRule rule_;
  bool bakes_ = false;
  models::Model& model_;
  std::map<std::string, std::unique_ptr<ComponentWeights>> weights_;
};

/// Only of the components that options name.
void choose_components(AdaptersByComponent& all, const std::string& wanted, const std::string& file) {
  if (wanted.empty()) return;
  auto names = split_list(wanted);
  for (const auto& name : names) {
    if (!all.contains(name)) config_error("convert", "lora_base_model names '{}', and {} holds nothing for it", name, file);
  }
  std::erase_if(all, [&](const auto& item) { return !contains(names, item.first); });
}

/// Writes the file, or peft's folder, of adapters.
void write_lora(const Options& o, const models::Model& model, const AdaptersByComponent& all, io::Metadata metadata) {
  auto format = parse_lora_format(o.lora_format);
  const fs::path out = o.paths.back();
  if (format == LoraFormat::peft && all.size() > 1)
    config_error("convert", "a folder of peft holds the adapters of one component, and these are of {}; choose one with --lora_base_model",
                 all.size());
  // Their numbers stand in the tensors, or in peft's own file; DyLoRA's block would count twice.
  for (const char* key : {"lora_adapter_metadata", "ss_network_args"}) metadata.erase(key);
  metadata["format"] = "pt";
  io::NamedTensors tensors;
  std::string config;
  for (const auto& [component, weights] : all) {
    auto spelled = spell(weights, model, component, format, chosen_dtype(o));
    tensors.insert(tensors.end(), spelled.tensors.begin(), spelled.tensors.end());
    config = spelled.peft_config;
  }
  uint64_t bytes = config.size();
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  io::check_space(out, bytes);
  if (format != LoraFormat::peft) return io::save_safetensors(out, tensors, metadata);
  io::save_safetensors(out / "adapter_model.safetensors", tensors, metadata);
  io::write_text_atomic(out / "adapter_config.json", config);
}

int64_t num_layers(const AdaptersByComponent& all) {
  int64_t count = 0;
  for (const auto& [component, weights] : all) count += std::ssize(weights);
  return count;
}

/// Takes out what no file that is written here holds.
void drop_vectors(AdaptersByComponent& all, const models::Model& model, const std::string& file) {
  size_t num_dropped = 0;
  for (auto& [component, weights] : all) {
    ComponentWeights layers(model, component);
    num_dropped += std::erase_if(weights, [&](const auto& w) { return w.target != "weight" || !layers.layer(w.path); });
  }
  if (num_layers(all) == 0)
    data_error("convert",
               "{} changes norms and biases alone, which a LoRA does not hold; merge it into the model: burnish convert --lora {}", file,
               file);
  if (num_dropped > 0)
    warn("{} changes of biases and norms are left out, which a LoRA does not hold; merged into a model they stay (burnish convert --lora)",
         num_dropped);
}

bool has_all(const io::Shapes& shapes, const io::Shapes& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& item) {
    auto it = shapes.find(item.first);
    return it != shapes.end() && it->second == item.second;
  });
}

/// The denoiser's layers in those of its parts that an adapter adapts; all where it adapts none. Experts have the same layers.
io::Shapes layers_of_adapted(models::Model& model, const loras::AdaptersByComponent& lora) {
  const auto& denoiser = model.names().experts.front().component;
  auto adapted = lora.find(denoiser);
  io::Shapes layers;
  for (const auto& part : model.components().parts(denoiser)) {
    auto of_part = models::shapes_of(*model.components().skeleton(part));
    auto is_in = [&](const adapters::AdapterWeights& weights) { return of_part.contains(weights.path + ".weight"); };
    if (adapted == lora.end() || std::ranges::any_of(adapted->second, is_in)) layers.merge(of_part);
  }
  return layers;
}

}  // namespace

bool is_lora(const std::string& path) {
  std::error_code ignored;
  bool is_folder = fs::is_directory(path, ignored);
  if (is_folder && !io::is_there(fs::path(path) / "adapter_model.safetensors") && !io::is_there(fs::path(path) / "adapter_model.bin") &&
      !io::is_there(fs::path(path) / "pytorch_lora_weights.safetensors"))
    return false;
  if (!is_folder && !io::is_tensor_file(path)) return false;
  return !adapters::kinds_in(io::TensorSource::open({adapters::find_adapter(path).tensors})).empty();
}

std::unique_ptr<models::Model> model_of(const std::string& lora, const std::vector<std::string>& names) {
  if (!names.empty()) {
    models::ModelOptions options{.references = true};  // a LoRA may adapt what sees them
    options.own = models::default_options();
    return models::open_model(models::open_model_files({names, "", ""}), options);
  }
  std::vector<std::string> fitting;
  std::vector<io::Shapes> layers;  // of those
  for (const auto& name : models::published_models()) {
    auto model = models::open_published_model(name);
    loras::AdaptersByComponent read;
    try {
      read = loras::read(*model, lora, loras::Absent::as_published);
    } catch (const Error&) {
      continue;
    }
    auto own = layers_of_adapted(*model, read);
    bool is_part = std::any_of(layers.begin(), layers.end(), [&](const auto& of) { return has_all(of, own); });
    if (is_part) continue;  // schnell's layers are dev's: what is written is the same
    fitting.push_back(name);
    layers.push_back(models::shapes_of(*model->components().skeleton(model->names().experts.front().component)));
  }
  if (fitting.size() != 1) {
    data_error("convert",
               "the names and shapes in {} do not tell which model it is for ({}); give --model with one of {}, or with the model's files",
               lora, fitting.empty() ? "none of the published ones known here has such layers" : join(fitting) + " have such layers",
               join(models::published_models()));
  }
  info("{}: a LoRA for {}", lora, fitting[0]);
  return models::open_published_model(fitting[0]);
}

LoraReport convert_lora(const Options& o) {
  const auto& file = o.paths[0];
  auto model = model_of(file, o.model);
  auto all = loras::read(*model, file, loras::Absent::as_published);
  choose_components(all, o.lora_base_model, file);
  drop_vectors(all, *model, file);
  Reshaping reshaping(o, *model);
  Errors errors;
  for (auto& [component, weights] : all) {
    split_blocks(weights);
    weights = reshaping.apply(component, weights, errors);
  }
  LoraReport report{.path = o.paths.back(), .num_layers = num_layers(all)};
  errors.report(report);
  write_lora(o, *model, all, io::TensorSource::open({adapters::find_adapter(file).tensors}).metadata());
  return report;
}

LoraReport extract_lora(const Options& o) {
  models::ModelOptions model_options;
  model_options.own = models::default_options();
  auto open = [&](const std::vector<std::string>& names) {
    return models::open_model(models::open_model_files({names, "", ""}), model_options);
  };
  auto tuned = open({o.paths.begin(), o.paths.end() - 1}), base = open(o.base);
  if (tuned->names().variant != base->names().variant)
    data_error("convert", "{} is {} and {} is {}; a LoRA is the difference between two states of one model", o.paths[0],
               tuned->names().variant, o.base[0], base->names().variant);
  AdaptersByComponent all;
  Errors errors;
  int64_t num_others = 0;
  for (const auto& part : tuned->components().list()) {
    bool is_wanted = o.lora_base_model.empty() || contains(split_list(o.lora_base_model), part.name);
    if (!base->components().has(part.name) || !is_wanted) continue;
    ComponentWeights after(*tuned, part.name), before(*base, part.name);
    if (after.shapes() != before.shapes())
      data_error("convert", "the {} of {} and of {} have other layers or sizes", part.name, o.paths[0], o.base[0]);
    Progress bar(part.name, std::ssize(after.shapes()));
    int64_t done = 0;
    for (const auto& [name, shape] : after.shapes()) {
      bar.update(++done);
      auto path = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : "";
      if (!after.layer(path)) {
        num_others += !after.parameter(name).to(at::kFloat).equal(before.parameter(name).to(at::kFloat));
      } else if (auto delta = after.matrix(path) - before.matrix(path); delta.any().item<bool>()) {
        auto factors = factor(delta, {o.lora_rank, o.lora_energy}, part.name + "." + path);
        errors.add(part.name + "." + path, factors.error);
        all[part.name].push_back(lora_of(path, factors));
      }
      after.release(name);
      before.release(name);
    }
  }
  if (all.empty() && o.lora_base_model.empty())
    data_error("convert", "the weights of {} and {} are equal: there is nothing to extract", o.paths[0], o.base[0]);
  choose_components(all, o.lora_base_model, o.paths[0]);
  if (num_others > 0) warn("{} norms, biases and tables differ too, which a LoRA does not hold", num_others);
  LoraReport report{.path = o.paths.back(), .num_layers = num_layers(all)};
  errors.report(report);
  write_lora(o, *base, all, {});
  return report;
}

}  // namespace burnish::convert
