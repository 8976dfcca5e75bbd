#pragma once
#include "io/files.h"
#include "train/options/settings.h"

namespace burnish::train {

/// Throws a config Error when the folder holds the state of another run, and this run neither goes on with it nor may overwrite it.
void check_nothing_lost(const OutputSettings& output);

/// Throws a config Error when previews would be written into a folder whose pictures the run trains or is judged on.
void check_previews_apart(const Settings& settings);

/// Makes the run folder, for this process alone while the result lives, and removes what killed runs left half-written there. Throws a data
/// Error when it cannot be made or another run writes there, and a config Error where it is no run's and holds a file of a name that a run
/// writes, which it would replace.
io::FolderClaim claim_run_folder(const OutputSettings& output);

}  // namespace burnish::train
