# tests/tidy/messages.py ROOT: every row of the table of messages, mpirun's, the library's and the
# torch glue's, is said somewhere, and its text stands nowhere else, so that docs/messages.md holds
# what is printed. And what they say with advice stands in the table: a fault is a literal of their
# sources with a clause that begins as advice does ("; use fewer"), with a verb of need, or with a
# question. Advice in other words is not found. Pages of help and the heads of files are no
# messages.
# Commands of `pomona` have the doctor's and their own mends, and are not asked.
import pathlib
import re
import sys

TABLE = "btl/base/messages.def"
FOLDERS = ["btl", "coll", "mpi", "pmix", "accel", "torch_glue"]
TEXT = r'"((?:[^"\\]|\\.)*)"'
MPIRUN = ["pmix/*.cc", "pmix/launch/*.cc", "pmix/launch/*.h", "mpi/tools/simulate*.cc"]
LIBRARY = ["btl/**/*", "coll/**/*", "accel/**/*", "pmix/wireup/*", "torch_glue/*"]
LIBRARY += [f"mpi/{part}/**/*" for part in (
    "abi", "check", "io", "object", "p2p", "rma", "runtime", "topo", "trace")]
PAGES = ["pmix/launch/messages_page.cc", "pmix/launch/options_table.cc", "btl/base/choices_file.cc",
         "btl/base/forests_file.cc"]
ADVICE = re.compile(
    r"(?:[;:(]|, or) (?:-|(?:copy|did you|give|install|leave|mpirun|name|pomona|raise|see|set|start"
    r"|try|use|write)\b)|\b(?:needs?|use) (?:--|its)|\bmust (?!be)|\bmends?\b|\w\?"
)
# Of the library's a part may be advice alone, and "must" and "given up" are of arguments and
# connections. What it says of arguments that MPI's standard forbids names them, and is no matter of
# the table: of the functions' sources questions and our own names count.
LIBRARY_VERBS = ("allow|ask|choose|close|convert|copy|give (?!different)|install|look|make|raise|remove"
                 "|restart|run|see|set|start|take|try|unset|use|write")
LIBRARY_ADVICE = re.compile(
    rf"(?:[;:(.]|, or) `?(?:-|(?:did you|{LIBRARY_VERBS}|{LIBRARY_VERBS.title()}|mpirun|pomona)\b)"
    rf"|^(?:{LIBRARY_VERBS}) .* |\w\?|\buse (?:--|its)"
)
FUNCTIONS = "mpi/abi/"
FUNCTIONS_ADVICE = re.compile(r"\w\?|POMONA_|mpirun -|`pomona")


root = pathlib.Path(sys.argv[1])
sources = {
    path: path.read_text()
    for folder in FOLDERS
    for path in sorted(each for end in ("cc", "h", "mm") for each in (root / folder).rglob("*." + end))
}
faults, seen = [], set()
rows = re.findall(rf"^MESSAGE\((\w+),\s*((?:{TEXT}\s*)+),", (root / TABLE).read_text(), re.M)
if not rows:
    faults.append(f"{TABLE}: has no rows")
for name, text, *_ in rows:
    if name in seen:
        faults.append(f"{TABLE}: {name} stands there twice")
    seen.add(name)
    if not any(f"messages::{name}" in source for source in sources.values()):
        faults.append(f"{TABLE}: nothing says {name}")
    begin = re.search(TEXT, text).group(1)[:40]
    for path, source in sources.items():
        if f'"{begin}' in source:
            faults.append(f"{path}: has the text of {name}; say messages::{name}")
for patterns, advice in ((MPIRUN, ADVICE), (LIBRARY, LIBRARY_ADVICE)):
    for path in sorted({path for pattern in patterns for path in root.glob(pattern)} & set(sources)):
        if path.relative_to(root).as_posix() in PAGES:
            continue
        wanted = FUNCTIONS_ADVICE if path.relative_to(root).as_posix().startswith(FUNCTIONS) else advice
        # Without comments, and without characters that are quotation marks.
        source = re.sub(r"""^\s*(//|#).*|'\\?["']'""", "", sources[path], flags=re.M)
        for literal in re.finditer(rf"{TEXT}(?:\s*{TEXT})*", source):
            text = "".join(re.findall(TEXT, literal[0]))
            if wanted.search(text):
                faults.append(f"{path}: has advice outside of the table: {text}")
print("\n".join(faults))
print(f"{len(seen)} messages, {len(faults)} faults")
sys.exit(1 if faults else 0)
