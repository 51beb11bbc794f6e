// Reading a layer's attributes.
#include "semantics/attributes.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace kiln {
namespace {

constexpr size_t longest_compared = 48;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// How many letters must be put in, left out or changed to turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
    a = a.substr(0, longest_compared);
    b = b.substr(0, longest_compared);
    size_t row[longest_compared + 1] = {};
    for (size_t j = 0; j <= b.size(); j++) {
        row[j] = j;
    }
    for (size_t i = 0; i < a.size(); i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.size(); j++) {
            const size_t changed = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min(changed, std::min(diagonal, row[j]) + 1);
        }
    }
    return row[b.size()];
}

int width(std::string_view text) {
    return static_cast<int>(text.size());
}

const char *kind_name(const Attribute &attribute) {
    switch (attribute.kind) {
        case Attribute::Kind::ints:
            return attribute.is_list ? "a list of integers" : "an integer";
        case Attribute::Kind::floats:
            return attribute.is_list ? "a list of floats" : "a float";
        case Attribute::Kind::text:
            return "a text";
    }
    return "of an unknown kind";
}

Status check_kind(const Attribute &attribute, Attribute::Kind kind, bool is_list) {
    if (attribute.kind == kind && attribute.is_list == is_list) return {};
    Attribute wanted = attribute;
    wanted.kind = kind;
    wanted.is_list = is_list;
    return Status::invalid_argument("%.*s is %s: it must be %s", width(attribute.name), attribute.name.data(),
                                    kind_name(attribute), kind_name(wanted));
}

Status check_count(const Attribute &attribute, int count, const char *what) {
    if (attribute.count == static_cast<size_t>(count)) return {};
    return Status::invalid_argument("%.*s has %zu values: %d are needed, %s", width(attribute.name),
                                    attribute.name.data(), attribute.count, count, what);
}

bool equal(std::string_view a, std::string_view b, bool any_case) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                              [&](char p, char q) { return any_case ? lower(p) == lower(q) : p == q; });
}

Status read_word(const Layer &layer, std::string_view name, const Names &words, bool any_case, size_t *index) {
    if (find_attribute(layer, name) == nullptr) return {};
    std::string_view text;
    KILN_RETURN_IF_ERROR(read_text(layer, name, &text));
    for (size_t i = 0; i < words.count; i++) {
        if (!equal(text, words.data[i], any_case)) continue;
        *index = i;
        return {};
    }
    return Status::invalid_argument("%.*s is %.*s: it may be %s", width(name), name.data(), width(text), text.data(),
                                    join(words).data);
}

const char *rule(int64_t least) {
    return least == 1 ? "must be positive" : "must be 0 or more";
}

Status check_least(const Attribute &attribute, int64_t least) {
    for (size_t i = 0; i < attribute.count; i++) {
        if (attribute.ints[i] >= least) continue;
        return Status::invalid_argument("%.*s[%zu] is %" PRId64 ": %.*s %s", width(attribute.name),
                                        attribute.name.data(), i, attribute.ints[i], width(attribute.name),
                                        attribute.name.data(), rule(least));
    }
    return {};
}

}  // namespace

std::string_view nearest_name(std::string_view name, const Names &names) {
    std::string_view nearest;
    size_t least = SIZE_MAX;
    for (const std::string_view candidate : names) {
        const size_t distance = edit_distance(name, candidate);
        if (distance < least) {
            least = distance;
            nearest = candidate;
        }
    }
    return nearest;
}

NameList join(const Names &names) {
    NameList list;
    size_t at = 0;
    list.data[0] = '\0';
    for (const std::string_view name : names) {
        const int size = std::snprintf(list.data + at, sizeof list.data - at, "%s%.*s", at > 0 ? ", " : "", width(name),
                                       name.data());
        at = std::min(at + static_cast<size_t>(size), sizeof list.data - 1);
    }
    return list;
}

const Attribute *find_attribute(const Layer &layer, std::string_view name) {
    for (size_t i = 0; i < layer.attribute_count; i++) {
        if (layer.attributes[i].name == name) return &layer.attributes[i];
    }
    return nullptr;
}

