#pragma once
#include "adapters/attach.h"
#include "train/options/train_options.h"
#include "train/step/settings.h"
#include "train/subject/strength.h"

namespace burnish::train {

// What single options mean is said here, for the checks that come before a run's settings and for the settings themselves.

/// The stages of split training: a task that `encodes` runs frozen models over the data, one that `trains` runs the steps.
bool encodes(const TrainOptions& o);
bool trains(const TrainOptions& o);
/// Returns the metadata file, or the folder of pictures with captions.
std::string metadata_path(const TrainOptions& o);
/// Reads text_encoder_lr as (component, rate); "" stands for everything but the denoiser. Throws a config Error where a rate is none.
std::vector<std::pair<std::string, double>> component_rates(const TrainOptions& o);
/// Reads validation_strengths, without 1. Throws a config Error where one is neither a number nor one with layers, or named twice.
std::vector<Strength> validation_strengths(const TrainOptions& o);
/// Returns the folder where results of frozen models are kept; "" keeps them in memory.
std::string cache_folder(const TrainOptions& o);

/// Returns the datasets of a run that reads pictures: those of dataset_config, or that of dataset_metadata_path and the class set.
std::vector<DatasetChoice> datasets_of(const TrainOptions& o);
/// Tells whether pictures of any dataset are seen otherwise than they are.
bool augments(const TrainOptions& o);
/// Tells whether pictures of any dataset are seen in several ways.
bool varies(const TrainOptions& o);
/// Tell whether the run has a class set, and whether captions of any dataset have a trigger word. True of a cache, whose list says it.
bool has_class_set(const TrainOptions& o);
bool has_trigger_word(const TrainOptions& o);

/// Returns the rank that adapters of lora_checkpoint are padded to; 0 keeps the file's.
int64_t checkpoint_rank(const TrainOptions& o);

optim::OptimizerOptions optimizer_options(const TrainOptions& o);
adapters::AdapterOptions adapter_options(const TrainOptions& o);

}  // namespace burnish::train
