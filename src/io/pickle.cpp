#include "io/pickle.h"

#include <bit>
#include <map>

#include "base/input_error.h"
#include "base/number.h"

namespace burnish::io {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::get(std::string_view key) const {
  for (size_t i = 0; kind == Kind::dict && i + 1 < items.size(); i += 2) {
    if (items[i]->is_text(key)) return items[i + 1];
  }
  return nullptr;
}

bool PickleValue::is_made_by(std::string_view global) const {
  return kind == Kind::object && !items.empty() && items[0]->kind == Kind::global && items[0]->text == global;
}

/// The instructions of a pickle and their arguments, in order.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  size_t at() const { return at_; }
  std::string_view file() const { return file_; }
  [[noreturn]] void damaged(std::string_view what) const {
    data_error("io", "{}: its pickle is damaged ({} at byte {}); write the file anew", file_, what, at_);
  }
  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_) damaged("it ends early");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  uint64_t number(size_t num_bytes) {
    uint64_t value = 0;
    auto raw = take(num_bytes);
    for (size_t i = num_bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(raw[i]);
    return value;
  }
  double real() {
    uint64_t big_endian = 0;
    for (char c : take(8)) big_endian = big_endian << 8 | static_cast<unsigned char>(c);
    return std::bit_cast<double>(big_endian);
  }
  std::string_view line() {
    auto end = bytes_.find('\n', at_);
    if (end == bytes_.npos) damaged("a line does not end");
    auto text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }
  /// A line that is a number.
  template <class T>
  T parsed_line() {
    return parsed<T>(line());
  }
  template <class T>
  T parsed(std::string_view text) const {
    if (!text.empty() && text.back() == 'L') text.remove_suffix(1);
    const auto value = parse_number<T>(text);
    if (!value) damaged("a number cannot be read");
    return *value;
  }

 private:
  std::string_view bytes_, file_;
  size_t at_ = 0;
};

namespace {

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 80)) out += c > 0x20 && c < 0x7f ? c : '?';
  return out;
}

/// The bytes that are the code points of a text in UTF-8.
std::string bytes_of(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0xC0 && i + 1 < text.size()) c = static_cast<unsigned char>((c & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F));
    bytes += static_cast<char>(c);
  }
  return bytes;
}

}  // namespace

/// Holds what the machine works on. Taking from an empty stack, or a value of another kind, is a damaged file.
class PickleStack {
 public:
  explicit PickleStack(const PickleReader& in) : in_(in) {}
  void push(PickleValue* value) { values_.push_back(value); }
  PickleValue* top() const {
    if (values_.empty()) in_.damaged("nothing is on the stack");
    return values_.back();
  }
  PickleValue* pop() {
    auto* value = top();
    values_.pop_back();
    return value;
  }
  PickleValue* pop(Kind kind) {
    auto* value = pop();
    if (value->kind != kind) in_.damaged("a value of another kind was expected");
    return value;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    std::vector<const PickleValue*> items;
    while (top()->kind != Kind::mark) items.push_back(pop());
    pop();
    return {items.rbegin(), items.rend()};
  }

 private:
  const PickleReader& in_;
  std::vector<PickleValue*> values_;
};

