"""XML from anybody as small trees, one at a time, in bounded memory: nothing is fetched, no entity is expanded."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from typing import NoReturn
from xml.parsers import expat

DEEPEST = 64
MOST_ELEMENTS = 3_000_000
LARGEST_TREE = 200_000  # elements of one bar
LONGEST_TEXT = 10_000  # letters of an element that are kept, and one buffer more


class Unreadable(ValueError):
    """What is wrong with the XML, to go on a sentence that starts with the file's name."""


# Ancestors, from the root on, and the tree that is whole.
Take = Callable[[list[ET.Element], ET.Element], None]


def stream(data: bytes, wanted: Mapping[int, set[str]], ignored: set[str], take: Take) -> None:
    """Call `take` with each element of a wanted name at its depth, the root's being 0.

    Such an element comes with all that is in it but the ignored elements. Of all others only names
    and attributes are known, and they are forgotten where they end.
    """
    _Stream(wanted, ignored, take).read(data)


class _Stream:
    def __init__(self, wanted: Mapping[int, set[str]], ignored: set[str], take: Take) -> None:
        self._wanted, self._ignored, self._take = wanted, ignored, take
        self._stack: list[ET.Element] = []
        self._tree_depth = 0  # the depth of the tree that grows at this moment; 0 where none does
        self._skipped = 0  # how many open elements are within one that is ignored
        self._count = self._in_tree = 0

    def read(self, data: bytes) -> None:
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.EntityDeclHandler = _refuse_entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise Unreadable(f"is damaged at line {error.lineno}: {what}") from None
        except (LookupError, ValueError) as error:
            if isinstance(error, ValueError) and not _is_of_encoding(error):
                raise
            raise Unreadable(
                "is written in an encoding that is not known: save it as UTF-8"
            ) from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MOST_ELEMENTS:
            raise Unreadable(f"has more than {MOST_ELEMENTS:,} elements: give a part of it")
        if self._skipped:
            self._skipped += 1
            return
        tag = tag.rpartition(":")[2]
        depth = len(self._stack)
        if depth >= DEEPEST:
            raise Unreadable(f"has elements more than {DEEPEST} deep, as no score has")
        if self._tree_depth and tag in self._ignored:
            self._skipped = 1
            return
        element = ET.Element(tag, attributes)
        if self._tree_depth:
            self._in_tree += 1
            if self._in_tree > LARGEST_TREE:
                raise Unreadable(f"has a bar of more than {LARGEST_TREE:,} elements")
            self._stack[-1].append(element)
        elif tag in self._wanted.get(depth, ()):
            self._tree_depth, self._in_tree = depth, 0
        self._stack.append(element)

    def _end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
            return
        element = self._stack.pop()
        if self._tree_depth and len(self._stack) == self._tree_depth:
            self._tree_depth = 0
            self._take(self._stack, element)

    def _text(self, text: str) -> None:
        if self._tree_depth and not self._skipped:
            element = self._stack[-1]
            if element.text is None:
                element.text = text
            elif len(element.text) < LONGEST_TEXT:
                element.text += text


def _refuse_entity(*_: object) -> NoReturn:
    raise Unreadable("declares XML entities of its own, as no score does: it is not opened")


def _is_of_encoding(error: ValueError) -> bool:
    """Say whether an error is of how letters are stored: of several bytes a letter, expat knows Unicode's alone."""
    return isinstance(error, UnicodeError) or "multi-byte encodings" in str(error)
