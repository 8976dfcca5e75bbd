#include "train/compute.h"

#include <ATen/core/grad_mode.h>

#include "base/interrupt.h"
#include "base/progress.h"

namespace burnish::train {

namespace {

/// To be raised when a unit computes something else than it did from the same inputs and weights.
constexpr int kUnitsVersion = 1;

struct Loaded {
  Loaded(models::Model& m, const std::vector<std::string>& n) : model(m), names(n) {
    for (const auto& name : names) model.components().load(name);
  }
  ~Loaded() {
    for (const auto& name : names) model.components().unload(name);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  models::Model& model;
  const std::vector<std::string>& names;
};

}  // namespace

void compute(models::Model& model, const Work& work) {
  at::NoGradGuard no_grad;
  Loaded loaded(model, work.models);
  Progress progress(work.name, work.num_items);
  for (int64_t i = 0; i < work.num_items; ++i) {
    if (interrupted()) work.interrupted();
    if (!work.run(i)) return;
    progress.update(i + 1);
  }
}

nlohmann::json made_by(const models::Model& model, const std::vector<std::string>& models, data::Cache& cache) {
  auto by = nlohmann::json::object();
  for (const auto& name : models) {
    auto made = model.components().provenance(name);
    by[name] = {{"settings", made.settings}, {"files", nlohmann::json::array()}};
    if (cache.on_disk()) by[name]["files"] = cache.hashes().hash(made.files);
  }
  return {{"version", kUnitsVersion}, {"family", model.names().family}, {"models", by}};
}

}  // namespace burnish::train
