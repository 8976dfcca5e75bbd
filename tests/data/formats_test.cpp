// TIFF, HEIC, AVIF and JPEG XL beside Pillow and its plug-ins (tests/golden/make_formats.py).
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <bitset>

#include "base/error.h"
#include "data/image.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using ::testing::AnyOf;
using ::testing::HasSubstr;

namespace {

std::string picture(const std::string& name) { return test::golden_path("data/formats/" + name); }

int64_t most_different(const at::Tensor& a, const at::Tensor& b) { return (a.to(at::kInt) - b.to(at::kInt)).abs().max().item<int64_t>(); }

std::string bits_of(const std::string& bytes) {
  std::string bits;
  for (unsigned char byte : bytes) bits += std::bitset<8>(byte).to_string();
  return bits;
}
std::string bytes_of(std::string bits) {
  std::string bytes;
  bits.append((8 - bits.size() % 8) % 8, '0');
  for (size_t i = 0; i < bits.size(); i += 8) bytes += static_cast<char>(std::bitset<8>(bits, i, 8).to_ulong());
  return bytes;
}

/// Adds to the number in four bytes of a file.
void add(std::string& file, size_t place, size_t more) {
  auto number = std::bitset<32>(bits_of(file.substr(place, 4))).to_ulong() + more;
  file.replace(place, 4, bytes_of(std::bitset<32>(number).to_string()));
}
/// Where the box with the places of the items ends, of which there is one.
size_t end_of_places(const std::string& file) {
  auto box = file.find("iloc") - 4;
  return box + std::bitset<32>(bits_of(file.substr(box, 4))).to_ulong();
}

/// rgb.avif, whose sequence header says these sides.
std::string avif_of(uint16_t width, uint16_t height) {
  auto file = test::content(picture("rgb.avif"));
  auto at = file.find(std::string("\x0A\x09\x38\x15", 4)) + 2;  // a sequence header of 9 bytes, in which sides have 6 bits
  auto bits = bits_of(file.substr(at, 9));
  auto side = [](int pixels) { return std::bitset<16>(static_cast<unsigned>(pixels - 1)).to_string(); };
  auto header = bytes_of(bits.substr(0, 10) + "11111111" + side(width) + side(height) + bits.substr(30, bits.rfind('1') + 1 - 30));
  file.replace(at - 1, 10, static_cast<char>(header.size()) + header);
  add(file, end_of_places(file) - 4, header.size() - 9);
  add(file, file.find("mdat") - 4, header.size() - 9);
  return file;
}

/// rgb.heic, whose sequence parameter set says these sides.
std::string heic_of(uint32_t width, uint32_t height) {
  auto file = test::content(picture("rgb.heic"));
  auto at = file.find(std::string("\x42\x01\x01", 3));
  auto size = std::bitset<16>(bits_of(file.substr(at - 2, 2))).to_ulong();
  auto unit = file.substr(at, size);
  const std::string guarded("\0\0\x03", 3);
  for (auto i = unit.find(guarded); i != unit.npos; i = unit.find(guarded, i + 2)) unit.erase(i + 2, 1);
  auto bits = bits_of(unit);
  auto side = [](uint32_t pixels) {
    auto digits = std::bitset<32>(pixels + 1).to_string();
    digits.erase(0, digits.find('1'));
    return std::string(digits.size() - 1, '0') + digits;
  };
  constexpr size_t kBefore = 127;
  EXPECT_EQ(bits.substr(kBefore, 26), side(64) + side(64));
  auto plain =
      bytes_of(bits.substr(0, kBefore) + side(width) + side(height) + bits.substr(kBefore + 26, bits.rfind('1') + 1 - kBefore - 26));
  unit.clear();
  for (size_t i = 0, zeros = 0; i < plain.size(); ++i) {
    if (zeros >= 2 && plain[i] <= 3 && plain[i] >= 0) unit += '\x03', zeros = 0;
    unit += plain[i];
    zeros = plain[i] == 0 ? zeros + 1 : 0;
  }
  file.replace(at - 2, size + 2, bytes_of(std::bitset<16>(unit.size()).to_string()) + unit);
  for (const char* box : {"hvcC", "ipco", "iprp", "meta"}) add(file, file.find(box) - 4, unit.size() - size);
  add(file, end_of_places(file) - 14, unit.size() - size);  // where the items begin
  return file;
}

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

}  // namespace

