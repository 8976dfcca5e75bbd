#include "models/model/components.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/dtype.h"
#include "base/input_error.h"
#include "io/files.h"
#include "kernels/shapes_only.h"

namespace burnish::models {

namespace {

/// Drops the layers that `wanted` has nothing of. Every layer in a file belongs to one part as a whole.
io::TensorSource only(const io::TensorSource& tensors, const io::KeyMap& keys, const io::Shapes& wanted) {
  std::vector<std::string> others;
  for (const auto& name : tensors.names()) {
    if (wanted.contains(keys.to_ours(name).ours[0])) continue;
    auto dot = name.rfind('.');
    others.push_back(dot == name.npos ? name : name.substr(0, dot + 1));
  }
  return tensors.without(others);
}

at::TensorOptions tensor_options(const Recipe& recipe, const ModelOptions& options) {
  return at::TensorOptions().dtype(recipe.dtype.value_or(options.dtype)).device(options.device);
}

/// The tokenizer of a model that is only named: a text is its end, filled up.
class NoVocabulary final : public tokenizers::Tokenizer {
 public:
  std::vector<int64_t> encode(std::string_view /*text*/) const override { return {end_id_}; }
};

/// Lists the blocks in order of execution.
std::vector<nn::Block*> blocks_of(const Recipe& recipe, nn::Module& root) {
  return recipe.blocks ? recipe.blocks(root) : nn::blocks_below(root);
}

/// Tells whether the weights are drawn and not read.
bool is_random(const Recipe& recipe, const ModelOptions& options) {
  return recipe.initialise && (recipe.weights_from == WeightsFrom::drawn || options.init == "random");
}

}  // namespace

void Components::add(Recipe recipe) {
  if (recipe.source.entry && !recipe.source.tensors && !is_random(recipe, options_)) {
    data_error("models", "{} holds a config.json and no weights; add the weights, or train from scratch with --init random",
               recipe.source.entry->label);
  }
  recipes_.push_back(std::move(recipe));
}

Recipe copy_of(const Recipe& original, const std::string& name, bool shares_weights) {
  auto recipe = original;
  const auto component = original.name;
  auto in_original = [component, name](const std::string& part) { return component + part.substr(name.size()); };
  recipe.name = recipe.what = name;
  recipe.copy_of = component;
  if (shares_weights) recipe.weights_from = WeightsFrom::original;
  recipe.build = [build = recipe.build, in_original](const std::string& part, const at::TensorOptions& options) {
    return build(in_original(part), options);
  };
  if (recipe.settings)
    recipe.settings = [settings = recipe.settings, in_original](const auto& part) { return settings(in_original(part)); };
  for (auto& part : recipe.parts) part = name + part.substr(component.size());
  return recipe;
}

void Components::forget_held(const std::string& component) {
  std::erase_if(held_, [&](const auto& item) { return component_of(item.first) == component; });
}

void Components::set_parts(const std::string& component, std::vector<std::string> parts) {
  auto it = std::ranges::find(recipes_, component, &Recipe::name);
  if (it == recipes_.end()) throw std::logic_error("there is no component " + component);
  it->parts = std::move(parts);
  forget_held(component);
}

void Components::set_store(const std::string& component, std::shared_ptr<nn::WeightStore> store) {
  holdings_[component].store = std::move(store);
  forget_held(component);
}

void Components::set_merge(const std::string& component, std::shared_ptr<const Merge> merge) {
  auto before = std::exchange(holdings_[component].merge, merge);
  forget_held(component);
  for (const auto& [name, module] : loaded_) {
    if (component_of(name) != component) continue;
    std::set<std::string> names;
    auto changes = [&](const std::string& parameter) {
      return (before && before->touches(parameter)) || (merge && merge->touches(parameter));
    };
    module->visit([&](const std::string& path, nn::Module& child) {
      auto weight = path.empty() ? "weight" : path + ".weight";
      const auto* layer = dynamic_cast<nn::LinearMap*>(&child);
      bool trains = layer && layer->weight.defined() && layer->weight.requires_grad();
      if (layer && !trains && changes(weight)) names.insert(weight);
    });
    module->visit_parameters([&](const std::string& parameter, at::Tensor& p) {
      if (!p.requires_grad() && changes(parameter)) names.insert(parameter);
    });
    if (names.empty()) continue;
    auto built = skeleton(name);
    reload_weights(*module, *built, names, reading(name, *built));
  }
  for (const auto& [name, copy] : loaded_) {
    const auto& recipe = *find(name);
    if (shares_weights(recipe) && recipe.copy_of == component) share_weights(*copy, module(component + name.substr(recipe.name.size())));
  }
}

const Recipe* Components::find(const std::string& name) const {
  auto it = std::ranges::find(recipes_, component_of(name), &Recipe::name);
  return it == recipes_.end() ? nullptr : &*it;
}

const Holding& Components::holding(const std::string& name) const {
  static const Holding kNone;
  auto it = holdings_.find(component_of(name));
  return it == holdings_.end() ? kNone : it->second;
}

const Source& Components::source(const std::string& name) const {
  static const Source kNone;
  const auto* recipe = find(name);
  return recipe ? recipe->source : kNone;
}

std::vector<Component> Components::list() const {
  std::vector<Component> list;
  for (const auto& recipe : recipes_) {
    if (recipe.source.entry && !shares_weights(recipe)) list.push_back(held(recipe.name));
  }
  return list;
}

std::vector<std::string> Components::parts(const std::string& component) const {
  const auto* recipe = find(component);
  return recipe && !recipe->parts.empty() ? recipe->parts : std::vector<std::string>{component};
}

std::unique_ptr<nn::Module> Components::skeleton(const std::string& name) const {
  const auto* recipe = find(name);
  if (!recipe) throw std::logic_error("there is no component " + name);
  kernels::ShapesOnly shapes_only;
  return recipe->build(name, tensor_options(*recipe, options_).device(at::kMeta));
}

/// Describes how a component or a part will be held; without a name when the files hold no such component.
const Component& Components::held(const std::string& name) const {
  static const Component kNone;
  const auto& from = source(name);
  if (!from.entry || shares_weights(*find(name))) return kNone;
  if (auto it = held_.find(name); it != held_.end()) return it->second;
  auto on_meta = skeleton(name);
  if (!holding(name).store) return held_[name] = {name, from.entry->label, on_meta->num_bytes()};
  const auto& [store, merge, words] = holding(name);
  auto plan = plan_storage(*on_meta, from.tensors ? &*from.tensors : nullptr, from.keys, *store, merge.get());
  auto share = static_cast<double>(plan.stored_elements) / static_cast<double>(plan.elements);
  return held_[name] = {
             name, from.entry->label, plan.num_bytes, plan.num_stored, plan.num_kept, share, {plan.codes.begin(), plan.codes.end()}};
}

Provenance Components::provenance(const std::string& name) const {
  const auto* recipe = find(name);
  Provenance made;
  if (!recipe || !recipe->source.entry) return made;
  const auto& from = recipe->source;
  if (from.tensors) {
    for (const auto& file : from.tensors->files()) made.files.push_back(file->path());
  }
  auto dtype = c10::typeMetaToScalarType(tensor_options(*recipe, options_).dtype());
  made.settings = fmt::format("config {}, {}", from.entry->config.dump(), dtype_name(dtype));
  if (const auto& store = holding(name).store; store && !store->settings().empty()) made.settings += ", " + store->settings();
  if (auto own = recipe->settings ? recipe->settings(name) : ""; !own.empty()) made.settings += ", " + own;
  for (const auto& word : holding(name).words) made.settings += fmt::format(", {} as {} tokens", word.text, word.vectors_NE.size(0));
  if (!recipe->tokenizer) return made;
  for (const auto& file : io::glob(recipe->tokenizer->folder(), "*")) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored)) made.files.push_back(file);
  }
  return made;
}

