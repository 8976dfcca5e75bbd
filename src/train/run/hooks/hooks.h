#pragma once
#include <array>

#include "train/run/hook.h"

namespace burnish::train {

/// Makes the hooks of a run in the order in which they are called. `training` must outlive them.
std::vector<std::unique_ptr<Hook>> make_hooks(const Training& training);

// Each hook has a maker, in a file of its own, which returns null where the run's settings ask for no such hook.

/// Measures the loss of held-out samples. It stands before the hooks that log this loss or go by it.
std::unique_ptr<Hook> make_validate(const Training& training);
/// Writes config.toml, which starts the run anew, log.jsonl with a line a step, and visits.jsonl with the losses of samples; log.csv and
/// event files for TensorBoard. It stands before the hook that saves: a state on disk never knows of steps that the log does not, unless it
/// is the state of a run that is being replaced.
std::unique_ptr<Hook> make_log(const Training& training);
/// Shows the progress bar.
std::unique_ptr<Hook> make_bar(const Training& training);
/// Names trained parameters that the first step gave no gradient, of several experts the first step of each.
std::unique_ptr<Hook> make_gradients(const Training& training);
/// Warns once when preferences are told apart so clearly that next to no gradient is left.
std::unique_ptr<Hook> make_saturation(const Training& training);
/// Draws pictures of equal prompts and noise over time.
std::unique_ptr<Hook> make_preview(const Training& training);
/// Saves weights and state.
std::unique_ptr<Hook> make_save(const Training& training);

struct HookMaker {
  std::unique_ptr<Hook> (*make)(const Training&);
  bool on_all = false;  ///< whether all processes make it; otherwise the first alone
};
/// The makers of all hooks, in the order in which hooks are called.
inline constexpr std::array kHookMakers{HookMaker{make_validate, true},  HookMaker{make_log},        HookMaker{make_bar},
                                        HookMaker{make_gradients, true}, HookMaker{make_saturation}, HookMaker{make_preview, true},
                                        HookMaker{make_save, true}};

}  // namespace burnish::train
