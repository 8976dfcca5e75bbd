#include "data/animated_webp.h"

#include <fmt/core.h>
#include <webp/demux.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "base/input_error.h"
#include "io/files.h"

namespace burnish::data {

namespace {

constexpr float kQuality = 90;
constexpr int kMethod = 3;  // of 0 to 6: two thirds of the time of libwebp's own choice, and files a few percent larger
/// The namespace of our properties in XMP.
constexpr std::string_view kNamespace = "urn:burnish:drawn";
constexpr std::string_view kPrefix = "burnish:";

constexpr std::pair<char, std::string_view> kEntities[] = {{'&', "&amp;"},  {'<', "&lt;"},   {'>', "&gt;"}, {'"', "&quot;"},
                                                           {'\n', "&#10;"}, {'\r', "&#13;"}, {'\t', "&#9;"}};

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    std::string_view as = {&c, 1};
    for (const auto& [plain, entity] : kEntities) {
      if (c == plain) as = entity;
    }
    out += as;
  }
  return out;
}

std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    char c = text[0];
    size_t length = 1;
    for (const auto& [plain, entity] : kEntities) {
      if (text.starts_with(entity)) {
        c = plain;
        length = entity.size();
      }
    }
    out += c;
    text.remove_prefix(length);
  }
  return out;
}

/// An XMP packet with a property for each entry, as attributes of one description (ISO 16684-1).
std::string xmp_of(const std::vector<std::pair<std::string, std::string>>& text) {
  std::string properties;
  for (const auto& [name, value] : text) properties += fmt::format(" {}{}=\"{}\"", kPrefix, name, escaped(value));
  return fmt::format(
      "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description "
      "rdf:about=\"\" xmlns:burnish=\"{}\"{}/></rdf:RDF></x:xmpmeta>",
      kNamespace, properties);
}

/// The properties of a packet that xmp_of made; none of others.
std::map<std::string, std::string> properties_of(std::string_view xmp) {
  std::map<std::string, std::string> text;
  if (xmp.find(kNamespace) == xmp.npos) return text;
  const auto mark = " " + std::string(kPrefix);
  for (auto at = xmp.find(mark); at != xmp.npos; at = xmp.find(mark, at)) {
    at += mark.size();
    auto equals = xmp.find("=\"", at);
    auto end = equals == xmp.npos ? xmp.npos : xmp.find('"', equals + 2);
    if (end == xmp.npos) break;
    text[std::string(xmp.substr(at, equals - at))] = unescaped(xmp.substr(equals + 2, end - equals - 2));
    at = end;
  }
  return text;
}

void check_encoded(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("libwebp cannot encode a clip: ") + what);
}

class Encoder {
 public:
  Encoder(int width, int height) {
    WebPAnimEncoderOptions options;
    check_encoded(WebPAnimEncoderOptionsInit(&options) != 0 && WebPConfigInit(&config_) != 0, "its versions differ");
    options.anim_params.loop_count = 0;  // which stands for ever
    config_.quality = kQuality;
    config_.method = kMethod;
    encoder_.reset(WebPAnimEncoderNew(width, height, &options));
    check_encoded(encoder_ != nullptr, "its size");
  }

  void add(const at::Tensor& pixels_HW3, int milliseconds) {
    WebPPicture picture;
    check_encoded(WebPPictureInit(&picture) != 0, "its versions differ");
    std::unique_ptr<WebPPicture, decltype(&WebPPictureFree)> owner(&picture, WebPPictureFree);
    picture.use_argb = 1;
    picture.height = static_cast<int>(pixels_HW3.size(0));
    picture.width = static_cast<int>(pixels_HW3.size(1));
    check_encoded(WebPPictureImportRGB(&picture, pixels_HW3.const_data_ptr<uint8_t>(), picture.width * 3) != 0, "no memory");
    check_encoded(WebPAnimEncoderAdd(encoder_.get(), &picture, milliseconds, &config_) != 0, WebPAnimEncoderGetError(encoder_.get()));
  }

  /// The file's bytes, with a packet of XMP.
  std::string finish(int milliseconds, const std::string& xmp) {
    check_encoded(WebPAnimEncoderAdd(encoder_.get(), nullptr, milliseconds, nullptr) != 0, WebPAnimEncoderGetError(encoder_.get()));
    Data frames, file;
    check_encoded(WebPAnimEncoderAssemble(encoder_.get(), &frames.data) != 0, WebPAnimEncoderGetError(encoder_.get()));
    std::unique_ptr<WebPMux, decltype(&WebPMuxDelete)> mux(WebPMuxCreate(&frames.data, 0), WebPMuxDelete);
    WebPData packet{reinterpret_cast<const uint8_t*>(xmp.data()), xmp.size()};
    check_encoded(mux && WebPMuxSetChunk(mux.get(), "XMP ", &packet, 0) == WEBP_MUX_OK, "its metadata");
    check_encoded(WebPMuxAssemble(mux.get(), &file.data) == WEBP_MUX_OK, "no memory");
    return {reinterpret_cast<const char*>(file.data.bytes), file.data.size};
  }

 private:
  struct Data {
    Data() { WebPDataInit(&data); }
    ~Data() { WebPDataClear(&data); }
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;
    WebPData data;
  };
  WebPConfig config_{};
  std::unique_ptr<WebPAnimEncoder, decltype(&WebPAnimEncoderDelete)> encoder_{nullptr, WebPAnimEncoderDelete};
};

/// The parts of a file, whose bytes must stay.
std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> open_webp(const std::filesystem::path& path, const std::string& bytes) {
  WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> demux(WebPDemux(&data), WebPDemuxDelete);
  if (!demux) data_error("data", "{} cannot be decoded: it is truncated or not a WebP picture", path.string());
  return demux;
}

}  // namespace

at::Tensor frame_of_clip(const at::Tensor& clip_3FHW, int64_t k) { return clip_3FHW.select(1, k).permute({1, 2, 0}).contiguous(); }

void write_webp(const std::filesystem::path& path, const at::Tensor& clip_3FHW, double frame_rate,
                const std::vector<std::pair<std::string, std::string>>& text) {
  Encoder encoder(static_cast<int>(clip_3FHW.size(3)), static_cast<int>(clip_3FHW.size(2)));
  auto begin_of = [&](int64_t k) { return static_cast<int>(std::lround(1000.0 * static_cast<double>(k) / frame_rate)); };
  const auto num_frames = clip_3FHW.size(1);
  for (int64_t k = 0; k < num_frames; ++k) encoder.add(frame_of_clip(clip_3FHW, k), begin_of(k));
  io::write_text_atomic(path, encoder.finish(begin_of(num_frames), xmp_of(text)));
}

std::map<std::string, std::string> read_webp_text(const std::filesystem::path& path) {
  const auto bytes = io::read_text(path);
  const auto demux = open_webp(path, bytes);
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(demux.get(), "XMP ", 1, &chunk) == 0) return {};
  std::unique_ptr<WebPChunkIterator, decltype(&WebPDemuxReleaseChunkIterator)> owner(&chunk, WebPDemuxReleaseChunkIterator);
  return properties_of({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
}

int64_t num_frames_of_webp(const std::filesystem::path& path) {
  const auto bytes = io::read_text(path);
  return WebPDemuxGetI(open_webp(path, bytes).get(), WEBP_FF_FRAME_COUNT);
}

}  // namespace burnish::data