/// A tokenizer of more tokens would name rows that the encoder's table has not.
static std::shared_ptr<const tokenizers::Tokenizer> load_vocabulary(const Recipe& recipe, const ModelFiles& files) {
  if (recipe.source.entry->is_sizes) return std::make_shared<NoVocabulary>();
  auto folder = recipe.tokenizer->folder();
  auto& tokenizer = files.tokenizers->by_place[{recipe.name, folder}];
  if (!tokenizer) tokenizer = recipe.tokenizer->load(folder);
  if (tokenizer->num_ids() > recipe.tokenizer->vocab_size)
    data_error("models", "the tokenizer in {} has {} tokens and the {} knows {}; they belong to different models", folder.string(),
               tokenizer->num_ids(), recipe.what, recipe.tokenizer->vocab_size);
  return tokenizer;
}

/// The tokens of words have the ids of the rows that come behind the encoder's table.
static std::shared_ptr<const tokenizers::Tokenizer> load_tokenizer(const Recipe& recipe, const ModelFiles& files,
                                                                   const std::vector<Word>& words) {
  auto vocabulary = load_vocabulary(recipe, files);
  if (words.empty()) return vocabulary;
  std::vector<tokenizers::Word> known;
  auto next_id = recipe.tokenizer->vocab_size;
  for (const auto& word : words) {
    auto& ids = known.emplace_back(tokenizers::Word{word.text, {}}).ids;
    for (int64_t i = 0; i < word.vectors_NE.size(0); ++i) ids.push_back(next_id++);
  }
  return tokenizers::with_words(std::move(vocabulary), std::move(known));
}

