# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Progress of a loop: one live line on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
import warnings

LIVE_SECONDS = 0.2
PLAIN_LINES = 4


CLEAR = "\r\033[K"


def put_warnings_on_lines_of_their_own() -> None:
    """Makes warnings replace a live line, which the next update writes again."""
    show = warnings.showwarning

    def shown(*arguments, **options) -> None:
        if sys.stdout.isatty():
            print(CLEAR, end="", flush=True)
        show(*arguments, **options)

    warnings.showwarning = shown


class Progress:
    """Shows the progress of a named loop of known length."""

    def __init__(self, name: str, total: int):
        self.name = name
        self.total = total
        self.start = time.monotonic()
        self.shown = 0.0
        self.live = sys.stdout.isatty()

    def update(self, done: int, text: str = "") -> None:
        """Reports that `done` of the total are complete."""
        if self.live:
            self._update_live(done, text)
        elif done % max(1, self.total // PLAIN_LINES) == 0 and done < self.total:
            print(self._line(done, text), flush=True)

    def finish(self, text: str = "") -> None:
        """Ends the loop with a final line."""
        line = self._line(self.total, text)
        print(CLEAR + line if self.live else line, flush=True)

    def _update_live(self, done: int, text: str) -> None:
        now = time.monotonic()
        if now - self.shown < LIVE_SECONDS:
            return
        self.shown = now
        columns = shutil.get_terminal_size().columns - 1
        print(CLEAR + self._line(done, text)[:columns], end="", flush=True)

    def _line(self, done: int, text: str) -> str:
        elapsed = time.monotonic() - self.start
        left = elapsed * (self.total - done) / max(1, done)
        clock = f"{elapsed:4.0f} s" + (f", {left:.0f} s left" if left else "")
        return f"{self.name:<18} {done:>5}/{self.total}  {text}  {clock}"
