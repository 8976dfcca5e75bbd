#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// Returns the objective that the task names; a config Error for an unknown word.
const ObjectiveKind& objective_of(const TrainOptions& o);
/// Tells whether the objective learns of pictures; else a run goes without any.
bool needs_pictures(const TrainOptions& o);
/// Tells whether the task is more than a stage of split training.
bool is_whole(const TrainOptions& o);

/// Returns the one of extra_inputs whose pictures are references to the model; "" when it names none.
std::string reference_column(const TrainOptions& o);

/// Has a run that trains from a cache, and names no extra_inputs, read those that the cache was made with, as DiffSynth-Studio's second
/// stage does. Says so in a line; "" where nothing was taken.
std::string take_inputs_of_cache(TrainOptions& o);

/// Returns the columns of extra_inputs that the model reads under their own names (models::extra_inputs).
std::set<std::string> extra_columns(const TrainOptions& o);

/// Refuses options that mean nothing to the objective, or that contradict it.
void check_objective(const TrainOptions& o);

/// Names the columns that the model reads because options say so; "" for none.
std::string input_fingerprint(const TrainOptions& o);

/// Names the options of the objective that decide what is learned, as ", words"; "" for plain fine-tuning.
std::string objective_fingerprint(const TrainOptions& o);

}  // namespace burnish::train
