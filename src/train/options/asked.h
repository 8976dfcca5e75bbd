#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

// What options ask for, for the conditions of their rows.

bool has_adapters(const TrainOptions& o);
/// Tells whether options name anything that trains beside the denoiser: a component, or words of text encoders.
bool names_others(const TrainOptions& o);
/// Tells whether anything beside the denoiser may train: what is named, or what a file of adapters has some of.
bool may_train_others(const TrainOptions& o);
bool draws_times(const TrainOptions& o);
bool has_references(const TrainOptions& o);
bool has_previews(const TrainOptions& o);
/// Tell whether samples are encoded, whether any captions are, and whether an autoencoder runs.
bool reads_samples(const TrainOptions& o);
bool reads_captions(const TrainOptions& o);
bool runs_autoencoder(const TrainOptions& o);

}  // namespace burnish::train
