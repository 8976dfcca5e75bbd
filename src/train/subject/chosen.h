#pragma once
#include <map>
#include <set>

#include "optim/groups.h"
#include "train/subject/trained_words.h"

namespace burnish::train {

/// A run's choice of what trains, settled by names and file headers: components, or parts of them, whole (trainable_models), and adapters
/// on components (lora_base_model or lora_checkpoint; on the denoiser when nothing is named), with the layers that carry them.
struct Chosen {
  struct Whole {
    std::string name, component, path;  ///< "encoder.head" is the path "head" of "encoder"; the path is "" for the whole component
  };
  struct Adapters {
    std::string component;
    std::vector<std::string> paths = {};                           ///< paths of the layers; empty while the component's files are not there
    std::map<std::string, adapters::AdapterOptions> options = {};  ///< options of new adapters, by path
    std::vector<adapters::AdapterWeights> weights = {};            ///< weights of a file to start from
    std::vector<std::vector<std::string>> fused = {};              ///< layers that share a new adapter
  };
  TrainedSettings settings;
  std::vector<models::Expert> experts = {};  ///< the experts that train or run beside; the times of the run's visits lie in their stretches
  std::vector<std::string> components = {};  ///< the components that training runs
  std::vector<Whole> whole = {};
  std::vector<Adapters> adapted = {};
  std::vector<ChosenWord> words = {};              ///< words whose vectors train
  int64_t rank = 0;                                ///< the rank of the settings, or the first rank in a file to start from
  std::vector<std::string> whole_parameters = {};  ///< names of the parameters that train whole, of components whose files are there

  /// Returns the components of which weights of their own train.
  std::set<std::string> whole_components() const;
  /// Returns the paths that train whole in each of these components, "" for a whole component.
  std::map<std::string, std::vector<std::string>> whole_paths() const;
  bool has_adapters() const { return !adapted.empty(); }
  /// Returns the companion of that name; null where the component is the model's own.
  const Companion* companion(const std::string& component) const;
  /// Returns the trained parts by the names that units give them, for labels.
  std::set<std::string> models(const models::Model& model) const;
  /// Tells whether a parameter of a component trains, or the layer that it belongs to carries an adapter.
  bool trains(const std::string& component, const std::string& path) const;
  /// Returns the stretch from where the first of the experts begins to predict to where the last one ends.
  diffusion::Stretch stretch() const;
  /// Returns the expert that predicts at a share of the noise, or else the nearest expert.
  const models::Expert& expert_at(double share) const;
  /// Says in a few words what trains, for people and for a saved state's fingerprint; an only denoiser goes without its name.
  std::string text(const models::Names& names) const;
  /// Refuses groups that fit nothing that trains, as optim::apply_groups does with parameters. Refuses nothing while files are missing.
  void check_groups(const models::Model& model, const optim::GroupOptions& groups) const;
};

}  // namespace burnish::train
