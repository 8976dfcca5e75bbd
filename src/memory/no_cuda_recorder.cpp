#include "memory/recorder.h"

namespace burnish::memory {

std::unique_ptr<Recorder> recorder_of(c10::Device /*device*/) { return nullptr; }

}  // namespace burnish::memory
