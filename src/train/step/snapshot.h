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
  std::vector<TrainedFile> files;                  ///< until values are copies, averages stand in the parameters' place
  bool writes_files = true;                        ///< false where this process is here only because others need its values
  std::shared_ptr<optim::Averaged> averaged = {};  ///< null: the trainee has the values that it trains
  int64_t num_state_bytes = 0;                     ///< bytes that this process writes of the state
  checkpoint::State state = {};                    ///< the state where `by_step`, once it was taken
  bool by_step = true, is_best = false;            ///< kinds of save that it is
};

/// Settings that say what of a trainee is saved, and how.
struct Saved {
  c10::ScalarType dtype = c10::kBFloat16;  ///< dtype of files
  optim::Rounding rounding = {};           ///< rounding of weights that train
  bool by_step = true, is_best = false;
};

/// Takes a snapshot of the trainee as it is now, which may not train on before `take_state`.
Snapshot take_snapshot(const Trainee& trainee, const Saved& saved);
/// Replaces the values of files by copies in main memory.
void copy_files(Snapshot& snapshot);
/// Takes the state once the files are written or copied. The state's tensors are the trainee's.
void take_state(Snapshot& snapshot, const Trainee& trainee);
int64_t weight_bytes(const Snapshot& snapshot);

/// Tells whether it is copied, so that training goes on while the copy is written; larger ones are written while training waits.
bool is_written_beside(const Snapshot& snapshot);
/// Replaces tensors by copies in main memory.
void make_own(io::NamedTensors& tensors);

/// Settles when a run saves where none is asked for: so often that a long run never loses more than a tenth of itself. Where a whole model
/// trains the last save alone stays, since each takes as much as the model.
SaveSettings settled(SaveSettings save, int64_t num_steps, bool trains_whole);
/// Counts the weights saved by step that lie in the folder after a run, at most; saves by minutes are not known.
int64_t most_saves(const SaveSettings& save, const Course& course);

}  // namespace burnish::train
