#pragma once
#include "app/caption_options.h"
#include "app/file_per_picture.h"
#include "models/files/files.h"

namespace burnish::app {

/// Writes captions by the Florence-2 among these files. False when Ctrl-C came.
bool write_by_florence2(const CaptionOptions& options, const models::ModelFiles& files, const std::vector<FolderWork>& work,
                        FilesWritten& outcome);

}  // namespace burnish::app
