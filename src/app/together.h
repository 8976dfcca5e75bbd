#pragma once
#include <functional>

#include "dist/world.h"
#include "records/status.h"
#include "train/options/train_options.h"

namespace burnish::app {

/// Does `work` with the processes that a launcher started beside this one (dist::find_seat), or alone. All but the first are silent, each
/// has its share of the machine's cores unless num_threads says otherwise, and an error of one ends all, told once. The status that `work`
/// may begin says so as well. `verb`: what all of them must have been asked for. `answer`:
/// see watch_for_interrupt.
void run_together(const char* verb, train::TrainOptions& options, const char* answer,
                  const std::function<void(const dist::World&, records::StatusFile&)>& work);

}  // namespace burnish::app