/// The stack machine of Python's pickle module (its instructions are documented in CPython's Lib/pickletools.py), with names and
/// argument lists in place of calls.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, std::string_view file, const std::function<bool(const std::string&)>& allows)
      : in_(bytes, file), allows_(allows) {}

  Pickle run() {
    while (!done_) step(in_.take(1)[0]);
    pickle_.num_bytes_ = in_.at();
    return std::move(pickle_);
  }

 private:
  PickleValue* make(Kind kind) {
    auto& value = pickle_.values_.emplace_back();
    value.kind = kind;
    return &value;
  }
  void push_text(Kind kind, std::string_view text) {
    auto* value = make(kind);
    value->text = text;
    stack_.push(value);
  }
  void push_integer(int64_t integer, Kind kind = Kind::integer) {
    auto* value = make(kind);
    value->integer = integer;
    stack_.push(value);
  }
  void push_collection(Kind kind, std::vector<const PickleValue*> items) {
    if (kind == Kind::dict && items.size() % 2 != 0) in_.damaged("a key has no value");
    auto* value = make(kind);
    value->items = std::move(items);
    stack_.push(value);
  }
  void push_tuple_of(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = stack_.pop();
    push_collection(Kind::tuple, std::move(items));
  }
  /// Items for the list, set or dict on top of the stack; for an object that is one of them too.
  void extend(const std::vector<const PickleValue*>& items, bool pairs) {
    auto* target = stack_.top();
    if (pairs ? target->kind != Kind::dict && target->kind != Kind::object : target->kind == Kind::dict)
      in_.damaged("items of another kind");
    if (pairs && items.size() % 2 != 0) in_.damaged("a key has no value");
    if (target->kind == Kind::object) return;  // what an unknown class does with its items is not known
    if (target->kind != Kind::dict && target->kind != Kind::list && target->kind != Kind::set) in_.damaged("items for what holds none");
    target->items.insert(target->items.end(), items.begin(), items.end());
  }
  void push_global(std::string_view module, std::string_view name) {
    auto global = fmt::format("{} {}", module, name);
    if (!allows_(global)) {
      data_error("io",
                 "{} asks for the Python object '{}.{}', which is neither a tensor nor plain data; nothing of it is run, and the file is "
                 "refused: save tensors alone, best as safetensors",
                 in_.file(), printable(module), printable(name));
    }
    push_text(Kind::global, global);
  }
  /// A call that is not made. An ordered dictionary is a dictionary, and what Python 2 writes for bytes is bytes.
  void push_call(PickleValue* function, const std::vector<const PickleValue*>& arguments) {
    if (function->kind != Kind::global) in_.damaged("what is called is no function");
    if (function->text == "collections OrderedDict") return push_collection(Kind::dict, {});
    if (function->text == "_codecs encode" && !arguments.empty() && arguments[0]->kind == Kind::text)
      return push_text(Kind::bytes, bytes_of(arguments[0]->text));
    auto* value = make(Kind::object);
    value->items.push_back(function);
    value->items.insert(value->items.end(), arguments.begin(), arguments.end());
    stack_.push(value);
  }
  void memoize(uint64_t index) { memo_[index] = stack_.top(); }
  void push_memo(uint64_t index) {
    auto it = memo_.find(index);
    if (it == memo_.end()) in_.damaged("it refers to a value that is not there");
    stack_.push(it->second);
  }
  /// Two's complement of any length; what does not fit 64 bits is kept as a real number.
  void push_long(std::string_view raw) {
    if (raw.size() <= 8) {
      int64_t value = !raw.empty() && (raw.back() & 0x80) ? -1 : 0;
      for (size_t i = raw.size(); i-- > 0;)
        value = static_cast<int64_t>(static_cast<uint64_t>(value) << 8 | static_cast<unsigned char>(raw[i]));
      return push_integer(value);
    }
    auto* value = make(Kind::real);
    for (size_t i = raw.size(); i-- > 0;) value->real = value->real * 256 + static_cast<unsigned char>(raw[i]);
    stack_.push(value);
  }
  void push_real(double real) {
    auto* value = make(Kind::real);
    value->real = real;
    stack_.push(value);
  }

  void step(char opcode);
  bool step_scalar(char opcode);
  bool step_collection(char opcode);
  bool step_object(char opcode);
  bool step_stack(char opcode);

  PickleReader in_;
  const std::function<bool(const std::string&)>& allows_;
  bool done_ = false;
  PickleStack stack_{in_};
  std::map<uint64_t, PickleValue*> memo_;
  Pickle pickle_;
};

bool PickleMachine::step_scalar(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 'N': stack_.push(make(Kind::none)); return true;
    case 0x88: push_integer(1, Kind::boolean); return true;
    case 0x89: push_integer(0, Kind::boolean); return true;
    case 'I': {
      auto text = in_.line();
      if (text == "00" || text == "01") push_integer(text[1] == '1', Kind::boolean);
      else push_integer(in_.parsed<int64_t>(text));
      return true;
    }
    case 'J': push_integer(static_cast<int32_t>(in_.number(4))); return true;
    case 'K': push_integer(static_cast<int64_t>(in_.number(1))); return true;
    case 'M': push_integer(static_cast<int64_t>(in_.number(2))); return true;
    case 'L': push_integer(in_.parsed_line<int64_t>()); return true;
    case 0x8a: push_long(in_.take(in_.number(1))); return true;
    case 0x8b: push_long(in_.take(in_.number(4))); return true;
    case 'F': push_real(in_.parsed_line<double>()); return true;
    case 'G': push_real(in_.real()); return true;
    case 'U': push_text(Kind::text, in_.take(in_.number(1))); return true;
    case 'T': push_text(Kind::text, in_.take(in_.number(4))); return true;
    case 'X': push_text(Kind::text, in_.take(in_.number(4))); return true;
    case 'V': push_text(Kind::text, in_.line()); return true;
    case 0x8c: push_text(Kind::text, in_.take(in_.number(1))); return true;
    case 0x8d: push_text(Kind::text, in_.take(in_.number(8))); return true;
    case 'B': push_text(Kind::bytes, in_.take(in_.number(4))); return true;
    case 'C': push_text(Kind::bytes, in_.take(in_.number(1))); return true;
    case 0x8e: push_text(Kind::bytes, in_.take(in_.number(8))); return true;
    default: return false;
  }
}

