// The text of a problem: printing, parsing, hashing.
//
// A text is tokens joined by '-':
//
//   operator   conv2d, convtranspose2d, deformconv2d: the operator and the spatial rank
//   types      f32 where x, w and y agree, else x.w.y: u8.s8.u8
//   n1         batch
//   c64        input channels
//   i56x56     input size, one number an axis
//   m64        output channels
//   o56x56     output size
//   k3x3       kernel
//   s1x1       stride
//   d1x1       dilation
//   p1x1,1x1   pads, begin and end
//   g1         groups
//   og1        offset groups; deformconv only
//   xz128      zero point of x, where it is 8-bit
//   yz3        zero point of y, where it is 8-bit
//   nxc,nxc    layouts of x and y: ncx or nxc
//   flags      where they hold, in this order: wz (weights have zero points), bias (biasf32 where x is 8-bit and the
//              bias is not s32), mask, residual, an activation, strict or fast; epilogue? in place of bias, mask,
//              residual and activation where all of them are left open (epiloguef32? with a float bias)
//
// An activation is relu, leakyrelu:0.01, clip:0:6 and so on: kiln/activation.h lists them. '~' stands for a minus sign,
// '?' for a number left open. There is one text for a problem: no leading zeros, the shortest decimal for a
// float, and canonical values.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "kiln/problem.h"
#include "problem_fields.h"

namespace kiln {
namespace {

template <typename Value>
struct Word {
    const char *text;
    Value value;
};

constexpr Word<DType> types[] = {{"f64", DType::f64}, {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16},
                                 {"s8", DType::s8},   {"u8", DType::u8},   {"s32", DType::s32}};
constexpr Word<Layout> layouts[] = {{"ncx", Layout::ncx}, {"nxc", Layout::nxc}, {"?", Layout::open}};

template <typename Value, size_t count>
const char *text_of(Value value, const Word<Value> (&words)[count]) {
    for (const Word<Value> &word : words) {
        if (word.value == value) return word.text;
    }
    return "unknown";
}

template <typename Value, size_t count>
bool value_of(std::string_view text, const Word<Value> (&words)[count], Value *value) {
    for (const Word<Value> &word : words) {
        if (text == word.text) {
            *value = word.value;
            return true;
        }
    }
    return false;
}

// Room for one number's text.
struct NumberText {
    char data[32];
    size_t size;
    operator std::string_view() const { return {data, size}; }
};

template <typename Number>
NumberText number_text(Number value) {
    NumberText text;
    text.size = static_cast<size_t>(std::to_chars(text.data, text.data + sizeof text.data, value).ptr - text.data);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '-') text.data[i] = '~';
    }
    return text;
}

class Printer {
  public:
    explicit Printer(ProblemText *text) : text_(text) { text_->size = 0; }

    void put(std::string_view part) {
        std::memcpy(text_->data + text_->size, part.data(), part.size());
        text_->size += part.size();
    }
    void number(int64_t value) {
        put(value == open_size ? std::string_view("?") : std::string_view(number_text(value)));
    }
    void axes(const Axes &values, int count) {
        for (int axis = 0; axis < count; axis++) {
            if (axis > 0) put("x");
            number(values[axis]);
        }
    }
    void flag(bool set, const char *name) {
        if (!set) return;
        put("-");
        put(name);
    }
    void end() { text_->data[text_->size] = '\0'; }

  private:
    ProblemText *text_;
};

void print_types(const Problem &problem, Printer *out) {
    out->put("-");
    out->put(to_string(problem.x_type));
    if (problem.x_type == problem.w_type && problem.x_type == problem.y_type) return;
    out->put(".");
    out->put(to_string(problem.w_type));
    out->put(".");
    out->put(to_string(problem.y_type));
}

void print_field(const Problem &problem, const Field &field, Printer *out) {
    out->put("-");
    out->put(field.letters);
    if (field.scalar != nullptr) {
        out->number(problem.*field.scalar);
        return;
    }
    const int count = axis_count(problem, field);
    out->axes(problem.*field.axes, count);
    if (field.axes == &Problem::pad_begin) {
        out->put(",");
        out->axes(problem.pad_end, count);
    }
}

