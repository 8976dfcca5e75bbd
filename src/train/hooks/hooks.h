#pragma once
#include "train/loop.h"

namespace burnish::train {

/// The hooks of a run in the order in which they are called. `training` must outlive them.
std::vector<std::unique_ptr<Hook>> make_hooks(const Training& training);

// A maker each. Null where the run's settings ask for no such thing.

/// config.toml, which starts the run anew, and log.jsonl with a line a step.
std::unique_ptr<Hook> make_log(const Training& training);
/// The progress bar.
std::unique_ptr<Hook> make_bar(const Training& training);
/// Weights and state.
std::unique_ptr<Hook> make_save(const Training& training);
/// The loss of held-out samples.
std::unique_ptr<Hook> make_validate(const Training& training);

}  // namespace burnish::train
