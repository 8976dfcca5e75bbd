#pragma once
#include "train/subject/chosen.h"

namespace burnish::train {

/// The model whose files are open, and what of it trains. No weight is read yet.
struct Subject {
  std::unique_ptr<models::Model> model;
  Chosen chosen;
  std::string first_blocks;  ///< the part of the denoiser before the first trained block, which runs apart; "" where that is not asked for

  models::Model& operator*() const { return *model; }
  /// Returns the model's units with the experts of the run.
  models::UnitGroups units() const { return model->units_of(chosen.experts); }
};

/// Opens the headers of all model files, finds the layers that train, and settles how weights are held. `opened` is a model of these files,
/// which are then not opened again.
Subject open_subject(const ModelSettings& model, const TrainedSettings& trained, const models::Model* opened = nullptr);

/// Says in the log which components there are, and how they are held.
void say_held(const Subject& subject, const ModelSettings& model);

}  // namespace burnish::train
