#pragma once
#include <functional>

#include "app/caption_options.h"
#include "app/file_per_picture.h"

namespace burnish::app {

/// Returns the caption that a new one goes behind; "" for none.
std::string caption_there(const CaptionOptions& options, const data::PlaceBeside& place);
/// Writes a caption beside its picture, after the journal, null for none, has noted what is there.
void write_caption(const data::PlaceBeside& place, const std::string& caption, Journal* journal);

/// Tokens that an answer about boxes has at most. Florence-2 takes four and a label for each, language models some forty.
inline constexpr int64_t kTokensOfBoxes = 1024;

/// Holds what a model wrote about a picture.
struct Answer {
  captioning::Written caption;
  data::Size picture;  ///< its sides
  /// Reads what lies where in it; is asked where captions have boxes, and may throw a data Error.
  std::function<std::vector<captioning::Region>()> regions = {};
};
/// Makes a caption of an answer, in the form that is asked for, and writes it. A caption loses its boxes alone where none can be read,
/// which is said and kept.
void write_answer(const CaptionOptions& options, const data::PlaceBeside& place, const Answer& answer, Journal* journal,
                  FilesWritten& outcome);

}  // namespace burnish::app
