#pragma once
#include <functional>
#include <map>
#include <set>

#include "adapters/attach.h"
#include "io/safetensors.h"
#include "optim/optimizer.h"
#include "train/settings.h"

namespace burnish::train {

/// What a run trains: components, or parts of them, whole (trainable_models), and adapters on components (lora_base_model or
/// lora_checkpoint; on the denoiser when nothing is named). Everything is settled by names and file headers when it is made, the layers
/// that carry adapters too; `start` needs weights.
class Trained {
 public:
  /// A config Error for names that the training units do not run, for a component that is named in both ways, for a learning rate of
  /// something that does not train, for targets that match no layer, and for layers that the layout of adapter files cannot hold. `model`
  /// must outlive this.
  Trained(const TrainedSettings& settings, models::Model& model);

  /// Components of which weights of their own train.
  std::set<std::string> whole_components() const;
  /// Their paths in those components, "" for all of one.
  std::map<std::string, std::vector<std::string>> whole_paths() const;
  bool has_adapters() const { return !adapted_components_.empty(); }

  /// Refuses groups that fit nothing that trains, as optim::apply_groups does with its parameters. Says nothing while files are missing.
  void check_groups(const optim::GroupOptions& groups, double learning_rate) const;

  /// Whether a parameter of a component trains, or the layer it belongs to carries an adapter.
  bool trains(const std::string& component, const std::string& path) const;
  /// The trained parts by the names that units give them, for labels.
  std::set<std::string> models() const;
  /// In a few words, for people and for the fingerprint of a saved state.
  std::string text() const;

  /// Once all trained components are loaded: hangs adapters and marks what takes gradients. `dropout` may be null.
  void start(const std::shared_ptr<const adapters::Dropout>& dropout);
  /// The trained parameters, named "component.path", those that layers share after the first of them; after `start`.
  optim::ParameterList parameters() const;

  /// A tensor of a file, had when it is asked for.
  struct Value {
    io::TensorSpec spec;
    std::function<at::Tensor()> get;
  };
  struct File {
    std::string name;
    std::vector<Value> values;
    io::Metadata metadata;     ///< what a reader of adapters needs
    std::string readers = {};  ///< which programs read it as it was trained, where some that know its format do not
  };
  /// The value that a parameter of an optimizer is saved with, by its number; none: optim::kept_value in the dtype of the file.
  using Exact = std::function<at::Tensor(size_t parameter)>;
  /// The files of a step. Adapters of all components share `step-N.safetensors`. A denoiser that trains whole has that name when there are
  /// no adapters; other weights are in `step-N.COMPONENT.safetensors`, under the names of the component's own file, with what `exact` gives
  /// for them. The values are those of when they are asked for, which may not be later than this and `exact` live.
  std::vector<File> files(int64_t step, c10::ScalarType dtype, const optim::Optimizer& optimizer, Exact exact = {}) const;

 private:
  struct Whole {
    std::string name, component, path;  ///< "encoder.head" is the path "head" of "encoder"; "" for all of it
  };
  struct Adapters {
    std::string component;
    std::vector<std::string> paths;                           ///< of the layers; empty while the component's files are not there
    std::map<std::string, adapters::AdapterOptions> options;  ///< of new adapters, by path
    std::vector<adapters::AdapterWeights> weights;
    adapters::AdaptedList adapted;
    std::vector<std::vector<std::string>> fused = {};  ///< layers that share a new adapter
  };
  void add_whole(const std::string& name);
  void add_adapters(const std::string& component);
  void check_rates() const;
  void choose_layers();
  void check_all_targets_matched() const;
  void choose_ranks();
  void choose_fused();
  void check_layout() const;
  void read_checkpoint();
  std::string ranks(const Adapters& adapters) const;
  std::vector<std::string> targeted(const std::string& component) const;
  void note_adapters() const;
  double lr_factor(const std::string& component) const;
  File adapter_file(int64_t step, c10::ScalarType dtype) const;

  TrainedSettings settings_;
  models::Model* model_;
  std::vector<std::string> names_;  ///< components that training runs
  std::vector<Whole> whole_;
  std::vector<Adapters> adapted_components_;
  int64_t rank_ = 0;  ///< of the settings, or the first of a checkpoint
};

/// `lora_target_modules` without the names of a part's layers, for which it must be a list; "" where no names are left, or a file decides.
std::string targets_outside(const std::string& part, const TrainedSettings& settings, models::Model& model);

}  // namespace burnish::train
