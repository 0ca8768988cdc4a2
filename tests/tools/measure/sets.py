"""Print statistics of prepared sets and check round trips: python -m tests.tools.measure.sets FOLDER ….

Each row is decoded and encoded again, which must give the same tokens.
"""

import numpy as np

from app import output
from tests.tools.options import options
from tokenization.prepared import SPLITS, Prepared

HEAD = ("set", "files train/validation/test", "rows", "notes", "tokens", "tokens per note", "per bar",
        "changed", "MB")  # fmt: skip


def changed(prepared: Prepared) -> list[str]:
    """Return the names of the rows that a round trip changes."""
    language = prepared.language
    found = []
    for row in range(len(prepared)):
        ids = np.asarray(prepared.ids(row), dtype=np.int64)
        if not np.array_equal(language.encode(language.decode(ids)).ids, ids):
            found.append(prepared.name(row))
    return found


def row_of(prepared: Prepared) -> tuple[object, ...]:
    """Return the row of a set in the table."""
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
        output.write(f"  skipped: {skipped}")


if __name__ == "__main__":
    main()
