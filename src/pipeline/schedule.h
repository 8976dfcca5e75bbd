#pragma once
#include "pipeline/labels.h"

namespace burnish::pipeline {

/// A part of a run: units that run at one time of it, with what passes in and out. On a batch, units that depend on no draw run sample by
/// sample, so that a batch computes bit for bit what a cache would hold; the others run on the joined batch.
struct Stage {
  Units units;                          ///< the units in their order
  std::vector<std::string> kept;        ///< values that they write and later stages read: all that need be kept
  std::vector<std::string> of_sample;   ///< values that they read of each sample: inputs, and what earlier stages keep of it
  std::vector<std::string> drawn;       ///< values that they read of the visit: its draws, and what an earlier stage made of them
  Units each, batch;                    ///< `units` again: what runs sample by sample, then what runs on the batch
  std::vector<std::string> joined;      ///< values of the samples that `batch` reads
  std::set<std::string> padded;         ///< those values of `joined` whose length differs between samples
  std::set<std::string> with_gradient;  ///< names of units that record a gradient: their results depend on a trained parameter
};

/// Choices that are left open once units and labels are known.
struct Policy {
  std::set<std::string> at_every_visit = {};  ///< units that run at every visit whatever they depend on
  bool ahead = true;                          ///< whether anything is computed ahead of training
};

/// Says when each unit of a run runs: once a sample, ahead of training for the draws of every visit, or at every visit. Which of them it
/// can be follows from labels alone; `policy` chooses among that.
///
/// A unit that writes a value anew which an earlier unit of a later stage reads or writes belongs to that stage as well, so that every unit
/// reads what it would read if all ran in order.
struct Schedule {
  Units units;
  std::map<std::string, Labels> inputs;
  std::set<std::string> trained;  ///< models
  Policy policy;
  std::set<std::string> padded;            ///< values whose length differs between the samples of a batch: see join
  std::set<std::string> without_gradient;  ///< names of units that record none, whatever they depend on

  Labelled labels;
  Stage once;   ///< depends on the sample alone
  Stage ahead;  ///< depends on no trained parameter, and frees the memory of a model that no unit of `live` runs, or cannot wait
  Stage live;   ///< everything else

  /// Lists the values that `ahead` and `live` read of a sample and `once` does not keep: "prompt", "image".
  std::vector<std::string> sample_inputs() const;
  /// The units of `ahead` and `live` in their order, each once.
  Units after_once() const;
};

/// Units without models whose results both `ahead` and `live` need run in both, where their own inputs are not computed ahead: noise is
/// added twice rather than kept. `inputs` labels the values that no unit writes. What twins write of `padded` values is padded too.
Schedule schedule(const Units& units, const std::map<std::string, Labels>& inputs, const std::set<std::string>& trained_models,
                  const Policy& policy = {}, const std::set<std::string>& padded = {}, const std::set<std::string>& without_gradient = {});

/// Makes the schedule of the units under another policy.
Schedule with_policy(const Schedule& schedule, const Policy& policy);

/// Runs a stage for a batch of visits. A sample's values are `stage.of_sample`, each with a leading dimension of 1, and the draws are
/// `stage.drawn`; all are where the models are. Gradients are recorded from the first trained parameter on, where the caller records at
/// all, but for units that record none. Values of several samples are joined as `join` says.
Values run(const Stage& stage, std::vector<Values> samples, const Values& draws);

}  // namespace burnish::pipeline