void put_words(nn::Module& encoder, const Recipe& recipe, const std::vector<Word>& words) {
  if (!recipe.tokenizer || recipe.tokenizer->table.empty()) return;
  auto& table = token_table(encoder, recipe);
  table.added.clear();
  for (const auto& word : words) table.added.push_back(word.vectors_NE);
}

nn::Embedding& token_table(nn::Module& encoder, const Recipe& recipe) {
  nn::Embedding* table = nullptr;
  encoder.visit([&](const std::string& path, nn::Module& module) {
    if (path == recipe.tokenizer->table) table = dynamic_cast<nn::Embedding*>(&module);
  });
  if (table == nullptr) throw std::logic_error("no token table in " + recipe.name);
  return *table;
}

void Components::set_words(const std::string& encoder, std::vector<Word> words) {
  const auto& recipe = *find(encoder);
  holdings_[encoder].words = std::move(words);
  const auto& now = holdings_[encoder].words;
  if (tokenizers_.contains(encoder)) tokenizers_[encoder] = load_tokenizer(recipe, files_, now);
  if (is_loaded(encoder)) put_words(module(encoder), recipe, now);
}

void Components::check(const std::string& name) {
  const auto* recipe = find(name);
  if (recipe && (recipe->weights_from == WeightsFrom::drawn || recipe->weights_from == WeightsFrom::nowhere)) return;
  if (!recipe || !recipe->source.entry) {
    data_error("models", "this run needs a {}, and there is none in {}; name it with a further --model", recipe ? recipe->what : name,
               files_.describe());
  }
  if (recipe->source.entry->is_sizes && !options_.device.is_meta())
    data_error("models", "'{}' is the name of a model, for `burnish plan`, and no place where its weights lie; name its files",
               recipe->source.entry->label);
  if (!is_random(*recipe, options_) && !checked_.contains(recipe->name)) {
    const auto& from = recipe->source;
    io::check_named(*from.tensors, from.keys, shapes_of(*skeleton(recipe->name)), from.entry->label);
    checked_.insert(recipe->name);
  }
  if (recipe->tokenizer && !tokenizers_.contains(recipe->name))
    tokenizers_[recipe->name] = load_tokenizer(*recipe, files_, holding(name).words);
}

