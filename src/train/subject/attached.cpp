#include "train/subject/attached.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>

#include "adapters/adapter_config.h"
#include "adapters/adapter_tensors.h"
#include "base/input_error.h"
#include "base/log.h"
#include "base/random_key.h"
#include "base/text.h"
#include "loras/file_metadata.h"
#include "loras/lora_file.h"
#include "models/model/kept_dtypes.h"
#include "models/model/own_file.h"
#include "quant/trained_codes.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

std::string type_of(const adapters::Adapter& adapter) {
  return adapter.is_dora() ? "dora" : std::string(adapters::kind_name(adapter.update().kind()));
}

/// Returns which programs make of a DoRA what was trained.
const char* readers_of(adapters::NormAxis axis) {
  return axis == adapters::NormAxis::input
             ? "dora_norm input: OneTrainer and ComfyUI load such a file as it was trained; peft, diffusers and LyCORIS do not"
             : "dora_norm output: peft and diffusers load such a file as it was trained; ComfyUI may take norms of the base alone";
}

/// Returns what stands behind the names of words' files: of several words a point and the word, of which letters, digits, dashes and
/// underscores stay; those that are left with one name are counted.
std::vector<std::string> names_in_files(const std::vector<ChosenWord>& words) {
  if (words.size() == 1) return {""};
  std::vector<std::string> names;
  for (const auto& [word, encoders] : words) {
    std::string plain;
    for (const char c : word.text) {
      const bool stays = std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80 || c == '-' || c == '_';
      if (stays) plain += c;
    }
    if (plain.empty()) plain = "word";
    auto name = "." + plain;
    for (int count = 2; contains(names, name); ++count) name = fmt::format(".{}-{}", plain, count);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Attached::Attached(const Chosen& chosen, models::Model& model) : chosen_(&chosen), model_(&model) {
  const auto& settings = chosen.settings;
  if (chosen.has_adapters()) {
    adapters::Dropout dropout{.probability = settings.adapter.dropout, .seed = settings.seed};
    dropout_ = std::make_shared<adapters::Dropout>(dropout);
  }
  for (const auto& adapters : chosen.adapted) adapted_.push_back({adapters.component, {}});
  for (const auto& component : chosen.components) {
    bool whole = chosen.whole_components().contains(component);
    auto it = std::ranges::find(chosen.adapted, component, &Chosen::Adapters::component);
    if (!whole && it == chosen.adapted.end()) continue;
    auto& root = model_->components().module(component);
    root.visit_parameters([&](const std::string& path, at::Tensor& p) {
      p.set_requires_grad(
          std::ranges::any_of(chosen.whole, [&](const auto& w) { return w.component == component && lies_below(path, w.path); }));
    });
    if (it == chosen.adapted.end()) continue;
    auto& adapted = adapted_[static_cast<size_t>(it - chosen.adapted.begin())].adapted;
    if (!it->weights.empty()) {
      adapted = adapters::attach_weights(root, it->weights, settings.lora_checkpoint, dropout_);
      continue;
    }
    auto seed = settings.seed;
    if (component != model_->names().experts.front().component) seed ^= mix64(component);  // others may have layers of equal names
    auto options_of = [&](const std::string& path) { return it->options.at(path); };
    adapted = adapters::attach(root, options_of, it->paths, seed, dropout_, it->fused);
  }
  if (!chosen.words.empty()) words_.emplace(chosen.words, settings.words.keeps_norm, model);
  note_adapters();
  if (rank_rule().is_on()) check_rank_rule();
  if (!adapted_.empty()) adapter_files(0, at::kFloat);  // so that what cannot be written is said now
}

void Attached::note_adapters() const {
  for (const auto& a : adapted_) {
    std::map<std::pair<int64_t, double>, int64_t> counts;  // by rank and scale
    for (const auto& item : a.adapted) ++counts[{item.adapter->update().rank(), item.adapter->update().scale()}];
    for (const auto& [kind, count] : counts)
      info("{} {}, scale {:.4g} on {} layers of {}", type_of(*a.adapted[0].adapter),
           kind.first > 0 ? fmt::format("of rank {}", kind.first) : "of full rank", kind.second, count, a.component);
  }
  if (adapted_.empty()) return;
  const auto& first = *adapted_[0].adapted[0].adapter;
  if (first.is_dora()) info("{}", readers_of(first.magnitude().axis));
}

void Attached::check_rank_rule() const {
  int64_t most = 0;
  for (const auto& a : adapted_) {
    for (const auto& item : a.adapted) {
      most = std::max(most, item.adapter->update().rank());
      if (const auto type = type_of(*item.adapter); type != "lora")
        config_error("train", "tlora_min_rank leaves ranks of LoRAs out, and the adapter of {} is of type {}; take it out, or train a LoRA",
                     item.path, type);
    }
  }
  if (rank_rule().least >= most)
    config_error("train", "tlora_min_rank {} leaves out none of the adapter's {} ranks; set it below lora_rank", rank_rule().least, most);
}

loras::LayerStrengths::ByComponent Attached::factors(const loras::LayerStrengths& layers) const {
  loras::AdaptersByComponent named;
  for (const auto& a : adapted_) {
    for (const auto& item : a.adapted) named[a.component].push_back({.path = item.path});
  }
  return layers.of(*model_, named, "the adapter in training");
}

void Attached::set_factors(const loras::LayerStrengths& layers) const {
  const auto by_component = factors(layers);
  for (const auto& a : adapted_) {
    for (size_t i = 0; i < a.adapted.size(); ++i) a.adapted[i].adapter->shared_update()->set_factor(by_component.at(a.component)[i]);
  }
}

void Attached::check_strengths(const std::vector<Strength>& strengths) const {
  for (const auto& strength : strengths) {
    const auto by_component = factors(strength.layers);
    for (const auto& a : adapted_) {
      for (size_t i = 0; i < a.adapted.size(); ++i) {
        const auto at = strength.whole * by_component.at(a.component)[i];
        if (a.adapted[i].adapter->is_dora() && at != 0 && at != 1)
          config_error(
              "train",
              "validation_strengths other than 0 and 1 are for adapters whose change is a factor times another, and {} of {} has a "
              "magnitude (dora); leave 0 alone, or train a LoRA",
              a.adapted[i].path, a.component);
      }
    }
  }
}

double Attached::lr_factor(const std::string& component) const {
  double rate = chosen_->settings.learning_rate;
  if (const auto* companion = chosen_->companion(component)) return companion->learning_rate > 0 ? companion->learning_rate / rate : 1;
  for (const auto& [name, chosen] : chosen_->settings.component_rates) {
    if (name.empty() ? !model_->names().is_denoiser(component) : component_called(name, chosen_->components) == component) rate = chosen;
  }
  return rate / chosen_->settings.learning_rate;
}

optim::ParameterList Attached::parameters() const {
  optim::ParameterList parameters;
  std::set<const c10::TensorImpl*> seen;
  for (const auto& a : adapted_) {
    for (const auto& item : a.adapted) {
      for (const auto& [name, value] : item.adapter->parameters()) {
        if (!seen.insert(value.unsafeGetTensorImpl()).second) continue;
        parameters.push_back({a.component + "." + item.path + "." + name, value, lr_factor(a.component)});
      }
    }
  }
  for (const auto& whole : chosen_->whole) {
    auto& root = model_->components().module(whole.component);
    auto codes = quant::trained_codes(root);
    root.visit_parameters([&](const std::string& path, at::Tensor& p) {
      if (lies_below(path, whole.path)) parameters.push_back({whole.component + "." + path, p, lr_factor(whole.component), codes[path]});
    });
  }
  if (!words_) return parameters;
  for (const auto& v : words_->vectors()) {
    const auto& word = chosen_->words[v.word].settings;
    const double rate = word.learning_rate > 0 ? word.learning_rate : chosen_->settings.learning_rate;
    parameters.push_back({word_parameter(word, *model_, v.encoder), v.values_NE, rate / chosen_->settings.learning_rate});
  }
  return parameters;
}

void Attached::updated() const {
  if (words_) words_->keep_norms();
}

std::vector<TrainedFile> Attached::adapter_files(int64_t step, c10::ScalarType dtype) const {
  std::map<std::string, std::vector<const Adapters*>> by_expert;  // "" for what is no expert's, or the only one's
  for (const auto& a : adapted_) {
    if (chosen_->companion(a.component) != nullptr) continue;
    const auto* expert = model_->names().expert_of(a.component);
    by_expert[expert ? expert->name : ""].push_back(&a);
  }
  std::vector<TrainedFile> files;
  for (const auto& [expert, adapted] : by_expert) files.push_back(adapter_file(step, dtype, expert, adapted));
  return files;
}

TrainedFile Attached::adapter_file(int64_t step, c10::ScalarType dtype, const std::string& expert,
                                   const std::vector<const Adapters*>& adapted) const {
  TrainedFile file{.name = fmt::format("step-{}{}.safetensors", step, expert.empty() ? "" : "." + expert), .values = {}, .metadata = {}};
  if (!expert.empty()) file.metadata[loras::kExpertKey] = expert;
  std::vector<adapters::AdaptedList> all;
  for (const auto* a : adapted) all.push_back(a->adapted);
  const auto layout = adapters::settled(chosen_->settings.layout, all);
  file.layout = layout;
  std::vector<std::string> ranks, alphas;
  auto note = [](std::vector<std::string>& seen, const std::string& number) {
    if (!contains(seen, number)) seen.push_back(number);
  };
  const auto& away = model_->names().away;
  file.is_known_elsewhere = !away || adapted[0]->component != away->component;
  for (const auto* a : adapted) {
    auto prefixes = loras::layer_prefixes(*model_, a->component);
    for (const auto& value : adapters::adapter_values(a->adapted, prefixes, dtype, layout)) file.values.push_back({value.spec, value.get});
    for (const auto& item : a->adapted) {
      const auto& update = item.adapter->update();
      note(ranks, std::to_string(update.rank()));
      note(alphas, fmt::format("{}", update.scale() * static_cast<double>(std::max<int64_t>(1, update.rank()))));
    }
  }
  const auto& first = *adapted[0]->adapted[0].adapter;
  const loras::AdapterTotals totals{type_of(first), join(ranks, "/"), join(alphas, "/")};
  file.metadata.merge(loras::adapter_metadata(model_->names(), totals));
  if (!first.is_dora()) return file;
  bool by_input = first.magnitude().axis == adapters::NormAxis::input;
  file.metadata["dora_norm"] = by_input ? "input" : "output";
  if (by_input) file.readers = readers_of(adapters::NormAxis::input);
  return file;
}

std::vector<TrainedFile> Attached::files(int64_t step, c10::ScalarType dtype, const optim::Optimizer& optimizer, Exact exact) const {
  const auto& parameters = optimizer.parameters();
  if (!exact) exact = [&parameters](size_t number, auto in) { return optim::kept_value(parameters[number]).to(in); };
  // The index of a parameter in the optimizer. Each tensor of a file has a copy of `exact_of`, and all of them share one index.
  const auto index = std::make_shared<std::map<std::string, size_t>>();
  for (size_t i = 0; i < parameters.size(); ++i) (*index)[parameters[i].name] = i;
  const ExactOf exact_of = [exact, index](const std::string& parameter, auto in) { return exact(index->at(parameter), in); };
  auto files = adapter_files(step, dtype);
  for (const auto& component : chosen_->whole_components()) {
    if (chosen_->companion(component) != nullptr) continue;
    bool plain_name = model_->names().denoisers() == std::vector{component} && files.empty();
    TrainedFile file{.name = fmt::format("step-{}{}.safetensors", step, plain_name ? "" : "." + component), .values = {}, .metadata = {}};
    std::map<std::string, std::vector<int64_t>> sizes;
    model_->components().module(component).visit_parameters([&](const std::string& path, at::Tensor&) {
      if (auto it = index->find(component + "." + path); it != index->end()) sizes[path] = parameters[it->second].value.sizes().vec();
    });
    add_whole(component, sizes, dtype, exact_of, file);
    files.push_back(std::move(file));
  }
  if (words_) add_words(step, exact_of, files);
  return files;
}

void Attached::add_whole(const std::string& component, const std::map<std::string, std::vector<int64_t>>& sizes, c10::ScalarType dtype,
                         const ExactOf& exact_of, TrainedFile& file) const {
  const auto names = models::names_in_folder(*model_, component);
  const auto kept = models::kept_in_fp32(model_->components(), component);
  std::vector<std::string> ours;
  for (const auto& [path, shape] : sizes) ours.push_back(path);
  for (const auto& rule : names.keys.to_file(ours)) {
    std::vector<at::Tensor> shapes;
    for (const auto& path : rule.ours) shapes.push_back(at::empty(sizes.at(path), at::TensorOptions().device(at::kMeta)));
    const bool stays = std::ranges::any_of(rule.ours, [&](const auto& path) { return kept.contains(path); });
    const auto in = stays ? at::kFloat : dtype;
    file.values.push_back({{names.prefix + rule.theirs, in, io::tensor_in_file(rule, shapes).sizes().vec()}, [=] {
                             std::vector<at::Tensor> parts;
                             for (const auto& path : rule.ours) parts.push_back(exact_of(component + "." + path, in));
                             return io::tensor_in_file(rule, parts);
                           }});
  }
  const auto* entry = model_->components().source(component).entry;
  const bool is_all = sizes.size() == model_->components().module(component).parameters().size();
  if (!is_all || entry == nullptr || !entry->tensors || entry->component.empty()) return;
  const auto unread = std::make_shared<io::TensorSource>(models::unread_tensors(*entry, model_->components()));
  for (const auto& name : unread->names()) {
    const auto& info = unread->info(name);
    file.values.push_back({{name, info.dtype, info.shape}, [unread, name] { return unread->tensor(name); }});
  }
}

void Attached::add_words(int64_t step, const ExactOf& exact_of, std::vector<TrainedFile>& files) const {
  const bool is_bundled = chosen_->settings.words.is_bundled && !adapted_.empty();
  const std::string beside = files.empty() ? "" : ".embedding";
  const auto names = names_in_files(chosen_->words);
  for (size_t i = 0; i < chosen_->words.size(); ++i) {
    if (!is_bundled)
      files.push_back({.name = fmt::format("step-{}{}{}.safetensors", step, beside, names[i]), .values = {}, .metadata = {}});
    auto& file = is_bundled ? files.front() : files.back();
    auto& said = file.metadata[loras::kEmbeddingKey];
    said += (said.empty() ? "" : ", ") + chosen_->words[i].settings.text;
    add_word(i, exact_of, is_bundled, file);
  }
}

/// Where states train, encoders read zeros in their place.
void Attached::add_word(size_t number, const ExactOf& exact_of, bool is_bundled, TrainedFile& file) const {
  const auto& word = chosen_->words[number].settings;
  const auto layout = chosen_->settings.words.layout;
  auto name_of = [&](const std::string& encoder) {
    return is_bundled ? loras::bundled_name(*model_, encoder, word.text) : loras::tensor_name(*model_, encoder, word.text, layout);
  };
  for (const auto& v : words_->vectors()) {
    if (v.word != number) continue;
    file.values.push_back({{name_of(v.encoder) + (word.is_output ? loras::kStatesEnding : ""), at::kFloat, v.values_NE.sizes().vec()},
                           [exact_of, parameter = word_parameter(word, *model_, v.encoder)] { return exact_of(parameter, at::kFloat); }});
  }
  if (!word.is_output) return;
  for (const auto& encoder : loras::word_encoders(*model_)) {
    for (const auto& known : model_->components().holding(encoder).words) {
      if (known.text == word.text)
        file.values.push_back({{name_of(encoder), at::kFloat, known.vectors_NE.sizes().vec()}, [read = known.vectors_NE] { return read; }});
    }
  }
}

}  // namespace burnish::train
