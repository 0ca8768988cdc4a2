"""Check the form (multipart/form-data) of an upload before gradio reads it, which expects nothing but files."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping

from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartParser

from app.web.server.names import Refused

MOST_FILES = 100  # in one form
FILES = "files"  # what each is called in it
# Who sends odd bytes writes nothing to the terminal.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())


async def check_form(headers: Mapping[bytes, bytes], body: bytes) -> None:
    """Refuse a body that is no form of files."""

    async def whole() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(Headers(raw=[*headers.items()]), whole(), max_files=MOST_FILES)
    try:
        sent = (await parser.parse()).multi_items()
    except Exception:  # what it raises at odd bytes is of many kinds
        raise Refused(
            400, f"the request is no whole form, multipart/form-data, of {MOST_FILES} files at most"
        ) from None
    finally:
        for file in parser._files_to_close_on_error:  # also one that was cut off
            file.close()
    if not sent or any(name != FILES or not isinstance(file, UploadFile) for name, file in sent):
        raise Refused(
            400, f"the form is not one of whole files alone, each named and sent as {FILES}"
        )
