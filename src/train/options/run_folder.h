#pragma once
#include "io/files.h"
#include "train/options/settings.h"

namespace burnish::train {

/// A config Error when the folder holds the state of a run that would be replaced: one that is neither gone on with nor to be overwritten.
void check_nothing_lost(const OutputSettings& output);

/// A config Error when previews would be written into a folder whose pictures the run trains or is judged on.
void check_previews_apart(const Settings& settings);

/// Makes the run folder, for this process alone while the result lives, and removes what killed runs left half-written there. A data Error
/// when it cannot be made or another run writes there.
io::FolderClaim claim_run_folder(const OutputSettings& output);

}  // namespace burnish::train