Reading Components::reading(const std::string& name, nn::Module& skeleton) const {
  const auto& recipe = *find(name);
  const auto& from = recipe.source;
  return {.tensors = name == recipe.name ? *from.tensors : only(*from.tensors, from.keys, shapes_of(skeleton)),
          .keys = from.keys,
          .what = from.entry->label,
          .options = tensor_options(recipe, options_),
          .store = holding(name).store.get(),
          .merge = holding(recipe.copy_of.empty() ? name : recipe.copy_of).merge.get()};
}

void Components::load(const std::string& name, const Placed& placed) {
  if (is_loaded(name)) {
    if (placed) placed(blocks_of(*find(name), *loaded_.at(name)));
    return;
  }
  check(name);
  const auto& recipe = *find(name);
  auto built = skeleton(name);
  if (recipe.weights_from == WeightsFrom::nowhere) {
    loaded_[name] = std::move(built);
    return;
  }
  auto tell = [&, blocks = blocks_of(recipe, *built)] {
    if (placed) placed(blocks);
  };
  if (shares_weights(recipe)) {
    share_weights(*built, module(recipe.copy_of + name.substr(recipe.name.size())));
  } else if (options_.device.is_meta() && placed && recipe.source.tensors) {
    const auto blocks = blocks_of(recipe, *built);
    WeightPieces pieces(*built, skeleton(name), reading(name, *built), {blocks.begin(), blocks.end()});
    pieces.read_rest();
    for (size_t number = 0; number < blocks.size(); ++number) {
      tell();
      pieces.read(number);
    }
  } else if (options_.device.is_meta()) {
    const auto& from = recipe.source;
    const auto& [store, merge, words] = holding(name);
    place_shapes(*built, from.tensors ? &*from.tensors : nullptr, from.keys, store.get(), merge.get());
  } else if (is_random(recipe, options_)) {
    // The whole is drawn for a part too, so that a part's numbers do not depend on what is loaded beside it.
    auto whole = skeleton(recipe.name);
    recipe.initialise(*whole);
    auto made = whole->parameters();
    built->visit_parameters([&](const std::string& path, at::Tensor& p) { p = made.at(path)->to(options_.device); });
    if (const auto& store = holding(name).store) store_weights(*built, *store, options_.device);
  } else {
    load_weights(*built, reading(name, *built), tell);
  }
  put_words(*built, recipe, holding(name).words);
  tell();
  loaded_[name] = std::move(built);
}

nn::Module& Components::module(const std::string& asked) {
  auto name = asked;
  if (auto other = in_place_.find(component_of(asked)); other != in_place_.end()) name = other->second + asked.substr(other->first.size());
  auto it = loaded_.find(name);
  for (auto above = name; it == loaded_.end() && above.find('.') != above.npos;) {
    above.resize(above.rfind('.'));
    it = loaded_.find(above);
  }
  if (it == loaded_.end() && name == component_of(name))
    it = std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& item) { return component_of(item.first) == name; });
  if (it == loaded_.end()) throw std::logic_error("component " + name + " is not loaded");
  return *it->second;
}

InPlace::InPlace(Components& components, const std::string& of, const std::string& other) : components_(components), of_(of) {
  if (!components_.in_place_.emplace(of, other).second) throw std::logic_error("another component runs in place of " + of + " already");
}

InPlace::~InPlace() { components_.in_place_.erase(of_); }

std::vector<std::string> block_paths(const Components& components, const std::string& name) {
  const auto root = components.skeleton(name);
  std::map<const nn::Module*, std::string> paths;
  root->visit([&](const std::string& path, nn::Module& module) { paths[&module] = path; });
  std::vector<std::string> in_order;
  for (const auto* block : blocks_of(*components.find(name), *root)) in_order.push_back(paths.at(block));
  return in_order;
}

std::vector<nn::Block*> Components::blocks(const std::string& component) { return blocks_of(*find(component), module(component)); }

}  // namespace burnish::models
