#pragma once
#include "app/caption_options.h"
#include "app/file_per_picture.h"
#include "models/files/files.h"
#include "tagging/tagger.h"

namespace burnish::app {

/// Returns the caption that a new one goes behind; "" for none.
std::string caption_there(const CaptionOptions& options, const data::PlaceBeside& place);
/// Writes a caption beside its picture, after the journal, null for none, has noted what is there.
void write_caption(const data::PlaceBeside& place, const std::string& caption, Journal* journal);

/// Writes captions of tags by the tagger among these files. False when Ctrl-C came.
bool tag_pictures(const CaptionOptions& options, const models::ModelFiles& files, const std::vector<FolderWork>& work, int64_t num_places,
                  FilesWritten& outcome);

}  // namespace burnish::app
