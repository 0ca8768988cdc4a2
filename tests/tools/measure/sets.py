"""Say what prepared sets hold, and read every row back: python -m tests.tools.measure.sets FOLDER ….

Every row is decoded and spelled again, which has to give its tokens.
"""

import numpy as np

from app import output
from tests.tools.options import options
from tokenization.prepared import SPLITS, Prepared

HEAD = (
    *("set", "files train/validation/test", "rows", "notes", "tokens", "tokens a note", "a bar"),
    *("not read back", "MB"),
)


def changed(prepared: Prepared) -> list[str]:
    """Return the names of the rows that are spelled otherwise once they are read."""
    language = prepared.language
    found = []
    for row in range(len(prepared)):
        ids = np.asarray(prepared.ids(row), dtype=np.int64)
        if not np.array_equal(language.encode(language.decode(ids)).ids, ids):
            found.append(prepared.name(row))
    return found


def row_of(prepared: Prepared) -> tuple[object, ...]:
    """Return a set's row of the table."""
    counts = prepared.meta["counts"]
    total = {key: sum(counts[split][key] for split in SPLITS) for key in counts["train"]}
    return (
        prepared.folder.name,
        " / ".join(f"{counts[split]['files']:,}" for split in SPLITS),
        total["pieces"],
        total["notes"],
        total["tokens"],
        f"{total['tokens'] / total['notes']:.2f}",
        f"{total['tokens'] / total['bars']:.1f}",
        len(changed(prepared)),
        f"{2 * total['tokens'] / 1e6:.1f}",
    )


def main() -> None:
    sets = [Prepared.open(folder) for folder in options(__doc__, "folders").folders]
    output.write(output.table([HEAD, *map(row_of, sets)]))
    for one in sets:
        skipped: dict[str, int] = {}
        for file in one.meta["skipped"]:
            kind = "".join("#" if letter.isdigit() else letter for letter in file["reason"])
            skipped[kind] = skipped.get(kind, 0) + 1
        output.write(f"{one.folder.name}: {one.meta['source']['licence']}")
        output.write(f"  notes of all rows: {one.meta['losses']}")
        output.write(f"  left out: {skipped}")


if __name__ == "__main__":
    main()
