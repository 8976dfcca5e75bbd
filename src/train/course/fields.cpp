#include "train/course/fields.h"

#include "base/limits.h"
#include "config/everyday_words.h"

namespace burnish::train {

using config::Level;

void fields(config::Fields& f, CourseSettings& o) {
  f.group("Batches and steps");
  f("dataset_repeat", o.num_repeats, "visits of each sample in an epoch").label("Repeats").at_least(1).of_dataset("num_repeats");
  f("batch_size", o.batch_size, "samples of equal size per step and process")
      .label("Pictures per step")
      .at_least(1)
      .at_most(kMostInABatch)
      .level(Level::first_run)
      .called(config::kBatch);
  f("global_batch_size", o.global_batch_size,
    "samples of equal size in a batch, which processes share out and run batch_size at a time; 0: batch_size times the processes")
      .at_least(0)
      .at_most(kMostInABatch);
  f("max_steps", o.max_steps, "optimizer steps, 1000 to 2000 for a person or a thing; 0 goes by num_epochs")
      .label("Steps")
      .at_most(kMostSteps)
      .in("steps")
      .level(Level::first_run)
      .called(config::kSteps);
  f("num_epochs", o.num_epochs, "passes over the data when max_steps is 0")
      .label("Epochs")
      .at_most(kMostEpochs)
      .in("epochs")
      .level(Level::first_run)
      .called(config::kEpochs);
  f("gradient_accumulation_steps", o.batches_per_step, "batches per optimizer step")
      .label("Batches per step")
      .at_least(1)
      .at_most(kMostBatchesAStep)
      .level(Level::first_run);
  f.path("replay", o.replay, "safetensors with recorded noise, sigma or timestep, and sample per step").level(Level::all);
}

}  // namespace burnish::train
