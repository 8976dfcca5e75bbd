#pragma once
#include <functional>
#include <memory>
#include <set>

#include "io/key_map.h"
#include "models/files/files.h"
#include "models/files/loading.h"
#include "models/model/options.h"
#include "models/model/words.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/weight_source.h"
#include "pipeline/unit.h"
#include "tokenizers/tokenizer.h"

namespace burnish::models {

/// Returns the component that a part belongs to: what stands before the first dot.
using pipeline::component_of;

/// Tells of a parameter of a component, by its path, whether it trains.
using Trains = std::function<bool(const std::string& path)>;

/// The place in files that a component's weights come from.
struct Source {
  const ModelEntry* entry = nullptr;        ///< null when the files hold no such component
  std::optional<io::TensorSource> tensors;  ///< below the component's prefix; absent for a config.json without weights
  io::KeyMap keys;                          ///< rules from their names to ours
  bool is_original = false;                 ///< whether their names are those of the model's authors, and not diffusers'
  const char* names() const { return is_original ? "original" : "diffusers"; }
  /// Returns shapes under our names; empty without weights.
  io::Shapes shapes() const { return tensors ? io::shapes_in_our_names(*tensors, keys) : io::Shapes{}; }
  /// Reads a configuration by `of` from config.json (null for none) and the shapes; `otherwise` where the files hold no such component.
  template <class Config>
  Config read(Config (*of)(const nlohmann::json*, const io::Shapes&), const Config& otherwise = {}) const {
    return entry ? of(entry->config.is_null() ? nullptr : &entry->config, shapes()) : otherwise;
  }
  template <class Config>
  Config read(Config (*of)(const nlohmann::json&, const io::Shapes&), const Config& otherwise = {}) const {
    return entry ? of(entry->config, shapes()) : otherwise;
  }
};

/// Says how a text encoder's tokenizer is found and loaded.
struct TokenizerRecipe {
  std::function<std::filesystem::path()> folder;  ///< finds its folder; throws a data Error when there is none
  std::function<std::unique_ptr<tokenizers::Tokenizer>(const std::filesystem::path& folder)> load;
  /// Returns how many tokens of a text the encoder reads, special ones counted; what is beyond them is cut.
  std::function<int64_t(const tokenizers::Tokenizer& tokenizer)> limit;
  const char* option;        ///< the option that sets the limit; null: none does
  int64_t vocab_size = 0;    ///< tokens that the encoder knows
  std::string table = {};    ///< path of its token table, a row for each of them; "" where it learns no words
  std::string vectors = {};  ///< the name of words' vectors in files that hold those of several encoders: "clip_l"
};

/// The source of a component's weights.
enum class WeightsFrom {
  files,     ///< its Source; `initialise` in a run that asks for random weights
  drawn,     ///< `initialise`: no file holds them
  original,  ///< the component that it is a copy of, which is loaded before it: the very same tensors
  nowhere    ///< it has none, and is complete as it is built
};

/// How a component is made, as its family says.
struct Recipe {
  std::string name;  ///< "dit", "vae", "text_encoder"
  std::string what;  ///< what messages call it: "KL autoencoder"
  Source source = {};
  /// Makes its module, or the module of one of its parts, with unset parameters.
  std::function<std::unique_ptr<nn::Module>(const std::string& part, const at::TensorOptions& options)> build = {};
  std::optional<c10::ScalarType> dtype = {};  ///< dtype that it is held in; none takes the run's
  std::vector<std::string> parts = {};        ///< see Components::parts; none: it is always whole
  /// Draws the parameters of a whole denoiser, on the CPU, for a run that asks for random weights.
  std::function<void(nn::Module& whole)> initialise = {};
  /// Names what decides its results, or a part's, beside files, config.json, dtype and storage; none: nothing else does.
  std::function<std::string(const std::string& part)> settings = {};
  std::optional<TokenizerRecipe> tokenizer = {};
  /// Lists its blocks in order of execution; none: in the order of its tree.
  std::function<std::vector<nn::Block*>(nn::Module& whole)> blocks = {};
  /// The component whose copy it is: one more of the same, from the same files; "": none.
  std::string copy_of = {};
  WeightsFrom weights_from = WeightsFrom::files;
};

/// Returns the token table of a text encoder that learns words, within its loaded module or its skeleton.
nn::Embedding& token_table(nn::Module& encoder, const Recipe& recipe);
/// Has the table, where the encoder learns words, have the vectors of these words behind its own rows and no others.
void put_words(nn::Module& encoder, const Recipe& recipe, const std::vector<Word>& words);

/// A component that the files hold, as it will be held.
struct Component {
  std::string name;
  std::string origin;     ///< the files it comes from, for messages
  int64_t num_bytes = 0;  ///< bytes of its weights as they will be held
  /// Linear layers whose weights will be held as codes, and as parameters; and the share of all numbers that is held as codes.
  int64_t num_stored = 0, num_kept = 0;
  double stored_share = 0;
  std::vector<std::string> codes = {};  ///< the kinds of codes that its weights lie as in the file, of those that are held so
};

/// Everything beside its inputs that decides what a component computes.
struct Provenance {
  std::vector<std::filesystem::path> files;  ///< weights and vocabularies
  std::string settings;                      ///< config.json, dtype, and options that reach the result
};

/// Holds what a component is held with beside its files: the ways in which its linear weights change while they are read, and words.
struct Holding {
  std::shared_ptr<nn::WeightStore> store = {};  ///< stores them as codes; null: they are parameters
  std::shared_ptr<const Merge> merge = {};      ///< is merged into them before; null: nothing is
  std::vector<Word> words = {};                 ///< words that a text encoder knows beside its vocabulary
};

/// The components of a model, and what of them is loaded. Each is built on the meta device and filled from its source, whole or in parts,
/// so that a run holds only what its current stage computes with. Wherever a name is asked for, that of a component or of one of its parts
/// will do; parts of one component are loaded together under what their names have in common, up to a dot.
class Components {
 public:
  /// Both must outlive this, and so must what recipes refer to.
  Components(const ModelFiles& files, const ModelOptions& options) : files_(files), options_(options) {}

