#include "convert/lora.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "adapters/adapter_config.h"
#include "adapters/fresh.h"
#include "adapters/layers_in_file.h"
#include "adapters/make_change.h"
#include "adapters/widen.h"
#include "base/dtype.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/random_key.h"
#include "base/text.h"
#include "convert/lora_format.h"
#include "convert/lora_norms.h"
#include "convert/model_of_lora.h"
#include "convert/read_loras.h"
#include "convert/weights.h"
#include "io/files.h"
#include "io/output_file.h"
#include "loras/file_metadata.h"
#include "models/files/loading.h"

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
    auto wide = all;
    if (grows()) {
      wide = adapters::widened(all, rule_.rank, kSeed);
      for (size_t i = 0; i < all.size(); ++i) {
        bool is_kept = is_lora(all[i]) || !bakes_;
        if (!is_kept) wide[i] = all[i];
        else num_widened_ += adapters::has_rank_to_widen(all[i]) && adapters::rank_of(all[i]) < rule_.rank;
      }
    }
    std::vector<AdapterWeights> reshaped;
    for (const auto& w : wide) reshaped.push_back(reshape(component, w, wide, errors));
    return reshaped;
  }

  /// Returns how many adapters got a larger rank.
  int64_t num_widened() const { return num_widened_; }

 private:
  static constexpr uint64_t kSeed = 0;

  static bool is_lora(const AdapterWeights& w) { return w.kind == adapters::Kind::lora && !w.magnitude.m.defined(); }

  AdapterWeights reshape(const std::string& component, const AdapterWeights& w, const std::vector<AdapterWeights>& all, Errors& errors) {
    auto name = component + "." + w.path;
    if (is_lora(w)) return with_rule(name, w, errors);
    if (!bakes_) {
      bool has_rank = adapters::has_rank_to_widen(w) || w.kind == adapters::Kind::lokr;  // LoKr of whole factors has any
      bool fits = grows() && has_rank && adapters::rank_of(w) <= rule_.rank;
      if (has_rule() && !fits)
        config_error("convert", "'{}' is no plain LoRA, whose rank alone can become smaller; add --lora_type lora", name);
      return w;
    }
    if (!has_rule()) config_error("convert", "say how large the LoRA may become: --lora_rank, or --lora_energy with the share to keep");
    if (adapters::is_zero(w)) return unchanging(component, w.path);
    auto delta = delta_of(component, w, all);
    if (!delta.any().item<bool>()) return unchanging(component, w.path);
    auto factors = factor(delta, rule_, name);
    errors.add(name, factors.error);
    return lora_of(w.path, factors);
  }

  /// A plain LoRA of the rank that is asked for.
  AdapterWeights with_rule(const std::string& name, const AdapterWeights& w, Errors& errors) {
    auto rank = adapters::rank_of(w);
    bool fits = rule_.energy == 0 && (rule_.rank == 0 || rank <= rule_.rank);
    if (fits) return w;
    auto own = adapters::cut(w);
    if (adapters::is_zero(own)) return rule_.rank > 0 ? first_ranks(own, std::min(rank, rule_.rank)) : w;
    auto a = own.parameters[0].second, b = own.parameters[1].second;
    if (own.parameters[0].first == "lora_B.weight") std::swap(a, b);
    auto factors = factor_product(b.to(at::kDouble) * w.scale, a, rule_);
    if (factors.a_RI.size(0) >= a.size(0)) return w;
    errors.add(name, factors.error);
    return lora_of(w.path, factors);
  }

  /// A LoRA that adds nothing, as at a fresh start, of as many ranks as others may have: a layer that is there stays there.
  AdapterWeights unchanging(const std::string& component, const std::string& path) {
    const auto& layer = *layers_of(component).layer(path);
    auto out = layer.out_features(), in = layer.in_features();
    auto rank = std::min({std::max<int64_t>(1, rule_.rank), out, in});
    adapters::Fresh fresh{at::make_generator<at::CPUGeneratorImpl>(kSeed ^ mix64(path))};
    return lora_of(path, {fresh.kaiming(rank, in), fresh.zeros(out, rank)});
  }

  /// Of a LoRA that adds nothing, whose ranks are all alike.
  static AdapterWeights first_ranks(AdapterWeights w, int64_t rank) {
    for (auto& [name, factor] : w.parameters) factor = factor.narrow(name == "lora_A.weight" ? 0 : 1, 0, rank);
    return w;
  }

  /// Tells whether ranks below the one asked for become that one: under an energy it is a limit alone.
  bool grows() const { return rule_.rank > 0 && rule_.energy == 0; }
  bool has_rule() const { return rule_.rank > 0 || rule_.energy > 0; }

  /// Returns what the adapter adds to its weight, as a matrix.
  at::Tensor delta_of(const std::string& component, const AdapterWeights& w, const std::vector<AdapterWeights>& all) {
    if (auto delta = delta_alone(w, *layers_of(component).layer(w.path))) return *delta;
    if (!has_weights(model_, component))
      config_error("convert", "what the {} of '{}.{}' adds depends on the weight; name the model's files with --model",
                   w.magnitude.m.defined() ? "DoRA" : adapters::kind_name(w.kind), component, w.path);
    at::NoGradGuard no_grad;
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
  int64_t num_widened_ = 0;
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

/// A number, or all that occur: "16", "16/8".
template <class NumberOf>
std::string all_of(const AdaptersByComponent& all, NumberOf number_of) {
  std::vector<std::string> seen;
  for (const auto& [component, weights] : all) {
    for (const auto& w : weights) {
      if (auto text = number_of(w); !contains(seen, text)) seen.push_back(text);
    }
  }
  return join(seen, "/");
}

std::string type_of(const AdapterWeights& w) { return w.magnitude.m.defined() ? "dora" : std::string(adapters::kind_name(w.kind)); }

double alpha_of(const AdapterWeights& w) { return w.scale * static_cast<double>(std::max<int64_t>(1, adapters::rank_of(w))); }

std::string norm_of(const AdapterWeights& w) { return w.magnitude.axis == adapters::NormAxis::input ? "input" : "output"; }

loras::AdapterTotals totals_of(const AdaptersByComponent& all) {
  return {.type = all_of(all, type_of),
          .ranks = all_of(all, [](const auto& w) { return std::to_string(adapters::rank_of(w)); }),
          .alphas = all_of(all, [](const auto& w) { return fmt::format("{}", static_cast<float>(alpha_of(w))); })};
}

/// Has what burnish, sd-scripts and ModelSpec say of a file's adapters be true of these.
void describe(io::Metadata& metadata, const AdaptersByComponent& all) {
  const auto totals = totals_of(all);
  loras::restate(metadata, totals);
  metadata["format"] = "pt";
  if (metadata.contains("adapter") && totals.type == "dora") metadata["dora_norm"] = all_of(all, norm_of);
}

int64_t num_layers(const AdaptersByComponent& all) {
  int64_t count = 0;
  for (const auto& [component, weights] : all) count += std::ssize(weights);
  return count;
}

/// Holds what is written: changes of weights, and beside them those of biases and norms.
struct Changes {
  AdaptersByComponent weights, vectors = {};
};

/// Writes one file, or peft's folder.
void write_file(const Options& o, const models::Model& model, const Changes& changes, io::Metadata metadata, const fs::path& out) {
  auto format = parse_lora_format(o.lora_format);
  if (format == LoraFormat::peft && changes.weights.size() > 1)
    config_error("convert", "a folder of peft holds the adapters of one component, and these are of {}; choose one with --lora_base_model",
                 changes.weights.size());
  describe(metadata, changes.weights);
  io::NamedTensors tensors;
  std::string config;
  for (const auto& [component, weights] : changes.weights) {
    auto vectors = changes.vectors.find(component);
    auto spelled = spell(weights, vectors == changes.vectors.end() ? std::vector<AdapterWeights>() : vectors->second, model, component,
                         format, chosen_dtype(o));
    tensors.insert(tensors.end(), spelled.tensors.begin(), spelled.tensors.end());
    config = spelled.peft_config;
  }
  uint64_t bytes = config.size();
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  io::check_space(out, bytes);
  loras::renew_sums(metadata, tensors);
  if (format != LoraFormat::peft) return io::save_safetensors(out, tensors, metadata);
  io::save_safetensors(out / "adapter_model.safetensors", tensors, metadata);
  io::write_text_atomic(out / "adapter_config.json", config);
}

/// "x.safetensors" as "x_high_noise.safetensors".
fs::path named_for(const fs::path& out, const models::Expert& expert) {
  return out.parent_path() / (out.stem().string() + "_" + expert.name + out.extension().string());
}

/// Writes adapters: those of several experts into a file each, since no format has both in one; the paths of what was written. What is no
/// expert's goes into the first.
std::vector<std::string> write_lora(const Options& o, const models::Model& model, const Changes& changes, const io::Metadata& metadata) {
  const fs::path out = o.paths.back();
  std::vector<models::Expert> experts;
  std::ranges::copy_if(model.names().experts, std::back_inserter(experts),
                       [&](const auto& expert) { return changes.weights.contains(expert.component); });
  if (experts.size() < 2) {
    write_file(o, model, changes, metadata, out);
    return {out.string()};
  }
  std::vector<std::string> paths;
  for (const auto& expert : experts) {
    check_free(o, named_for(out, expert));
    paths.push_back(named_for(out, expert).string());
  }
  for (const auto& expert : experts) {
    Changes own{.weights = {}, .vectors = changes.vectors};
    for (const auto& [component, weights] : changes.weights) {
      const bool is_first = expert.component == experts.front().component;
      if (component == expert.component || (is_first && !model.names().is_denoiser(component))) own.weights[component] = weights;
    }
    auto of_expert = metadata;
    of_expert[loras::kExpertKey] = expert.name;
    write_file(o, model, own, of_expert, named_for(out, expert));
  }
  return paths;
}

/// Takes out what changes biases and norms; what of it the format holds.
AdaptersByComponent take_vectors(AdaptersByComponent& all, const models::Model& model, const std::string& file, LoraFormat format) {
  AdaptersByComponent held;
  int64_t num_dropped = 0;
  for (auto& [component, weights] : all) {
    ComponentWeights layers(model, component);
    auto vectors = std::ranges::stable_partition(weights, [&](const auto& w) { return w.target == "weight" && layers.layer(w.path); });
    const std::vector<AdapterWeights> taken(vectors.begin(), vectors.end());
    weights.erase(vectors.begin(), vectors.end());
    for (const auto& vector : taken) {
      if (holds_vector(vector, weights, model, component, format)) held[component].push_back(vector);
      else ++num_dropped;
    }
  }
  if (num_layers(all) + num_layers(held) == 0)
    data_error("convert",
               "{} changes norms and biases alone, which a LoRA does not hold; merge it into the model: burnish convert --lora {}", file,
               file);
  if (num_dropped > 0)
    warn("{} changes of biases and norms are left out, which a LoRA does not hold; merged into a model they stay (burnish convert --lora)",
         num_dropped);
  return held;
}

/// Tells whether a file holds tensors, as all files that are written here do.
bool is_weights(const fs::path& file) { return io::SafetensorsFile::open(file) != nullptr; }

/// Tells by its ending whether a file may lie in the folder of a model or an adapter: weights, configs, tokenizers, the card of a hub.
bool is_of_model(const fs::path& file) {
  constexpr std::array<std::string_view, 8> kEndings{".safetensors", ".bin", ".json", ".txt", ".model", ".tiktoken", ".jinja", ".md"};
  return std::ranges::find(kEndings, file.extension().string()) != kEndings.end();
}

}  // namespace

