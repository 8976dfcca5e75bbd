#pragma once
#include "train/run/hook.h"

namespace burnish::train {

/// Trains to the end, or to Ctrl-C: then it throws an Error with Exit::interrupted after the hooks were told. Throws a data Error for a
/// step whose loss or gradients are not finite: before it changes a weight where its numbers are there by then, and else before any hook
/// looks at what it changed. Hooks are called in their order.
///
/// A step for which memory is missing is given up and ends the run: the weights and states that the steps before it made are saved first
/// (the hooks are told as by Ctrl-C), unless the weights are half-way between two steps.
std::optional<NoMemory> loop(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks);

}  // namespace burnish::train
