"""Why a job does not start: the limit in numbers, and the sentence for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a job does not start: which limit, how much it needs, how much is free, of what.

    `template` is the sentence with `{needed}`, `{free}`, `{unit}` and `{of}` to fill in; people read
    it filled in, in their language.  `forever` says that waiting does not help.
    """

    limit: str
    template: str
    needed: float = 0
    free: float = 0
    unit: str = ""
    of: str = ""
    forever: bool = False

    def words(self, template: str | None = None) -> str:
        """The sentence, by the given (translated) template or the English one."""
        return (template or self.template).format(
            needed=_number(self.needed), free=_number(self.free), unit=self.unit, of=self.of
        )


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"
