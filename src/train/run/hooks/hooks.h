#pragma once
#include <array>

#include "train/run/hook.h"

namespace burnish::train {

/// The hooks of a run in the order in which they are called. `training` must outlive them.
std::vector<std::unique_ptr<Hook>> make_hooks(const Training& training);

// A maker each, in a file of its own. Null where the run's settings ask for no such thing.

/// The loss of held-out samples. Stands before those that log it or go by it.
std::unique_ptr<Hook> make_validate(const Training& training);
/// config.toml, which starts the run anew, and log.jsonl with a line a step; log.csv and event files for TensorBoard. Stands before what
/// saves: a state on disk never knows of steps that the log does not,
/// unless it is of a run that is being replaced.
std::unique_ptr<Hook> make_log(const Training& training);
/// The progress bar.
std::unique_ptr<Hook> make_bar(const Training& training);
/// Names trained parameters that the first step gave no gradient.
std::unique_ptr<Hook> make_gradients(const Training& training);
/// Pictures of the same prompts and noise over time.
std::unique_ptr<Hook> make_preview(const Training& training);
/// Weights and state.
std::unique_ptr<Hook> make_save(const Training& training);

struct HookMaker {
  std::unique_ptr<Hook> (*make)(const Training&);
  bool on_all = false;  ///< asked of all processes; otherwise of the first alone
};
/// All of them, in their order.
inline constexpr std::array kHookMakers{HookMaker{make_validate, true},  HookMaker{make_log},           HookMaker{make_bar},
                                        HookMaker{make_gradients, true}, HookMaker{make_preview, true}, HookMaker{make_save, true}};

}  // namespace burnish::train