TEST(Formats, AreReadAsPillowReadsThem) {
  auto golden = test::golden("formats.safetensors");
  int num_pictures = 0;
  for (const auto& entry : golden.names()) {
    if (!entry.starts_with("pixels.")) continue;
    auto name = entry.substr(7);
    SCOPED_TRACE(name);
    ++num_pictures;
    auto expected = golden.tensor(entry), found = data::decode_image(picture(name));
    ASSERT_EQ(found.sizes(), expected.sizes());
    // Lossless ones are equal. Of lossy ones the program is of another version, which rounds colours in another way; libtiff rounds
    // transparent colours twice; a profile moves dark colours of which one is known to 3 steps by more.
    bool lossy = name.ends_with(".heic") || name.ends_with(".avif") || name == "lossy.jxl";
    bool has_profile = golden.contains("plain." + name);
    EXPECT_LE(most_different(found, expected), lossy ? (has_profile ? 10 : 3) : name == "rgba.tif" || has_profile ? 1 : 0);
    if (has_profile) {
      auto change = most_different(golden.tensor("plain." + name), expected);
      EXPECT_TRUE(name == "srgb.png" ? change == 0 : change > 20) << "the profile matters";
    }
    auto size = data::image_size(picture(name));
    EXPECT_EQ(size, (data::Size{expected.size(0), expected.size(1)}));
    auto alpha = data::decode_alpha(picture(name));
    if (golden.contains("alpha." + name)) EXPECT_LE(most_different(alpha, golden.tensor("alpha." + name)), lossy ? 3 : 0);
    else EXPECT_TRUE((alpha == 255).all().item<bool>());
  }
  EXPECT_EQ(num_pictures, 33);
}

TEST(Formats, MasksAreReadWithoutTheirProfile) {
  auto plain = test::golden("formats.safetensors").tensor("plain.gray_icc.png");
  EXPECT_TRUE(data::decode_gray(picture("gray_icc.png")).equal(plain.narrow(2, 0, 1)));
}

TEST(Formats, ADamagedProfileIsPassedOver) {
  test::Scratch scratch;
  auto golden = test::golden("formats.safetensors");
  for (const std::string name : {"wide.webp", "wide.tif", "wide.jpg"}) {
    auto bytes = test::content(picture(name));
    auto place = bytes.find("acsp");
    ASSERT_NE(place, bytes.npos);
    auto found = data::decode_image(scratch.write(name, bytes.replace(place, 4, "none")));
    EXPECT_LE(most_different(found, golden.tensor("plain." + name)), name == "wide.jpg" ? 1 : 0) << name;
  }
}

TEST(Formats, OfADamagedJpegXlOneSentenceIsSaidAndNothingByItsLibrary) {
  test::Scratch scratch;
  auto bytes = test::content(picture("lossy.jxl"));
  testing::internal::CaptureStderr();
  for (size_t cut : {bytes.size() / 2, bytes.size() - 5}) {
    auto file = scratch.write("a.jxl", bytes.substr(0, cut));
    EXPECT_THAT(test::error_of([&] { data::decode_image(file); }), HasSubstr("a.jxl cannot be decoded: it is truncated or damaged"));
  }
  bytes[bytes.size() / 2] ^= 0x55;
  EXPECT_THAT(test::error_of([&] { data::decode_image(scratch.write("b.jxl", bytes)); }), HasSubstr("b.jxl cannot be decoded"));
  std::fputs("the stream is back\n", stderr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "the stream is back\n");
}

