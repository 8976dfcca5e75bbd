#include "memory/recorder.h"

#include "kernels/place.h"

namespace burnish::memory {

bool records_on(c10::Device device) { return kernels::place_of(device).is_cuda(); }

}  // namespace burnish::memory
