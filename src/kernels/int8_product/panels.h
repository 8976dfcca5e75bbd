#pragma once
#include <cstdint>

// What products of INT8 codes are made of on a CPU, as its instructions have it: panels_avx2.cpp, panels_neon.cpp. Codes stand in panels,
// of four rows of the left factor, of sixteen columns of the right one. A word of 32 bits holds numbers that are multiplied with those of
// the other factor's word side by side, and added; a product of panels adds such words along them.
namespace burnish::kernels {

inline constexpr int64_t kPanelRows = 4, kPanelColumns = 16;
inline constexpr int64_t kSquare = 8;  // rows of the left factor that are packed at once: two panels

#if defined(__x86_64__) && defined(__GNUC__)
#define BURNISH_HAS_INT8_PANELS 1
inline constexpr int64_t kCodesInWord = 2;  // widened to 16 bits
#elif defined(__aarch64__) && defined(__linux__)
#define BURNISH_HAS_INT8_PANELS 1
inline constexpr int64_t kCodesInWord = 4;
#endif

/// A matrix of codes of which one factor is made: `along` is the step between numbers that are multiplied and added, `across` between sums.
struct CodesAt {
  const int8_t* first;
  int64_t along, across;
};

/// Tells whether this processor has the instructions that the functions below are written in.
bool has_int8_panels();

/// Packs 8 rows of the left factor, of which `rows` are there, into two panels of `words` words of a row each. Their codes lie side by
/// side; behind the `depth`th stand zeros.
void pack_left(const CodesAt& x, int64_t rows, int64_t depth, int64_t words, int32_t* panels);

/// Packs 16 columns of the right factor whose numbers lie side by side along what is added, of which `columns` are there.
void pack_right_rows(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int32_t* panel);

/// Packs 16 columns of the right factor that lie side by side, of which `columns` are there.
void pack_right_columns(const CodesAt& x, int64_t columns, int64_t depth, int64_t words, int32_t* panel);

/// sums [4, 16], `stride` apart, = left · right, or += : panels of so many words.
void multiply_panels(const int32_t* left, const int32_t* right, int64_t words, int32_t* sums, int64_t stride, bool adds);

}  // namespace burnish::kernels
