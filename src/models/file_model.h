#pragma once
#include "models/family.h"

namespace burnish::models {

/// Where a component's weights come from.
struct Source {
  const ModelEntry* entry = nullptr;        ///< null when the files hold no such component
  std::optional<io::TensorSource> tensors;  ///< below the component's prefix; absent for a config.json without weights
  io::KeyMap keys;                          ///< from their names to ours
  /// Under our names; empty without weights.
  io::Shapes shapes() const { return tensors ? io::shapes_in_our_names(*tensors, keys) : io::Shapes{}; }
};

/// What is the same in every family whose components are found among files: each is built on the meta device and filled from its
/// source, alone or in parts; a component named "vae" is held in fp32, others in the run's dtype. A family declares its components when
/// it is made and says how each is built.
class FileModel : public Model {
 public:
  std::vector<Component> components() const override;
  int64_t num_bytes(const std::string& component) const override { return held(component).num_bytes; }
  Provenance provenance(const std::string& component) const override;
  void check(const std::string& component) override;
  std::unique_ptr<nn::Module> skeleton(const std::string& component) const override;
  void load(const std::string& component) override;
  void unload(const std::string& component) override { loaded_.erase(component); }
  nn::Module& module(const std::string& component) override;
  /// Our paths below the component's name.
  LayerNames layer_names(const std::string& component) const override { return {"", component + ".", "lora_" + component + "_"}; }
  std::vector<std::string> foreign_layer(const std::string& component, const std::string& name) const override;

 protected:
  FileModel(const ModelFiles& files, const ModelOptions& options) : files_(files), options_(options) {}

  /// Declares a component, in the order of components(). `what` names it in messages; entries of `source` are files_'. A data Error for a
  /// config.json without weights, unless the run initialises the component.
  void add_component(const std::string& name, const std::string& what, Source source);
  /// Of a component or one of its parts; one without an entry when the files hold no such component.
  const Source& source(const std::string& component) const;
  /// A component's module, or a part's, with unset parameters.
  virtual std::unique_ptr<nn::Module> build(const std::string& component, const at::TensorOptions& options) const = 0;
  /// Draws the parameters of the denoiser, which is on the meta device, from options_.seed; without an override a config Error.
  virtual void initialise(nn::Module& denoiser) const;
  /// What beside files, config.json, dtype and storage decides what a component or part computes.
  virtual std::string settings(const std::string& /*component*/) const { return ""; }
  /// Where a text encoder's tokenizer lies; "" for other components. A data Error when there is none.
  virtual std::filesystem::path tokenizer_folder(const std::string& /*component*/) const { return {}; }
  /// Loads the tokenizer that belongs to a text encoder, once.
  virtual void load_tokenizer(const std::string& /*component*/) {}

  at::TensorOptions options_for(const std::string& component) const;
  /// A config Error unless both sides are multiples of size_division().
  void check_size(int64_t height, int64_t width) const;
  template <class T>
  T& loaded(const std::string& component) {
    return static_cast<T&>(module(component));
  }

  const ModelFiles files_;
  const ModelOptions options_;
  std::map<std::string, std::map<std::string, std::vector<std::string>>> foreign_layers_;  ///< of each component: see foreign_layer

 private:
  struct Declared {
    std::string name, what;
    Source source;
  };
  const Declared* declared(const std::string& component) const;
  Component held(const std::string& component) const;
  bool is_random(const std::string& component) const { return component_of(component) == denoiser() && options_.init == "random"; }

  std::vector<Declared> declared_;
  std::map<std::string, std::unique_ptr<nn::Module>> loaded_;
};

}  // namespace burnish::models
