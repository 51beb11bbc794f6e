"""The files that README.md shows, and its Python snippet: readme_files.py README.md FOLDER."""

import re
import sys
from pathlib import Path

text, folder = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
for name, body in re.findall(r"^<!-- file: (\S+) -->\n+```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body)
