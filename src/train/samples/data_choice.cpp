#include "train/samples/data_choice.h"

#include "base/limits.h"
#include "config/everyday_words.h"

namespace burnish::train {

using config::Level;

void fields(config::Fields& f, DataChoice& o) {
  f.group("Data");
  f.path("dataset_base_path", o.base_path,
         "with .txt captions beside them, or an address: hf://datasets/author/name of a hub, s3://bucket/prefix, https://…/list.txt; next "
         "to a metadata file, the folder that its file names start from")
      .label("Folder of pictures")
      .level(Level::first_run);
  f.path("dataset_metadata_path", o.metadata_path,
         ".csv, .json or .jsonl with columns image and prompt, or a folder that holds one as metadata.csv, or pictures with .txt captions")
      .label("Table of captions")
      .of_dataset("image_dir")
      .level(Level::first_run)
      .called(config::kData);
  f.path("class_metadata_path", o.class_metadata_path,
         "prior preservation: metadata, or a folder of pictures with .txt captions, of a class set; its samples are mixed in, as many "
         "visits an epoch as the others have")
      .label("Regularization pictures");
  f.path("class_base_path", o.class_base_path, "folder that file names in class_metadata_path start from; empty takes its own");
  f("class_prompt", o.class_prompt, "caption of samples of the class set that have none; class_tokens are not for them")
      .label("Caption of regularization pictures")
      .counts_when("class_metadata_path", [&o] { return !o.class_metadata_path.empty(); });
  f("data_file_keys", o.file_keys, "columns that hold files").repeated().level(Level::all);
  f.path("dataset_config", o.config, "TOML file of several datasets, each with its own sizes, repeats, captions and weight (docs/data.md)")
      .label("Several datasets");
  f("on_bad_sample", o.on_bad_sample, "stop, or skip samples that cannot be read").label("Unreadable samples").one_of({"stop", "skip"});
  f("dataset_num_workers", o.num_workers, "threads that decode pictures ahead of those who need them; 0 decodes them when they are needed")
      .label("Threads that read pictures")
      .at_least(0)
      .at_most(kMostThreads);
}

void fields(config::Fields& f, CacheChoice& o) {
  f.group("Cache");
  f("cache_variants", o.variants,
    "ways in which each picture is cut, all encoded ahead, of which each visit takes one; 0 takes 2 with random_flip alone, 4 with another "
    "random_...")
      .at_least(0)
      .at_most(kMostVariants);
  f("latents", o.latents, "mean of the autoencoder's distribution, or sample: drawn from it at every visit").one_of({"mean", "sample"});
  f.path("cache_path", o.path, "keeps what the encoders make of the data, for this run and the next; empty keeps it in memory")
      .label("Folder for encoded pictures")
      .level(Level::first_run);
  f.path("import_diffsynth", o.import_diffsynth,
         "folder of .pth files that DiffSynth-Studio's data_process wrote, taken in place of pictures; with cache_path they become a cache")
      .level(Level::all);
  f("precompute", o.precompute,
    "all: what the frozen models make of the data is computed once; none: at every visit, with all models in memory")
      .one_of({"all", "none"});
  f("precompute_timesteps", o.precompute_timesteps,
    "whether frozen layers that see sample and timestep alone run ahead for all steps and are then not loaded: auto where that takes "
    "less memory than their weights, on (in cache_path where there is one), or off; blocks: on, and so do the frozen blocks before the "
    "first that trains")
      .one_of({"auto", "on", "off", "blocks"});
  f("cache_budget", o.budget, "GiB that all kept results may take; what is least worth it is computed at every visit; 0: no limit")
      .at_least(0)
      .in("GiB");
  f("memory_budget", o.memory_budget, "GiB of weights that may be loaded while training; 0: no limit").at_least(0).in("GiB");
  f("num_processes", o.num_processes, "processes among which making a cache is shared out").at_most(kMostProcesses).level(Level::all);
  f("process_index", o.process_index, "which of num_processes this one is, from 0").level(Level::all);
}

}  // namespace burnish::train