TEST(Formats, BmpOfOtherKindsAreReadOrRefusedByName) {
  test::Scratch scratch;
  auto number = [](uint64_t value, int num_bytes) {
    std::string bytes;
    for (int i = 0; i < num_bytes; ++i) bytes += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
    return bytes;
  };
  // Two pixels over one, of which the file's first row is the lower one unless the height is negative.
  auto bmp = [&](int32_t height, uint32_t bits, uint32_t compression, const std::string& rest) {
    return "BM" + number(0, 8) + number(54 + static_cast<uint32_t>(rest.size()) - 8, 4) + number(40, 4) + number(1, 4) +
           number(static_cast<uint32_t>(height), 4) + number(1, 2) + number(bits, 2) + number(compression, 4) + number(0, 20) + rest;
  };
  auto pixels_of = [&](const std::string& bytes) {
    auto pixels = data::decode_image(scratch.write("a.bmp", bytes)).flatten();
    return std::vector<uint8_t>(pixels.const_data_ptr<uint8_t>(), pixels.const_data_ptr<uint8_t>() + pixels.numel());
  };
  using Bytes = std::vector<uint8_t>;
  auto rows_555 = number(0x7C00, 4) + number(0x001F, 4), masks_565 = number(0xF800, 4) + number(0x07E0, 4) + number(0x001F, 4);
  EXPECT_EQ(pixels_of(bmp(2, 16, 0, rows_555)), (Bytes{0, 0, 255, 255, 0, 0}));
  EXPECT_EQ(pixels_of(bmp(-2, 16, 0, rows_555)), (Bytes{255, 0, 0, 0, 0, 255}));
  EXPECT_EQ(pixels_of(bmp(-2, 16, 3, masks_565 + number(0x07E0, 4) + number(0x8000, 4))), (Bytes{0, 255, 0, 132, 0, 0}));
  EXPECT_THAT(test::error_of([&] { pixels_of(bmp(2, 8, 1, rows_555)); }), HasSubstr("8 bits with compression 1, which is not read"));
  EXPECT_THAT(test::error_of([&] { pixels_of(bmp(3, 16, 0, rows_555)); }), HasSubstr("it is truncated"));
  EXPECT_THAT(test::error_of([&] { pixels_of(bmp(INT32_MIN, 32, 0, rows_555)); }), HasSubstr("pictures of at most"));
}

/// Decoders make room for what a stream says, though the file says a small picture and has a kilobyte.
TEST(Formats, AStreamOfFarMorePixelsThanItsFileSaysIsRefusedBeforeItTakesMemory) {
  test::Scratch scratch;
  for (const auto& [name, same, large] :
       {std::tuple{"rgb.avif", avif_of(52, 38), avif_of(16384, 16384)}, std::tuple{"rgb.heic", heic_of(64, 64), heic_of(16384, 16384)}}) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(at::equal(data::decode_image(scratch.write(name, same)), data::decode_image(picture(name))));
    auto before = peak_bytes();
    EXPECT_THAT(test::error_of([&] { data::decode_image(scratch.write(name, large)); }),
                HasSubstr("its stream has 268435456 pixels, and its header says "));
    EXPECT_LT(peak_bytes() - before, 100 << 20);
  }
}

TEST(Formats, DamagedFilesEndInASentence) {
  test::Scratch scratch;
  for (const std::string name :
       {"rgb.tif", "rgba.tif", "palette.tif", "rgb.heic", "rgba.heic", "rgb.avif", "rgb.jxl", "rgba.jxl", "lossy.jxl", "interlaced.gif",
        "transparent.gif", "rgb.bmp", "palette.bmp", "rgba.bmp", "wide.png", "wide.webp", "inks.jpg"}) {
    auto bytes = test::content(picture(name));
    for (size_t length : {size_t{13}, bytes.size() / 4, bytes.size() / 2}) {
      auto cut = scratch.write(name, bytes.substr(0, length));
      EXPECT_THAT(test::error_of([&] { data::decode_image(cut); }), AnyOf(HasSubstr("cannot be decoded"), HasSubstr("nothing to read")))
          << name << " " << length;
    }
    for (size_t i = 4; i < bytes.size(); i += 41) {
      auto changed = bytes;
      changed[i] = static_cast<char>(~changed[i]);
      try {
        data::decode_image(scratch.write(name, changed));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data) << name << " " << i;
      }
    }
  }
}