Status check_names(const Layer &layer, const Names &names) {
    for (size_t i = 0; i < layer.attribute_count; i++) {
        const Attribute &attribute = layer.attributes[i];
        const std::string_view name = attribute.name;
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            const std::string_view nearest = nearest_name(name, names);
            return Status::invalid_argument("%.*s has no attribute %.*s: did you mean %.*s? It has %s", width(layer.op),
                                            layer.op.data(), width(name), name.data(), width(nearest), nearest.data(),
                                            join(names).data);
        }
        if (find_attribute(layer, name) != &attribute) {
            return Status::invalid_argument("%.*s is given twice", width(name), name.data());
        }
    }
    return {};
}

Status read_integer(const Layer &layer, std::string_view name, int64_t least, int64_t *value) {
    const Attribute *attribute = find_attribute(layer, name);
    if (attribute == nullptr) return {};
    KILN_RETURN_IF_ERROR(check_kind(*attribute, Attribute::Kind::ints, false));
    *value = attribute->ints[0];
    if (*value >= least) return {};
    return Status::invalid_argument("%.*s is %" PRId64 ": it %s", width(name), name.data(), *value, rule(least));
}

Status read_axes(const Layer &layer, std::string_view name, int rank, int64_t least, Axes *values) {
    const Attribute *attribute = find_attribute(layer, name);
    if (attribute == nullptr) return {};
    KILN_RETURN_IF_ERROR(check_kind(*attribute, Attribute::Kind::ints, true));
    KILN_RETURN_IF_ERROR(check_count(*attribute, rank, "one for each spatial axis"));
    KILN_RETURN_IF_ERROR(check_least(*attribute, least));
    for (int axis = 0; axis < rank; axis++) {
        (*values)[axis] = attribute->ints[axis];
    }
    return {};
}

Status read_begin_end(const Layer &layer, std::string_view name, int rank, Axes *begin, Axes *end) {
    const Attribute *attribute = find_attribute(layer, name);
    if (attribute == nullptr) return {};
    KILN_RETURN_IF_ERROR(check_kind(*attribute, Attribute::Kind::ints, true));
    KILN_RETURN_IF_ERROR(check_count(*attribute, 2 * rank, "the begin of each spatial axis, then the ends"));
    KILN_RETURN_IF_ERROR(check_least(*attribute, 0));
    for (int axis = 0; axis < rank; axis++) {
        (*begin)[axis] = attribute->ints[axis];
        (*end)[axis] = attribute->ints[rank + axis];
    }
    return {};
}

Status read_text(const Layer &layer, std::string_view name, std::string_view *value) {
    const Attribute *attribute = find_attribute(layer, name);
    if (attribute == nullptr) return {};
    KILN_RETURN_IF_ERROR(check_kind(*attribute, Attribute::Kind::text, false));
    *value = attribute->text;
    return {};
}

Status read_word(const Layer &layer, std::string_view name, const Names &words, size_t *index) {
    return read_word(layer, name, words, false, index);
}

Status read_word_of_any_case(const Layer &layer, std::string_view name, const Names &words, size_t *index) {
    return read_word(layer, name, words, true, index);
}

Status read_numbers(const Layer &layer, std::string_view name, double *values, size_t room, size_t *count) {
    const Attribute *attribute = find_attribute(layer, name);
    if (attribute == nullptr) return {};
    const bool whole = attribute->kind == Attribute::Kind::ints;
    if (!whole) KILN_RETURN_IF_ERROR(check_kind(*attribute, Attribute::Kind::floats, true));
    if (!attribute->is_list) {
        return Status::invalid_argument("%.*s is %s: it must be a list of floats", width(name), name.data(),
                                        kind_name(*attribute));
    }
    if (attribute->count > room) {
        return Status::invalid_argument("%.*s has %zu values: at most %zu are possible", width(name), name.data(),
                                        attribute->count, room);
    }
    *count = attribute->count;
    for (size_t i = 0; i < attribute->count; i++) {
        values[i] = whole ? static_cast<double>(attribute->ints[i]) : attribute->floats[i];
    }
    return {};
}

}  // namespace kiln
