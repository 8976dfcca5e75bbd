#include "models/families/minimax_h3/rows_of_heads.h"

#include <algorithm>

#include "base/input_error.h"

namespace burnish::models::minimax_h3 {

namespace {

class RowsByPart final : public io::TensorFile {
 public:
  RowsByPart(const io::TensorSource& source, const std::vector<std::string>& endings, int64_t head_dim)
      : source_(source), head_dim_(head_dim) {
    for (const auto& name : source.names()) {
      if (std::ranges::none_of(endings, [&](const auto& ending) { return name.ends_with(ending); })) continue;
      const auto& info = source.info(name);
      if (info.shape.empty() || head_dim < 1 || info.shape[0] % (3 * head_dim) != 0)
        data_error("models", "'{}' has {} rows, which are no query, key and value of heads of {}; it is another model or a damaged file",
                   name, info.shape.empty() ? 0 : info.shape[0], head_dim);
      infos_[name] = info;
    }
  }
  const std::map<std::string, io::TensorInfo>& tensors() const override { return infos_; }
  const std::map<std::string, std::string>& metadata() const override { return source_.metadata(); }
  const std::filesystem::path& path() const override { return source_.files().front()->path(); }
  at::Tensor tensor(const std::string& name) override { return by_part(source_.tensor(name)); }
  std::optional<Codes> codes(const std::string& name) override {
    auto codes = source_.codes(name);
    if (!codes) return codes;
    const bool are_of_rows = codes->scales.defined() && codes->scales.size(0) == codes->num_rows();
    codes->codes = by_part(codes->codes);
    if (are_of_rows) codes->scales = by_part(codes->scales);
    return codes;
  }
  void release(const std::string& name) const override { source_.release(name); }

 private:
  at::Tensor by_part(const at::Tensor& rows) const { return rows.unflatten(0, {-1, 3, head_dim_}).transpose(0, 1).reshape(rows.sizes()); }

  io::TensorSource source_;
  int64_t head_dim_;
  std::map<std::string, io::TensorInfo> infos_;
};

}  // namespace

io::TensorSource with_rows_by_part(const io::TensorSource& source, const std::vector<std::string>& endings, int64_t head_dim) {
  return source.seen_through(std::make_shared<RowsByPart>(source, endings, head_dim), {});
}

}  // namespace burnish::models::minimax_h3
