#pragma once
#include "pipeline/unit.h"

namespace burnish::pipeline {

/// The things that a value depends on. Frozen weights and constants contribute nothing.
struct Labels {
  bool sample = false;        ///< D: which sample of the dataset
  bool augmentation = false;  ///< A: what a unit draws itself
  bool timestep = false;      ///< T: the noise, timestep or caption drawn for the visit
  bool trained = false;       ///< theta: a parameter that training changes

  Labels& operator|=(const Labels& other);
  bool operator==(const Labels&) const = default;
  /// Tells whether a value is equal at every visit of its sample, so that it can be computed once.
  bool fixed() const { return !augmentation && !timestep && !trained; }
  /// Tells whether a value is equal whenever its visit is made: what is drawn for a visit has a key, so that it is known before the run.
  bool planned() const { return !augmentation && !trained; }
  /// Tells whether something is drawn for it at each visit.
  bool drawn() const { return augmentation || timestep; }
  /// Writes the labels: "DT", "-" for a constant; theta is written as "θ".
  std::string text() const;
};

/// The labels of units and their values. A value that is written twice has the labels of its last writer.
struct Labelled {
  std::map<std::string, Labels> values;
  std::map<std::string, Labels> units;  ///< the labels of all that a unit writes, by the unit's name
};

/// The labels of everything after all units ran, bottom-up: a unit has the labels of all that it reads, and theta when it runs a trained
/// model with the weights that training makes of it, and A when it draws random numbers. `inputs` gives those of the values that no unit
/// writes.
Labelled label(const Units& units, const std::map<std::string, Labels>& inputs, const std::set<std::string>& trained_models);

/// Tells whether a unit that runs `model` runs a trained parameter, or more generally one of `trained_models`. Names may point below a
/// model: "encoder.head" is not touched by training "encoder.body", while training or running "encoder" means all of it.
bool is_trained(const std::string& model, const std::set<std::string>& trained_models);

}  // namespace burnish::pipeline
