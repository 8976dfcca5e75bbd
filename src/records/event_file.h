#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "records/append_file.h"
#include "records/record.h"

namespace burnish::records {

/// Writes one event file that TensorBoard reads: records of the TFRecord format (length, masked CRC-32C, bytes, masked CRC-32C), each
/// an Event message (tensorflow/core/util/event.proto, framework/summary.proto).
class EventFile {
 public:
  /// Makes FOLDER/events.out.tfevents.SECONDS.burnish, under a further number where that is taken. `now` is in seconds since 1970. Events
  /// of earlier files of the folder that lie after `last_step`, which a resumed run takes again, are declared void: TensorBoard drops them.
  EventFile(const std::filesystem::path& folder, int64_t last_step, double now);

  /// Writes an event with a number for each value of the record; NaN is left out.
  void write(const Record& record);
  /// Writes an event with a picture, the bytes of a PNG file.
  void write_picture(int64_t step, double time, const std::string& tag, std::string_view png);

 private:
  void write_event(double time, int64_t step, std::string_view rest);
  AppendFile file_;
};

}  // namespace burnish::records
