#include <ATen/core/Tensor.h>

#include "app/file_per_picture.h"
#include "app/json_refusal.h"
#include "app/mask_options.h"
#include "app/verbs.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/threads.h"
#include "config/command_line.h"
#include "data/image.h"
#include "masking/clip_seg.h"

namespace burnish::app {

namespace {

/// Writes the mask of a picture.
void write_one(masking::ClipSeg& model, const at::Tensor& sought_PC, const data::PlaceBeside& place, const MaskOptions& o, Journal* journal,
               FilesWritten& outcome) {
  const auto picture = data::decode_image(place.picture);
  const data::Size size{picture.size(0), picture.size(1)};
  const auto fresh = masking::mask_of(model.scores(picture, sought_PC), size, o.rule);
  at::Tensor was;
  if (place.is_there && join_of(o) != masking::Join::replace) {
    was = data::decode_gray(place.file);
    if (was.size(0) != size.height || was.size(1) != size.width)
      data_error("mask", "its mask {} is {} by {} pixels and the picture {} by {}; give it the picture's size, or mask_mode replace",
                 place.file.string(), was.size(1), was.size(0), size.width, size.height);
  }
  const auto mask = masking::joined(was, fresh, join_of(o));
  if (journal != nullptr) journal->note(place.file);
  data::write_mask(place, mask);
  outcome.written.push_back(
      {{"file", place.picture.string()}, {"mask", place.file.string()}, {"share", mask.to(at::kDouble).mean().item<double>() / 255}});
}

/// False when Ctrl-C came.
bool write_all(masking::ClipSeg& model, const std::vector<FolderWork>& work, int64_t num_places, const MaskOptions& o,
               FilesWritten& outcome) {
  const auto sought_PC = model.embed(o.prompts);
  Progress bar("mask", num_places);
  int64_t done = 0;
  for (const auto& folder : work) {
    for (const auto& place : folder.places) {
      if (interrupted()) return false;
      outcome.tried(place.picture, "mask", [&] { write_one(model, sought_PC, place, o, folder.journal.get(), outcome); });
      bar.update(++done);
    }
  }
  return true;
}

void write_masks(const MaskOptions& o) {
  set_threads(o.seen_by.model.num_threads, o.seen_by.model.local_size);
  FilesWritten outcome;
  std::vector<FolderWork> work;
  int64_t num_places = 0;
  for (const auto& folder : o.folders) {
    const auto journal_folder = o.mask_folder.empty() ? folder : o.mask_folder;  // pictures may lie where nothing can be written
    auto places = data::mask_places(folder, o.mask_folder);
    keep_only(o.seen_by.only, folder, places);
    work.push_back(work_left(std::move(places), journal_folder, "mask", o.mode == "fill", settings_of(o), outcome));
    for (const auto& place : work.back().places) data::check_replaces_mask(place, o.mask_folder);
    num_places += std::ssize(work.back().places);
  }
  bool is_done = true;
  if (num_places > 0) {
    const auto model_options = train::model_options(o.seen_by.model);
    const auto files = models::open_model_files({.model = o.seen_by.model.model, .model_paths = {}, .model_id_with_origin_paths = {}});
    masking::ClipSeg model(files, model_options, o.seen_by.processor_path);
    load_all(model.components(), "CLIPSeg");
    is_done = write_all(model, work, num_places, o, outcome);
  }
  tell_outcome(outcome, o.seen_by.json, "mask");
  if (is_done) end_journals(work);
  check_outcome(outcome, "mask", is_done, num_places);
}

void run(const Arguments& arguments, MaskOptions& o) {
  config::Fields listed;
  fields(listed, o);
  const auto parsed =
      config::read_command_line("mask", "write masks of what a text names in pictures", arguments, listed, [&] { check(o); });
  if (parsed.help) return print("{}", parsed.help_text);
  check(o);
  watch_for_interrupt("interrupted: ends after this picture");
  write_masks(o);
}

}  // namespace

void mask(const Arguments& arguments) {
  MaskOptions options;
  refusing_in_json([&] { return options.seen_by.json; }, [&] { run(arguments, options); });
}

}  // namespace burnish::app
