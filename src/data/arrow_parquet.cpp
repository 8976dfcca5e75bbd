// The library libburnish_parquet.so: Parquet files by Arrow. It is opened when the first such file comes (data/parquet.cpp), so that the
// program itself needs no Arrow.
#include <arrow/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>

#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "data/parquet_rows.h"

namespace burnish::data {

namespace {

using nlohmann::json;

constexpr int64_t kRowsAtOnce = 16;
constexpr int64_t kReadBytes = 1 << 20;
constexpr int kMostLevels = 50;

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <class T>
T value_of(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

/// Most of what Parquet's classes throw they return as a status, and the rest is not known outside of this library.
template <class F>
auto without_parquet_exceptions(F action) {
  try {
    return action();
  } catch (const parquet::ParquetException& error) {
    throw std::runtime_error(error.what());
  }
}

bool holds_bytes(const arrow::DataType& type) { return type.id() == arrow::Type::BINARY || type.id() == arrow::Type::LARGE_BINARY; }

/// A binary value, or a struct with a field `bytes` that is one.
bool is_file(const arrow::DataType& type) {
  if (type.id() != arrow::Type::STRUCT) return holds_bytes(type);
  auto bytes = static_cast<const arrow::StructType&>(type).GetFieldByName("bytes");
  return bytes != nullptr && holds_bytes(*bytes->type());
}

bool is_file_list(const arrow::DataType& type) {
  bool is_list = type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
  return is_list && is_file(*static_cast<const arrow::BaseListType&>(type).value_type());
}

std::string_view binary_at(const arrow::Array& array, int64_t i) {
  if (array.type_id() == arrow::Type::LARGE_BINARY) return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
  return static_cast<const arrow::BinaryArray&>(array).GetView(i);
}

json json_at(const arrow::Array& array, int64_t i, int level);

template <class List>
json list_at(const arrow::Array& array, int64_t i, int level) {
  const auto& list = static_cast<const List&>(array);
  auto items = json::array();
  for (auto k = list.value_offset(i); k < list.value_offset(i + 1); ++k) items.push_back(json_at(*list.values(), k, level + 1));
  return items;
}

json struct_at(const arrow::StructArray& array, int64_t i, int level) {
  auto object = json::object();
  for (int k = 0; k < array.num_fields(); ++k) object[array.struct_type()->field(k)->name()] = json_at(*array.field(k), i, level + 1);
  return object;
}

json number(double value) { return std::isfinite(value) ? json(value) : json(); }

template <class A>
auto get(const arrow::Array& array, int64_t i) {
  return static_cast<const A&>(array).Value(i);
}

/// Null for binary values; what JSON has no kind for (times, say) as Arrow prints it.
json json_at(const arrow::Array& array, int64_t i, int level) {
  using arrow::Type;
  if (level > kMostLevels) throw std::runtime_error("values are nested too deep");
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case Type::BOOL: return get<arrow::BooleanArray>(array, i);
    case Type::INT8: return get<arrow::Int8Array>(array, i);
    case Type::INT16: return get<arrow::Int16Array>(array, i);
    case Type::INT32: return get<arrow::Int32Array>(array, i);
    case Type::INT64: return get<arrow::Int64Array>(array, i);
    case Type::UINT8: return get<arrow::UInt8Array>(array, i);
    case Type::UINT16: return get<arrow::UInt16Array>(array, i);
    case Type::UINT32: return get<arrow::UInt32Array>(array, i);
    case Type::UINT64: return get<arrow::UInt64Array>(array, i);
    case Type::FLOAT: return number(get<arrow::FloatArray>(array, i));
    case Type::DOUBLE: return number(get<arrow::DoubleArray>(array, i));
    case Type::STRING: return std::string(static_cast<const arrow::StringArray&>(array).GetView(i));
    case Type::LARGE_STRING: return std::string(static_cast<const arrow::LargeStringArray&>(array).GetView(i));
    case Type::BINARY:
    case Type::LARGE_BINARY: return nullptr;
    case Type::LIST: return list_at<arrow::ListArray>(array, i, level);
    case Type::LARGE_LIST: return list_at<arrow::LargeListArray>(array, i, level);
    case Type::STRUCT: return struct_at(static_cast<const arrow::StructArray&>(array), i, level);
    case Type::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return json_at(*words.dictionary(), words.GetValueIndex(i), level + 1);
    }
    default: return value_of(array.GetScalar(i))->ToString();
  }
}

/// Puts the file of a cell into the row; its path alone where it has no bytes.
void add_file(const arrow::Array& array, int64_t i, const json::json_pointer& place, ParquetRow& row) {
  if (array.IsNull(i)) return;
  if (holds_bytes(*array.type())) return row.files.push_back({place, binary_at(array, i), ""});
  const auto& cell = static_cast<const arrow::StructArray&>(array);
  auto bytes = cell.GetFieldByName("bytes"), path = cell.GetFieldByName("path");
  auto name = path == nullptr ? json() : json_at(*path, i, 1);
  if (bytes->IsNull(i)) row.values[place] = name;
  else row.files.push_back({place, binary_at(*bytes, i), name.is_string() ? name.get<std::string>() : ""});
}

template <class List>
void add_file_list(const arrow::Array& array, int64_t i, const json::json_pointer& place, ParquetRow& row) {
  if (array.IsNull(i)) return;
  const auto& list = static_cast<const List&>(array);
  auto first = list.value_offset(i), end = list.value_offset(i + 1);
  row.values[place] = json::array();
  for (auto k = first; k < end; ++k) row.values[place].push_back(nullptr);
  for (auto k = first; k < end; ++k) add_file(*list.values(), k, place / static_cast<size_t>(k - first), row);
}

class ArrowRows : public ParquetRows {
 public:
  explicit ArrowRows(const std::string& path) {
    parquet::ReaderProperties read;
    read.enable_buffered_stream();  // else the whole column of a row group lies in memory beside what it is decoded to
    read.set_buffer_size(kReadBytes);
    parquet::ArrowReaderProperties decode;
    decode.set_batch_size(kRowsAtOnce);
    decode.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.OpenFile(path, /*memory_map=*/false, read));
    builder.properties(decode);
    reader_ = value_of(builder.Build());
    num_rows_ = reader_->parquet_reader()->metadata()->num_rows();
    batches_ = value_of(reader_->GetRecordBatchReader());
    std::set<std::string> names;
    for (const auto& name : batches_->schema()->field_names()) {
      if (!names.insert(name).second) throw std::runtime_error("two columns are named '" + name + "'");
    }
  }

