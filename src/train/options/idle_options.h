#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// An option that is asked for and decides nothing in the run it is given to.
struct IdleOption {
  std::string option;
  std::string belongs_to;  ///< what the option needs to count, in words
};

/// Lists all idle options. An option is asked for when it was typed (TrainOptions::given), or has another value than it has by itself.
std::vector<IdleOption> idle_options(const TrainOptions& o);

/// Lists idle options that are said, not refused: DiffSynth-Studio's users leave them in both commands of a split run.
std::vector<IdleOption> repeated_options(const TrainOptions& o);

/// Sets an option to the value that it has when it is not given.
void reset(TrainOptions& o, const std::string& option);

}  // namespace burnish::train