void print_activation(const Problem &problem, Printer *out) {
    const ActivationRow *row = find_activation_row(problem.activation);
    if (row == nullptr) return;
    out->put("-");
    out->put(row->text);
    for (size_t i = 0; i < row->param_count(); i++) {
        out->put(":");
        out->put(number_text(problem.activation_params[i]));
    }
}

// Takes what stands before the first `separator` off the front of `text`, and the separator with it.
std::string_view take(std::string_view *text, char separator) {
    const size_t end = text->find(separator);
    const std::string_view front = text->substr(0, end);
    *text = end == std::string_view::npos ? std::string_view() : text->substr(end + 1);
    return front;
}

// Reads the whole of `text`; null, or what is wrong with it.
const char *read_number(std::string_view text, int64_t *value) {
    if (text == "?") {
        *value = open_size;
        return nullptr;
    }
    const bool negative = !text.empty() && text[0] == '~';
    const std::string_view digits = text.substr(negative ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
        return "a number or ? is needed";
    if (digits[0] == '0' && (digits.size() > 1 || negative)) return "numbers have no leading zeros";
    if (std::from_chars(digits.data(), digits.data() + digits.size(), *value).ec != std::errc()) {
        return "the number does not fit 64 bits";
    }
    if (negative) *value = -*value;
    return nullptr;
}

const char *read_axes(std::string_view text, int rank, Axes *values) {
    for (int axis = 0; axis < rank; axis++) {
        const bool last = text.find('x') == std::string_view::npos;
        if (last != (axis == rank - 1)) return "one number for each spatial axis is needed";
        if (const char *wrong = read_number(take(&text, 'x'), &(*values)[axis])) return wrong;
    }
    return nullptr;
}

const char *read_float(std::string_view text, float *value) {
    char plain[sizeof(NumberText::data)];
    if (text.empty() || text.size() > sizeof plain) return "a number is needed";
    for (size_t i = 0; i < text.size(); i++) {
        plain[i] = text[i] == '~' ? '-' : text[i];
    }
    const auto [end, error] = std::from_chars(plain, plain + text.size(), *value);
    if (error != std::errc() || end != plain + text.size()) return "a number is needed";
    if (text == "~0") return "zero has no sign";
    return text == number_text(*value) ? nullptr : "a float is written with as few digits as tell it apart, minus as ~";
}

// Reads the tokens of one text, each where it is expected.
class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text), rest_(text) { next(); }

    Status parse(Problem *problem) {
        KILN_RETURN_IF_ERROR(read(&Parser::read_operator, problem));
        KILN_RETURN_IF_ERROR(read(&Parser::read_types, problem));
        for (const Field &field : fields) {
            if (!has_field(*problem, field)) continue;
            KILN_RETURN_IF_ERROR(expect(field));
            if (const char *wrong = read_field(field, problem)) return error(wrong);
            next();
        }
        KILN_RETURN_IF_ERROR(read(&Parser::read_layouts, problem));
        if (const char *wrong = read_flags(problem)) return error(wrong);
        return {};
    }

  private:
    using Reader = const char *(Parser::*)(Problem *);

    void next() {
        ended_ = last_;
        last_ = rest_.find('-') == std::string_view::npos;
        token_ = take(&rest_, '-');
    }

    Status read(Reader reader, Problem *problem) {
        if (const char *wrong = (this->*reader)(problem)) return error(wrong);
        next();
        return {};
    }

    Status error(const char *wrong) const {
        const int size = static_cast<int>(text_.size());
        if (ended_) return Status::invalid_argument("the text ends, but %s: '%.*s'", wrong, size, text_.data());
        return Status::invalid_argument("token '%.*s': %s, in '%.*s'", static_cast<int>(token_.size()), token_.data(),
                                        wrong, size, text_.data());
    }

    Status expect(const Field &field) const {
        const std::string_view letters = field.letters;
        if (!ended_ && token_.substr(0, letters.size()) == letters) return {};
        char wrong[64];
        std::snprintf(wrong, sizeof wrong, "%s (%s) is needed here", field.letters, field.name);
        return error(wrong);
    }

    const char *read_operator(Problem *problem) {
        constexpr const char *wrong = "conv, convtranspose or deformconv with a rank, like conv2d, is needed";
        const size_t size = token_.size();
        if (size < 2 || token_[size - 1] != 'd') return wrong;
        problem->rank = token_[size - 2] - '0';
        if (problem->rank < 1 || problem->rank > max_spatial_rank) return wrong;
        for (const OperatorTraits &traits : operator_traits) {
            if (token_.substr(0, size - 2) != traits.text) continue;
            problem->op = traits.op;
            return nullptr;
        }
        return wrong;
    }

    const char *read_types(Problem *problem) {
        constexpr const char *wrong = "a type, or x.w.y where they differ, is needed: f64 f32 f16 bf16 s8 u8 s32";
        if (value_of(token_, types, &problem->x_type)) {
            problem->w_type = problem->y_type = problem->x_type;
            return nullptr;
        }
        std::string_view rest = token_;
        if (!value_of(take(&rest, '.'), types, &problem->x_type)) return wrong;
        if (!value_of(take(&rest, '.'), types, &problem->w_type) || !value_of(rest, types, &problem->y_type))
            return wrong;
        const bool same = problem->x_type == problem->w_type && problem->x_type == problem->y_type;
        return same ? "equal types are written once" : nullptr;
    }

    // The token starts with the field's letters.
    const char *read_field(const Field &field, Problem *problem) {
        std::string_view body = token_.substr(std::strlen(field.letters));
        if (field.scalar != nullptr) {
            const char *wrong = read_number(body, &(problem->*field.scalar));
            return wrong != nullptr ? wrong : below_least(*problem, field);
        }
        Axes &axes = problem->*field.axes;
        if (field.axes == &Problem::pad_begin) return read_pads(body, problem);
        const char *wrong = read_axes(body, problem->rank, &axes);
        return wrong != nullptr ? wrong : below_least(*problem, field);
    }

    static const char *below_least(const Problem &problem, const Field &field) {
        for (int axis = 0; axis < axis_count(problem, field); axis++) {
            const int64_t value = field_value(problem, field, axis);
            if (value == open_size || value >= field.least) continue;
            return field.least == 0 ? "it must be 0 or more" : "it must be at least 1";
        }
        return nullptr;
    }

    const char *read_pads(std::string_view body, Problem *problem) {
        const size_t comma = body.find(',');
        if (comma == std::string_view::npos) return "begin pads, a comma and end pads are needed";
        if (const char *wrong = read_axes(body.substr(0, comma), problem->rank, &problem->pad_begin)) return wrong;
        return read_axes(body.substr(comma + 1), problem->rank, &problem->pad_end);
    }

    const char *read_layouts(Problem *problem) {
        std::string_view rest = token_;
        const bool known =
            value_of(take(&rest, ','), layouts, &problem->x_layout) && value_of(rest, layouts, &problem->y_layout);
        return known ? nullptr : "the layouts of x and y, like nxc,nxc, are needed";
    }

    bool take_flag(const char *name) {
        if (ended_ || token_ != name) return false;
        next();
        return true;
    }

    const char *read_flags(Problem *problem) {
        problem->w_zero_points = take_flag("wz");
        problem->bias_type = problem->is_quantized() ? DType::s32 : problem->y_type;
        if (take_flag("epilogue?")) {
            problem->open_epilogue = true;
        } else if (problem->is_quantized() && take_flag("epiloguef32?")) {
            problem->open_epilogue = true;
            problem->bias_type = DType::f32;
        } else if (const char *wrong = read_epilogue(problem)) {
            return wrong;
        }
        if (take_flag("strict")) {
            problem->accuracy = Accuracy::strict;
        } else {
            const bool fast = problem->x_type == DType::f16 && take_flag("fast");
            problem->accuracy = fast ? Accuracy::fast : Accuracy::normal;
        }
        return ended_ ? nullptr
                      : "flags are wz, bias, mask, residual, an activation and strict or fast, in this order and once";
    }

    const char *read_epilogue(Problem *problem) {
        problem->bias = take_flag("bias");
        if (!problem->bias && problem->is_quantized() && take_flag("biasf32")) {
            problem->bias = true;
            problem->bias_type = DType::f32;
        }
        problem->mask = take_flag("mask");
        problem->residual = take_flag("residual");
        return read_activation(problem);
    }

    // Leaves a token that is no activation alone.
    const char *read_activation(Problem *problem) {
        std::string_view rest = token_;
        const std::string_view name = take(&rest, ':');
        const ActivationRow *row = std::find_if(std::begin(activation_rows), std::end(activation_rows),
                                                [&](const ActivationRow &each) { return each.text == name; });
        if (ended_ || row == std::end(activation_rows)) return nullptr;
        problem->activation = row->activation;
        const size_t count = row->param_count();
        if (count == 0 && name != token_) return "this activation has no parameters";
        for (size_t i = 0; i < count; i++) {
            const bool last = rest.find(':') == std::string_view::npos;
            if (last != (i == count - 1))
                return count == 1 ? "this activation has one parameter" : "this activation has two parameters";
            if (const char *wrong = read_float(take(&rest, ':'), &problem->activation_params[i])) return wrong;
        }
        next();
        return nullptr;
    }

    std::string_view text_, rest_, token_;
    bool last_ = false, ended_ = false;
};

