#pragma once
#include "train/course.h"
#include "train/settings.h"
#include "train/trainee.h"

namespace burnish::train {

/// Everything that a save writes.
struct Snapshot {
  int64_t step = 0;
  std::vector<Trained::File> files;
  checkpoint::State state;               ///< where `by_step`
  bool by_step = true, is_best = false;  ///< what it is saved as
};

/// Of the trainee as it is now: where processes own parts of it, the state of what this one writes of it, and the files on the first alone;
/// then all of them have to come here. Its tensors are those of the trainee, but for what is averaged or rounded for the files.
Snapshot take_snapshot(const Subject& subject, const Trainee& trainee, const Settings& settings, bool by_step, bool is_best);
int64_t weight_bytes(const Snapshot& snapshot);
int64_t state_bytes(const Snapshot& snapshot);

/// Whether it is copied, so that training goes on while the copy is written; larger ones are written while training waits.
bool is_written_beside(const Snapshot& snapshot);
/// Puts copies in the host's memory in the place of tensors; those on the meta device stay.
void make_own(io::NamedTensors& tensors);

/// What is left open, settled: saves where none are asked for, so that a long run never loses more than a tenth of itself. Of whole models
/// the last of them stays, since each takes as much as the model.
SaveSettings settled(SaveSettings save, int64_t num_steps, bool trains_whole);
/// How many weights saved by step lie in the folder after a run at most; those that go by minutes are not known.
int64_t most_saves(const SaveSettings& save, const Course& course);

}  // namespace burnish::train
