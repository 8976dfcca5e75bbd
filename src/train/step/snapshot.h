#pragma once
#include "optim/averaged.h"
#include "train/course/course.h"
#include "train/step/settings.h"
#include "train/step/trainee.h"

namespace burnish::train {

/// Everything that a save writes: files of weights, then the state. Where processes own parts of a trainee, all have to come to each of
/// these functions, and to each value of the files in its turn, of which no more than one needs to be in memory.
struct Snapshot {
  int64_t step = 0;
  std::vector<TrainedFile> files;                  ///< what is averaged is in its place for as long as they are not copies
  bool writes_files = true;                        ///< or is here because others have to have the values
  std::shared_ptr<optim::Averaged> averaged = {};  ///< null: the trainee is as it trains
  int64_t num_state_bytes = 0;                     ///< of what this process writes of it
  checkpoint::State state = {};                    ///< where `by_step`, once it was taken
  bool by_step = true, is_best = false;            ///< what it is saved as
};

/// What of a trainee is saved, and how.
struct Saved {
  c10::ScalarType dtype = c10::kBFloat16;  ///< of files
  optim::Rounding rounding = {};           ///< of weights that train
  bool by_step = true, is_best = false;
};

/// Of the trainee as it is now, which may not train on before `take_state`.
Snapshot take_snapshot(const Trainee& trainee, const Saved& saved);
/// Puts copies in main memory in the place of values.
void copy_files(Snapshot& snapshot);
/// Once the files are written or copied. The state's tensors are the trainee's.
void take_state(Snapshot& snapshot, const Trainee& trainee);
int64_t weight_bytes(const Snapshot& snapshot);

/// Whether it is copied, so that training goes on while the copy is written; larger ones are written while training waits.
bool is_written_beside(const Snapshot& snapshot);
/// Puts copies in main memory in the place of tensors.
void make_own(io::NamedTensors& tensors);

/// What is left open, settled: saves where none are asked for, so that a long run never loses more than a tenth of itself. Of whole models
/// the last of them stays, since each takes as much as the model.
SaveSettings settled(SaveSettings save, int64_t num_steps, bool trains_whole);
/// How many weights saved by step lie in the folder after a run at most; those that go by minutes are not known.
int64_t most_saves(const SaveSettings& save, const Course& course);

}  // namespace burnish::train
