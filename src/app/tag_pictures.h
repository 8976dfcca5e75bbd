#pragma once
#include "app/caption_options.h"
#include "app/file_per_picture.h"
#include "models/files/files.h"
#include "tagging/tagger.h"

namespace burnish::app {

/// Writes captions of tags by the tagger among these files. False when Ctrl-C came.
bool tag_pictures(const CaptionOptions& options, const models::ModelFiles& files, const std::vector<FolderWork>& work,
                  FilesWritten& outcome);

}  // namespace burnish::app