  /// Adds a component to `list`, behind the others. Throws a data Error for a config.json without weights, unless the run initialises it.
  void add(Recipe recipe);
  /// Gives a component other parts than it had.
  void set_parts(const std::string& component, std::vector<std::string> parts);
  /// Sets how a component's linear weights are held from its next load on; null: as parameters, FP8 numbers in its file turned into them.
  void set_store(const std::string& component, std::shared_ptr<nn::WeightStore> store);
  /// Sets what is merged into a component's weights as they are read; null: nothing. Where the component is loaded, the layers that this
  /// changes are read anew, one at a time, but for those whose weights train. The component may be one that the files lack.
  void set_merge(const std::string& component, std::shared_ptr<const Merge> merge);

  /// Has a text encoder with a token table know these words and no others beside its vocabulary. Its tokenizer reads them from now on, and
  /// its table has their vectors whenever it is loaded: the tensors themselves, so that a change of their numbers is one of the model.
  void set_words(const std::string& encoder, std::vector<Word> words);

  /// Returns how a component is made; null when there is no such component.
  const Recipe* find(const std::string& name) const;
  const Holding& holding(const std::string& name) const;
  /// Tells whether the files hold it, or its weights are drawn.
  bool has(const std::string& name) const {
    const auto* recipe = find(name);
    return recipe != nullptr && (recipe->source.entry != nullptr || recipe->weights_from == WeightsFrom::drawn);
  }
  /// Lists the components that the files hold.
  std::vector<Component> list() const;
  /// Returns a component's source, without an entry when the files hold no such component.
  const Source& source(const std::string& name) const;
  /// Returns the parts of a component that can be loaded apart, by the names that units give them ("dit.modulation" and "dit.body" of
  /// "dit"); the component itself when it is always whole.
  std::vector<std::string> parts(const std::string& component) const;
  /// Counts the bytes of its weights as they will be held; 0 when the files hold no such component.
  int64_t num_bytes(const std::string& name) const { return held(name).num_bytes; }
  /// Returns what decides a component's results; empty when the files hold no such component.
  Provenance provenance(const std::string& name) const;
  /// Builds the parameter tree on the meta device: names and shapes, no weights.
  std::unique_ptr<nn::Module> skeleton(const std::string& name) const;

  /// Refuses by file headers alone what `load` would refuse: throws a data Error when the files lack the component, one of its tensors, or
  /// its tokenizer, which is loaded for that and kept.
  void check(const std::string& name);
  /// Streams the weights from their files; for a model on the meta device, makes what would hold them. Loading what is loaded does nothing.
  /// `placed` is given the component's blocks each time a weight has come to where it is held, and once at the end.
  using Placed = std::function<void(const std::vector<nn::Block*>& blocks)>;
  void load(const std::string& name, const Placed& placed = {});
  void unload(const std::string& name) { loaded_.erase(name); }
  /// Tells whether it was loaded under this very name.
  bool is_loaded(const std::string& name) const { return loaded_.contains(name); }
  /// Returns the loaded parameter tree: of a component the loaded part of it; of a part the whole component where that is loaded. Throws
  /// std::logic_error when it is not loaded.
  nn::Module& module(const std::string& asked);
  /// Returns the blocks of a loaded component in order of execution.
  std::vector<nn::Block*> blocks(const std::string& component);
  /// Returns the tokenizer of a text encoder that was checked or loaded.
  const tokenizers::Tokenizer& tokenizer(const std::string& component) const { return *tokenizers_.at(component); }

 private:
  friend class InPlace;
  friend class BlockByBlock;
  const Component& held(const std::string& name) const;
  Reading reading(const std::string& name, nn::Module& skeleton) const;
  void forget_held(const std::string& component);

  const ModelFiles& files_;
  const ModelOptions& options_;
  std::vector<Recipe> recipes_;
  std::map<std::string, Holding> holdings_;
  std::map<std::string, std::shared_ptr<const tokenizers::Tokenizer>> tokenizers_;
  std::set<std::string> checked_;  ///< components that the files hold whole
  std::map<std::string, std::unique_ptr<nn::Module>> loaded_;
  std::map<std::string, std::string> in_place_;    ///< components that run in place of others, by the names of those
  mutable std::map<std::string, Component> held_;  ///< components and parts that were described before; building their trees takes time
};

/// Tells whether a copy has the very weights of its original, and none of its own.
inline bool shares_weights(const Recipe& copy) { return copy.weights_from == WeightsFrom::original; }
/// Makes the recipe of a copy of a component under another name.
Recipe copy_of(const Recipe& recipe, const std::string& name, bool shares_weights);

/// Has units that run a component run another one in its place for as long as it lives.
class InPlace {
 public:
  InPlace(Components& components, const std::string& of, const std::string& other);
  ~InPlace();
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

 private:
  Components& components_;
  std::string of_;
};

/// Returns the paths of a component's blocks in order of execution.
std::vector<std::string> block_paths(const Components& components, const std::string& name);

}  // namespace burnish::models
