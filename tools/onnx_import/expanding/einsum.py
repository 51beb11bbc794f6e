"""Einsum of one or two tensors, as sums, transpositions and a product of matrices."""

import math


def parsed(equation, count):
    """([labels of each input], labels of the result), or None for what has no plain form: an ellipsis, or a label that stands
    twice in one of them."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        labels = left.replace(",", "")
        right = "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    texts = [*terms, right]
    if len(terms) != count or not all(text.isalpha() or not text for text in texts) or \
            any(len(set(text)) != len(text) for text in texts) or not set(right) <= set(left):
        return None
    return terms, right


def write(writer, terms, result, shapes):
    """Nodes that make the result of parsed() from inputs of these shapes, by a Writer of microsoft.py."""
    sizes = {label: size for term, shape in zip(terms, shapes) for label, size in zip(term, shape)}
    names, others = [], [set(result), set(result)]
    if len(terms) == 2:
        others = [set(result) | set(terms[1]), set(result) | set(terms[0])]
    for place, term in enumerate(terms):
        name, alone = writer.name(place), [axis for axis, label in enumerate(term) if label not in others[place]]
        if alone:
            name = writer.reduce_sum(name, alone)
            terms = [*terms[:place], "".join(label for label in term if label in others[place]), *terms[place + 1:]]
        names.append(name)
    if len(terms) == 1:
        transposed(writer.end, names[0], terms[0], result)
        return
    first, second = terms
    batch = [label for label in first if label in second and label in result]
    summed = [label for label in first if label in second and label not in result]
    rows, columns = ([label for label in mine if label not in other] for mine, other in ((first, second), (second, first)))
    count = lambda labels: math.prod(sizes[label] for label in labels)
    lying = lambda name, term, labels: transposed(writer.add, name, term, labels)
    a = writer.reshape(lying(names[0], first, [*batch, *rows, *summed]), [count(batch), count(rows), count(summed)])
    b = writer.reshape(lying(names[1], second, [*batch, *summed, *columns]), [count(batch), count(summed), count(columns)])
    made = [*batch, *rows, *columns]
    product = writer.reshape(writer.add("MatMul", a, b), [sizes[label] for label in made])
    transposed(writer.end, product, made, result)


def transposed(add, name, before, after):
    """A value whose axes have these labels, with them in another order."""
    if len(after) < 2:
        return add("Identity", name)
    return add("Transpose", name, perm=[before.index(label) for label in after])
