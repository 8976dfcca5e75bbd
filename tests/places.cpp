#include "tests/places.h"

namespace burnish::test {

const char* const kCheckout = BURNISH_SOURCE_DIR;
const char* const kProgram = BURNISH_BUILD "/burnish";
const char* const kForks = BURNISH_BUILD "/program_forks";
const char* const kSkeleton = BURNISH_BUILD "/burnish_skeleton";
const char* const kMadeUpNvml = BURNISH_NVML;

}  // namespace burnish::test
