#include "app/best_options.h"

#include "base/limits.h"
#include "config/everyday_words.h"
#include "config/problems.h"

namespace burnish::app {

void fields(config::Fields& f, BestOptions& o) {
  f.group("Run");
  f.positional("run", o.runs, "folder of a training run");
  f.path("pictures", o.pictures, "folder of the training pictures; \"\": those that the run names in its visits.jsonl");
  f.path("held_out", o.held_out,
         "folder or metadata file of pictures of the same things that the run did not see; \"\": its validation_metadata_path");
  f("num_pictures", o.num_pictures, "training pictures, and held-out ones, that previews are compared with, at most, evenly out of all")
      .at_least(1);
  f("json", o.seen_by.json, "print all that was measured as JSON, best save first, and nothing else");
  model_fields(
      f, o.seen_by,
      "a whole CLIP, by which previews are compared with training pictures and prompts, or a DINOv2, DINOv3 or SigLIP, which compares "
      "pictures alone and sees more of them, or both: folders, or ids on a hub (openai/clip-vit-large-patch14, facebook/dinov2-base, "
      "google/siglip2-base-patch16-224), which are fetched; without one the validation loss alone decides");
  f("batch_size", o.batch_size, "pictures that are looked at at once").at_least(1).at_most(kMostInABatch).called(config::kBatch);
}

void check(const BestOptions& o) {
  auto given = o;
  config::Fields listed;
  fields(listed, given);
  config::Problems problems(listed);
  problems.check_values();
  problems.gather([&] { train::check(o.seen_by.model); });
  if (o.runs.size() != 1)
    problems.add("run names the folder of one training run, and {} are named; for example: burnish best runs/cat", o.runs.size());
  problems.refuse("best");
}

}  // namespace burnish::app
