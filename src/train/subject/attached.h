#pragma once
#include <functional>
#include <optional>

#include "io/safetensors.h"
#include "optim/optimizer.h"
#include "train/subject/chosen.h"
#include "train/subject/strength.h"

namespace burnish::train {

/// A file of what trains, as a save writes it.
struct TrainedFile {
  /// A tensor of a file, which is made when it is asked for.
  struct Value {
    io::TensorSpec spec;
    std::function<at::Tensor()> get;
  };
  std::string name;
  std::vector<Value> values;
  io::Metadata metadata;                        ///< entries that a reader of adapters needs
  std::string readers = {};                     ///< the programs that read it as it was trained, where some that know its format do not
  std::optional<adapters::Layout> layout = {};  ///< the layout of its adapters; none of whole weights
  bool is_known_elsewhere = true;               ///< whether other programs train what its adapters are of, and load them by themselves
};

/// The trained values in the loaded model: adapters hang on its layers, and weights that train take gradients.
class Attached {
 public:
  /// All trained components are loaded. Both must outlive this. Throws a config Error for adapters that their file's layout cannot hold,
  /// and for those that have no ranks which a rank mask could leave out.
  Attached(const Chosen& chosen, models::Model& model);

  /// Returns the dropout that all adapters share; null without adapters.
  const std::shared_ptr<adapters::Dropout>& dropout() const { return dropout_; }
  /// Returns the rule of how many ranks take part in a step.
  const adapters::RankRule& rank_rule() const { return chosen_->settings.rank_rule; }
  /// Throws a config Error where adapters have no such strengths, or no such layers: a magnitude has 0 and 1 alone.
  void check_strengths(const std::vector<Strength>& strengths) const;
  /// Sets the factor of each adapter on the strength at which it acts: 1 where `layers` says none (AtStrength).
  void set_factors(const loras::LayerStrengths& layers) const;
  /// Returns the trained parameters, named "component.path"; a parameter that layers share has the name of the first of them.
  optim::ParameterList parameters() const;

  /// Does what follows every update of the parameters.
  void updated() const;

  /// Gives the value that a parameter of an optimizer is saved with, by its number, in this dtype; none: optim::kept_value.
  using Exact = std::function<at::Tensor(size_t parameter, c10::ScalarType dtype)>;
  /// Lists the files of a step. Adapters of all components share `step-N.safetensors`, but each expert's adapters have a file of their own,
  /// `step-N.EXPERT.safetensors`. An only denoiser that trains whole has the plain name when there are no adapters; other weights are in
  /// `step-N.COMPONENT.safetensors`, under the names of the component's own file, with the values that `exact` gives. What a component
  /// keeps in fp32 is fp32 in its file too. A word's vectors, always in fp32, are in `step-N.embedding.safetensors`, in the adapters' file,
  /// or in the plain one where nothing else trains; of several words each has such a file of its own, with the word behind:
  /// `step-N.embedding.WORD.safetensors`. Values are read when they are asked for, which may not be later than this and `exact` live.
  std::vector<TrainedFile> files(int64_t step, c10::ScalarType dtype, const optim::Optimizer& optimizer, Exact exact = {}) const;

 private:
  struct Adapters {
    std::string component;
    adapters::AdaptedList adapted;
  };
  void note_adapters() const;
  loras::LayerStrengths::ByComponent factors(const loras::LayerStrengths& layers) const;
  void check_rank_rule() const;
  double lr_factor(const std::string& component) const;
  std::vector<TrainedFile> adapter_files(int64_t step, c10::ScalarType dtype) const;
  TrainedFile adapter_file(int64_t step, c10::ScalarType dtype, const std::string& expert,
                           const std::vector<const Adapters*>& adapted) const;

  const Chosen* chosen_;
  models::Model* model_;
  std::shared_ptr<adapters::Dropout> dropout_;
  /// Gives the value that a trained parameter of this name is saved with.
  using ExactOf = std::function<at::Tensor(const std::string& parameter, c10::ScalarType dtype)>;
  /// Adds parameters of a component that train whole, which have these sizes, to a file, under the names of the component's own file in a
  /// folder. Where all train it can stand in that file's place, and has what that holds beside (a vision tower, a head).
  void add_whole(const std::string& component, const std::map<std::string, std::vector<int64_t>>& sizes, c10::ScalarType dtype,
                 const ExactOf& exact_of, TrainedFile& file) const;
  void add_words(int64_t step, const ExactOf& exact_of, std::vector<TrainedFile>& files) const;
  void add_word(size_t number, const ExactOf& exact_of, bool is_bundled, TrainedFile& file) const;

  std::vector<Adapters> adapted_;
  std::optional<TrainedWords> words_;
};

}  // namespace burnish::train
