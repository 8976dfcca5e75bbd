#pragma once

// Where the checkout and programs of this build lie. Only places.cpp is compiled with paths of a machine, so that ccache knows all other
// tests again in another folder.
namespace burnish::test {

extern const char* const kCheckout;
extern const char* const kProgram;
extern const char* const kForks;     ///< program_forks.cpp
extern const char* const kSkeleton;  ///< the example of a family, as a program of its own
extern const char* const kMadeUpNvml;

}  // namespace burnish::test
