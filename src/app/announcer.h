#pragma once
#include <functional>

#include "records/status.h"
#include "train/options/train_options.h"

namespace burnish::app {

/// A listener that tells others what a run does: the user's commands, which the shell runs one after the other with what they need in
/// variables (docs/train.md), and an address, to which a line of JSON is sent. Both happen beside the run, and when it has ended they are
/// waited for: commands as long as they take, the address for some seconds. What fails is a warning. Nothing where nobody is to be told.
std::function<void(const records::Event&)> announcer_of(const train::TellOptions& options);

}  // namespace burnish::app