// The first token that the canonical text writes differently.
Status not_canonical(std::string_view text, const Problem &problem) {
    const ProblemText canonical = print(problem);
    std::string_view rest = text, canonical_rest = canonical;
    std::string_view token, canonical_token;
    do {
        token = take(&rest, '-');
        canonical_token = take(&canonical_rest, '-');
    } while (token == canonical_token && !rest.empty());
    if (canonical_token.empty()) {
        return Status::invalid_argument("token '%.*s': it says nothing here, in '%.*s'", static_cast<int>(token.size()),
                                        token.data(), static_cast<int>(text.size()), text.data());
    }
    return Status::invalid_argument(
        "token '%.*s': it must be %.*s, which says the same or follows from the rest, in '%.*s'",
        static_cast<int>(token.size()), token.data(), static_cast<int>(canonical_token.size()), canonical_token.data(),
        static_cast<int>(text.size()), text.data());
}

}  // namespace

const char *to_string(DType type) {
    return text_of(type, types);
}
const char *to_string(Layout layout) {
    return text_of(layout, layouts);
}

const char *to_string(Operator op) {
    return traits_of(op).text.data();
}

ProblemText print(const Problem &problem) {
    const Problem canonical = canonicalize(problem);
    ProblemText text;
    Printer out(&text);
    out.put(canonical.traits().text);
    out.number(canonical.rank);
    out.put("d");
    print_types(canonical, &out);
    for (const Field &field : fields) {
        if (has_field(canonical, field)) print_field(canonical, field, &out);
    }
    out.put("-");
    out.put(to_string(canonical.x_layout));
    out.put(",");
    out.put(to_string(canonical.y_layout));
    out.flag(canonical.w_zero_points, "wz");
    const bool real_bias = canonical.is_quantized() && canonical.bias_type == DType::f32;
    out.flag(canonical.open_epilogue, real_bias ? "epiloguef32?" : "epilogue?");
    out.flag(canonical.bias, real_bias ? "biasf32" : "bias");
    out.flag(canonical.mask, "mask");
    out.flag(canonical.residual, "residual");
    print_activation(canonical, &out);
    out.flag(canonical.accuracy == Accuracy::strict, "strict");
    out.flag(canonical.accuracy == Accuracy::fast, "fast");
    out.end();
    return text;
}

Status parse(std::string_view text, Problem *problem) {
    Problem parsed;
    KILN_RETURN_IF_ERROR(Parser(text).parse(&parsed));
    if (const Status status = validate(parsed); !status.ok()) {
        return Status::invalid_argument("%s, in '%.*s'", status.message(), static_cast<int>(text.size()), text.data());
    }
    if (canonicalize(parsed) != parsed) return not_canonical(text, parsed);
    *problem = parsed;
    return {};
}

uint64_t hash(const Problem &problem) {
    const ProblemText text = print(problem);
    uint64_t result = 0xcbf29ce484222325u;
    for (const char c : std::string_view(text)) {
        result = (result ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    return result;
}

}  // namespace kiln