void check_free(const Options& o, const fs::path& out) {
  if (!io::is_there(out)) return;
  if (!o.overwrite) config_error("convert", "{} is there already; name another, or add --overwrite", out.string());
  if (io::is_folder(out)) io::check_replaces_folder("convert", out, is_of_model);
  else io::check_replaces("convert", out, is_weights);
}

std::vector<loras::LoraFile> lora_files(const Options& o) {
  std::vector<loras::LoraFile> files;
  for (size_t i = 0; i + 1 < o.paths.size(); ++i) files.push_back(loras::parse_lora_file(o.paths[i]));
  return files;
}

LoraReport convert_lora(const Options& o) {
  const auto files = lora_files(o);
  const auto& file = files.front().path;
  auto model = model_of(file, o.model, o.model_of_run);
  Changes changes{read_loras(*model, files)};
  choose_components(changes.weights, o.lora_base_model, file);
  changes.vectors = take_vectors(changes.weights, *model, file, parse_lora_format(o.lora_format));
  Reshaping reshaping(o, *model);
  Errors errors;
  for (auto& [component, weights] : changes.weights) {
    split_blocks(weights);
    weights = reshaping.apply(component, weights, errors);
  }
  LoraReport report{.num_layers = num_layers(changes.weights), .num_widened = reshaping.num_widened()};
  errors.report(report);
  report.path = join(write_lora(o, *model, changes, io::TensorSource::open({adapters::find_adapter(file).tensors}).metadata()));
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
  LoraReport report{.num_layers = num_layers(all)};
  errors.report(report);
  report.path = join(write_lora(o, *base, {all}, {}));
  return report;
}

}  // namespace burnish::convert
