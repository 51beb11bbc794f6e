"""Parts of documents that programs write: each stands between the lines `<!-- NAME -->` and `<!-- end of NAME -->`."""


def marks(name):
    return f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"


def split(path, name):
    """What stands before the part, in it and behind it; None where the document, or its part, is not there."""
    begin, end = marks(name)
    text = path.read_text() if path.exists() else ""
    before, found, rest = text.partition(begin)
    part, closed, behind = rest.partition(end)
    return (before + begin, part, end + behind) if found and closed else None


def write(path, name, part):
    """The part anew. Raises ValueError where the document has none of that name."""
    pieces = split(path, name)
    if pieces is None:
        raise ValueError(f"{path} has no part between {' and '.join(mark.strip() for mark in marks(name))}")
    path.write_text(pieces[0] + part + pieces[2])