bool PickleMachine::step_collection(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case ']': stack_.push(make(Kind::list)); return true;
    case 'l': push_collection(Kind::list, stack_.pop_to_mark()); return true;
    case 'a': {
      auto* item = stack_.pop();
      extend({item}, false);
      return true;
    }
    case 'e':
    case 0x90: extend(stack_.pop_to_mark(), false); return true;
    case ')': stack_.push(make(Kind::tuple)); return true;
    case 't': push_collection(Kind::tuple, stack_.pop_to_mark()); return true;
    case 0x85: push_tuple_of(1); return true;
    case 0x86: push_tuple_of(2); return true;
    case 0x87: push_tuple_of(3); return true;
    case '}': stack_.push(make(Kind::dict)); return true;
    case 'd': push_collection(Kind::dict, stack_.pop_to_mark()); return true;
    case 's': {
      auto* value = stack_.pop();
      auto* key = stack_.pop();
      extend({key, value}, true);
      return true;
    }
    case 'u': extend(stack_.pop_to_mark(), true); return true;
    case 0x8f: stack_.push(make(Kind::set)); return true;
    case 0x91: push_collection(Kind::set, stack_.pop_to_mark()); return true;
    default: return false;
  }
}

bool PickleMachine::step_object(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 'c': {
      auto module = in_.line();
      push_global(module, in_.line());
      return true;
    }
    case 0x93: {
      auto* name = stack_.pop(Kind::text);
      push_global(stack_.pop(Kind::text)->text, name->text);
      return true;
    }
    case 'R':
    case 0x81: {
      auto* arguments = stack_.pop(Kind::tuple);
      push_call(stack_.pop(), arguments->items);
      return true;
    }
    case 0x92: {
      stack_.pop();
      auto* arguments = stack_.pop(Kind::tuple);
      push_call(stack_.pop(), arguments->items);
      return true;
    }
    case 'b': {
      auto* state = stack_.pop();
      if (stack_.top()->kind == Kind::object) stack_.top()->state = state;  // attributes of a dictionary do not matter here
      return true;
    }
    case 'Q':
    case 'P': {
      auto* id = make(Kind::text);
      if (opcode == 'P') id->text = in_.line();
      else id = stack_.pop();
      push_collection(Kind::persistent, {id});
      return true;
    }
    default: return false;
  }
}

bool PickleMachine::step_stack(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 0x80:
      if (auto protocol = in_.number(1); protocol > 5) in_.damaged(fmt::format("protocol {}", protocol));
      return true;
    case 0x95: in_.take(8); return true;  // the length of a frame
    case '.':
      pickle_.root_ = stack_.pop();
      done_ = true;
      return true;
    case '(': stack_.push(make(Kind::mark)); return true;
    case '0': stack_.pop(); return true;
    case '1': stack_.pop_to_mark(); return true;
    case '2': stack_.push(stack_.top()); return true;
    case 'g': push_memo(in_.parsed_line<uint64_t>()); return true;
    case 'h': push_memo(in_.number(1)); return true;
    case 'j': push_memo(in_.number(4)); return true;
    case 'p': memoize(in_.parsed_line<uint64_t>()); return true;
    case 'q': memoize(in_.number(1)); return true;
    case 'r': memoize(in_.number(4)); return true;
    case 0x94: memoize(memo_.size()); return true;
    default: return false;
  }
}

void PickleMachine::step(char opcode) {
  if (step_stack(opcode) || step_scalar(opcode) || step_collection(opcode) || step_object(opcode)) return;
  in_.damaged(fmt::format("the instruction 0x{:02x} is not known", static_cast<unsigned char>(opcode)));
}

Pickle Pickle::parse(std::string_view bytes, std::string_view file, const std::function<bool(const std::string&)>& allows) {
  return PickleMachine(bytes, file, allows).run();
}

}  // namespace burnish::io
