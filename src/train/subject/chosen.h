#pragma once
#include <map>
#include <set>

#include "optim/groups.h"
#include "train/subject/settings.h"

namespace burnish::train {

/// What a run trains, settled by names and file headers: components, or parts of them, whole (trainable_models), and adapters on components
/// (lora_base_model or lora_checkpoint; on the denoiser when nothing is named), with the layers that carry them.
struct Chosen {
  struct Whole {
    std::string name, component, path;  ///< "encoder.head" is the path "head" of "encoder"; "" for all of it
  };
  struct Adapters {
    std::string component;
    std::vector<std::string> paths = {};                           ///< of the layers; empty while the component's files are not there
    std::map<std::string, adapters::AdapterOptions> options = {};  ///< of new adapters, by path
    std::vector<adapters::AdapterWeights> weights = {};            ///< of a file to start from
    std::vector<std::vector<std::string>> fused = {};              ///< layers that share a new adapter
  };
  TrainedSettings settings;
  std::vector<models::Expert> experts = {};  ///< which a run trains, or trains beside; the times of its visits lie in their stretches
  std::vector<std::string> components = {};  ///< that training runs
  std::vector<Whole> whole = {};
  std::vector<Adapters> adapted = {};
  int64_t rank = 0;                                ///< of the settings, or the first of a file to start from
  std::vector<std::string> whole_parameters = {};  ///< names of what trains whole; of components whose files are there

  /// Components of which weights of their own train.
  std::set<std::string> whole_components() const;
  /// Their paths in those components, "" for all of one.
  std::map<std::string, std::vector<std::string>> whole_paths() const;
  bool has_adapters() const { return !adapted.empty(); }
  /// The trained parts by the names that units give them, for labels.
  std::set<std::string> models(const models::Model& model) const;
  /// Whether a parameter of a component trains, or the layer it belongs to carries an adapter.
  bool trains(const std::string& component, const std::string& path) const;
  /// From where the first of the experts begins to predict to where the last one ends.
  diffusion::Stretch stretch() const;
  /// The expert that predicts at a share of the noise, or the nearest to it.
  const models::Expert& expert_at(double share) const;
  /// In a few words, for people and for the fingerprint of a saved state; the denoiser of a model that has one goes without its name.
  std::string text(const models::Names& names) const;
  /// Refuses groups that fit nothing that trains, as optim::apply_groups does with its parameters. Says nothing while files are missing.
  void check_groups(const models::Model& model, const optim::GroupOptions& groups) const;
};

/// A config Error for names that the training units do not run, for a component that is named in both ways, for a learning rate of
/// something that does not train, for targets that match no layer, and for layers that the layout of adapter files cannot hold.
Chosen choose(const TrainedSettings& settings, models::Model& model);

/// `lora_target_modules` without the names of a part's layers, for which it must be a list; "" where no names are left, or a file decides.
std::string targets_outside(const std::string& part, const TrainedSettings& settings, models::Model& model);

}  // namespace burnish::train
