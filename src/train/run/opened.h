#pragma once
#include "pipeline/schedule.h"
#include "train/objectives/objective.h"
#include "train/options/settings.h"
#include "train/samples/open_samples.h"
#include "train/subject/subject.h"

namespace burnish::train {

/// The values that every verb which runs or plans a run needs first, made in this order.
struct Opened {
  Settings settings;
  Subject subject;
  std::unique_ptr<Objective> objective;
  pipeline::Schedule schedule;
  std::unique_ptr<data::Cache> cache;
  Listed listed;
  std::optional<Samples> held_out;

  const Samples& samples() const { return listed.samples; }
};

/// Opens headers, samples and cache. Throws config and data Errors for whatever can be refused before anything is computed.
Opened open_run(Settings settings);

}  // namespace burnish::train
