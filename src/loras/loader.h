#pragma once
#include <utility>

#include "loras/lora_file.h"
#include "pipeline/unit.h"

namespace burnish::loras {

/// A LoRA file and the strength at which it is merged.
struct LoraFile {
  std::string path;
  double strength = 1;
};

/// Reads "file" or "file:strength"; what follows the last colon of an existing file's name, or is no number, belongs to the name.
LoraFile parse_lora_file(const std::string& text);

/// Loads the models that units run, with the adapters of LoRA files merged into them, and drops them again. What somebody else holds loaded
/// is used as it is: it is not loaded a second time, nothing is merged into it, and it is not dropped.
class Loader {
 public:
  /// `held` names what the caller has loaded and keeps loaded for as long as this lives. A data Error for a LoRA of another model, by
  /// headers alone.
  explicit Loader(models::Model& model, const std::vector<LoraFile>& files = {}, std::vector<std::string> held = {});

  models::Model& model() const { return model_; }

  /// Models that are loaded for as long as this lives; its Loader outlives it.
  class Loaded {
   public:
    Loaded(Loaded&& other) noexcept : loader_(other.loader_), names_(std::exchange(other.names_, {})) {}
    Loaded& operator=(Loaded&&) = delete;
    ~Loaded();

   private:
    friend class Loader;
    explicit Loaded(Loader& loader) : loader_(loader) {}
    Loader& loader_;
    std::vector<std::string> names_;
  };

  /// Loads those models of the units that are not loaded yet.
  [[nodiscard]] Loaded load(const pipeline::Units& units);

 private:
  struct Lora {
    LoraFile file;
    AdaptersByComponent weights;
  };
  std::vector<std::string> missing(const std::string& component, const std::vector<std::string>& wanted) const;
  void merge(const std::string& name);

  models::Model& model_;
  std::vector<Lora> loras_;
  std::vector<std::string> held_;  ///< by the caller, and what is loaded here at present
};

}  // namespace burnish::loras
