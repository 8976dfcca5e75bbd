#pragma once
#include "train/run/hook.h"

namespace burnish::train {

/// Trains to the end, or to Ctrl-C: then an Error with Exit::interrupted is thrown, after the hooks were told. A data Error for a step
/// whose loss or gradients are not finite: before it changes a weight where its numbers are there by then, and else before any hook looks
/// at what it changed. Hooks are called in their order.
///
/// A step for which memory is missing is given up and ends the run: what the steps before it have made is saved first (the hooks are
/// told as by Ctrl-C), unless the weights are half-way between two steps.
std::optional<NoMemory> loop(const Training& training, const std::vector<std::unique_ptr<Hook>>& hooks);

}  // namespace burnish::train
