#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/clip.h"
#include "data/file_notes.h"
#include "data/row.h"

namespace burnish::data {

/// The findings in a file: its size in pixels, and of a clip its length; or why it cannot be decoded.
struct LookedFile {
  Size size = {};
  ClipLook clip = {.size = {}, .num_frames = 1, .duration = {}, .usual_frame = {}};
  std::string reason = {};
};
using LookedFiles = std::map<std::string, LookedFile>;  ///< by path

/// The file in which it is remembered what was found in the files of these datasets; "" where nothing is.
std::filesystem::path checks_path(const DatasetOptions& options);

/// Looks at every file once, however many rows name it: decodes it, or reads the headers of pictures alone.
LookedFiles look_at_files(const std::vector<Row>& rows, FileNotes& notes, const DatasetOptions& options);

}  // namespace burnish::data
