#pragma once
#include <map>
#include <optional>

#include "base/codes.h"
#include "train/subject/model_choice.h"

namespace burnish::train {

/// The weights that train themselves, and how they are held.
struct TrainedStorage {
  std::map<std::string, std::vector<std::string>> paths;  ///< paths in each component, "" for all of it
  bool in_fp8 = false;                                    ///< whether they are held as codes that are trained; otherwise as parameters
};

/// Settles by file headers alone how the linear weights of every component are held: those that `fp8_models` names in weight_format, FP8
/// files as they are, trained weights as trained_weights says, everything else as parameters. Throws a config Error for an entry that names
/// no model or the trained one, and for fp8_compute without FP8 weights.
void choose_storage(models::Model& model, const ModelChoice& choice, const TrainedStorage& trained = {});

/// How a component's linear layers are held, and multiplied where an option asks for products of their codes.
struct HeldAs {
  std::optional<CodeKind> codes = {};  ///< nothing: numbers
  const char* option = nullptr;        ///< fp8_compute, int8_compute or fp4_compute where that multiplies them; null: none does
};
HeldAs held_as(const models::Model& model, const models::Component& component, const ModelChoice& choice, const TrainedStorage& trained);

/// Says for the log how a component's linear layers are held: "" when all are parameters.
std::string storage_text(const models::Model& model, const models::Component& component, const ModelChoice& choice,
                         const TrainedStorage& trained = {});

}  // namespace burnish::train
