// Reading a layer's attributes: what every dialect's file checks the same way. An attribute that is absent leaves the
// value it is read into as it is.
#pragma once

#include "kiln/layer.h"

namespace kiln {

// A list of names that lives as long as the program.
struct Names {
    const std::string_view *data;
    size_t count;
    template <size_t n>
    constexpr Names(const std::string_view (&names)[n]) : data(names), count(n) {}
    const std::string_view *begin() const { return data; }
    const std::string_view *end() const { return data + count; }
};

// The one of `names` that takes the fewest changed letters to become `name`; case counts for nothing.
std::string_view nearest_name(std::string_view name, const Names &names);

// "auto_pad, dilations, group"; holds itself.
struct NameList {
    char data[256];
};
NameList join(const Names &names);

// Null where the layer has no such attribute.
const Attribute *find_attribute(const Layer &layer, std::string_view name);

// Every attribute is one of `names`, and stands there once.
Status check_names(const Layer &layer, const Names &names);

// One integer, `least` or more.
Status read_integer(const Layer &layer, std::string_view name, int64_t least, int64_t *value);
// One integer a spatial axis, each `least` or more.
Status read_axes(const Layer &layer, std::string_view name, int rank, int64_t least, Axes *values);
// Begin pads of all axes, then end pads; 0 or more.
Status read_begin_end(const Layer &layer, std::string_view name, int rank, Axes *begin, Axes *end);
Status read_text(const Layer &layer, std::string_view name, std::string_view *value);
// A text that is one of `words`: its index.
Status read_word(const Layer &layer, std::string_view name, const Names &words, size_t *index);
Status read_word_of_any_case(const Layer &layer, std::string_view name, const Names &words, size_t *index);
// A list of at most `room` numbers, whole or not.
Status read_numbers(const Layer &layer, std::string_view name, double *values, size_t room, size_t *count);

}  // namespace kiln
