"""boards.toml: boards behind a command, which are timed from the host that has them.

    [[board]]
    name = "shelf-1"
    target = "arm-64-linux"
    runner = "/opt/kiln/on_board.sh shelf-1"
    host = "10.0.0.7"               # the node's address, as Ray shows it; any that claims the target, unless said
    cxx = "aarch64-linux-gnu-g++"   # unless it is the target's usual one
    processor = "Cortex-A72"        # what its name has to hold; a board of another is refused
"""

try:
    import tomllib
except ImportError:  # before Python 3.11
    import tomli as tomllib

KEYS = {"name", "target", "runner", "host", "cxx", "processor"}


def check(path, number, board, names):
    where = f"{path}: board {number}"
    for key, value in board.items():
        if key not in KEYS:
            raise ValueError(f"{where}: {key}: a board has {', '.join(sorted(KEYS))}")
        if not isinstance(value, str) or not value:
            raise ValueError(f"{where}: {key} is {value!r}: a text is needed")
    for key in ("name", "target", "runner"):
        if key not in board:
            raise ValueError(f"{where} has no {key}")
    if board["name"] in names:
        raise ValueError(f"{where}: name is {board['name']}: another board has it")


def read(path, target):
    """The target's boards; None where the file names none of them. Raises ValueError and OSError."""
    with open(path, "rb") as file:
        try:
            table = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from None
    boards, names = table.get("board", []), set()
    if set(table) - {"board"} or not isinstance(boards, list):
        raise ValueError(f"{path}: only [[board]] tables may be in it")
    for number, board in enumerate(boards, 1):
        check(path, number, board, names)
        names.add(board["name"])
    return [board for board in boards if board["target"] == target] or None
