#include "app/written_caption.h"

#include "base/error.h"
#include "base/log.h"
#include "io/files.h"

namespace burnish::app {

std::string caption_there(const CaptionOptions& options, const data::PlaceBeside& place) {
  return options.caption.is_added && place.is_there ? data::read_caption(place.file) : "";
}

void write_caption(const data::PlaceBeside& place, const std::string& caption, Journal* journal) {
  if (journal != nullptr) journal->note(place.file);
  io::write_text_atomic(place.file, caption + "\n");
}

void write_answer(const CaptionOptions& options, const data::PlaceBeside& place, const Answer& answer, Journal* journal,
                  FilesWritten& outcome) {
  auto caption = captioning::caption_of(options.caption, answer.caption, caption_there(options, place));
  nlohmann::json told{{"file", place.picture.string()}, {"is_cut", answer.caption.is_cut}};
  if (!options.layout.is_text()) {
    std::vector<captioning::Region> regions;
    try {
      regions = answer.regions();
    } catch (const Error& error) {
      if (error.code() != Exit::data) throw;
      warn("the caption of {} has no boxes: {}", place.picture.string(), without_source(error));
      told["boxes_error"] = without_source(error);
    }
    caption = captioning::laid_out(options.layout, caption, regions, answer.picture.height, answer.picture.width);
    told["num_boxes"] = regions.size();
  }
  write_caption(place, caption, journal);
  told["caption"] = caption;
  outcome.written.push_back(told);
}

}  // namespace burnish::app