  int64_t num_rows() const override { return num_rows_; }

  std::string only_file_column() const override {
    std::vector<std::string> columns;
    for (const auto& field : batches_->schema()->fields()) {
      if (is_file(*field->type())) columns.push_back(field->name());
    }
    return columns.size() == 1 ? columns[0] : "";
  }

  std::optional<ParquetRow> next() override {
    while (!batch_ || at_ == batch_->num_rows()) {
      without_parquet_exceptions([&] { check(batches_->ReadNext(&batch_)); });
      if (!batch_) return std::nullopt;
      check(batch_->Validate());
      at_ = 0;
    }
    ParquetRow row;
    for (int k = 0; k < batch_->num_columns(); ++k) {
      const auto& column = *batch_->column(k);
      const auto& name = batch_->column_name(k);
      auto place = json::json_pointer() / name;
      bool holds_files = is_file(*column.type()) || is_file_list(*column.type());
      row.values[name] = holds_files ? json() : json_at(column, at_, 1);
      if (is_file(*column.type())) add_file(column, at_, place, row);
      else if (holds_files && column.type_id() == arrow::Type::LIST) add_file_list<arrow::ListArray>(column, at_, place, row);
      else if (holds_files) add_file_list<arrow::LargeListArray>(column, at_, place, row);
    }
    ++at_;
    return row;
  }

 private:
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  int64_t num_rows_ = 0;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t at_ = 0;
};

}  // namespace

}  // namespace burnish::data

extern "C" burnish::data::ParquetRows* burnish_open_parquet(const char* path) {
  return burnish::data::without_parquet_exceptions([&] { return new burnish::data::ArrowRows(path); });
}
