"""Settings say at the field what values they take and what they are for.

    batch: Annotated[int, AtLeast(1)] = 16  # examples per update
    log_every: Annotated[int, AtLeast(1), Role.RUNTIME] = 50

The comment at a field is its help on the command line. A value outside its range is one line that
names the flag. Two runs that differ in a field without a role are different runs.
"""

import dataclasses
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, ClassVar

from focus.errors import UserError


class Range(ABC):
    """The values that a field takes."""

    @abstractmethod
    def refusal(self, value: float) -> str:
        """What is wrong with a value; empty when nothing is. A value that is no number is wrong."""


@dataclass(frozen=True)
class AtLeast(Range):
    """Values from `low` on, to `most`: what is larger is a slip, or fits no machine."""

    low: float
    most: float = 10**9

    def refusal(self, value: float) -> str:
        if value > self.most:
            return f"must be at most {self.most:,}, not {value}"
        return "" if value >= self.low else f"must be at least {self.low}, not {value}"


@dataclass(frozen=True)
class Above(Range):
    """Values above `low`."""

    low: float

    def refusal(self, value: float) -> str:
        return "" if value > self.low else f"must lie above {self.low}, not {value}"


@dataclass(frozen=True)
class Share(Range):
    """Values from 0 to 1, the ends included or not."""

    above_zero: bool = False
    below_one: bool = False

    def refusal(self, value: float) -> str:
        low = value > 0 if self.above_zero else value >= 0
        high = value < 1 if self.below_one else value <= 1
        if low and high:
            return ""
        ends = (
            f"{'above' if self.above_zero else 'from'} 0 {'to below' if self.below_one else 'to'} 1"
        )
        return f"is a share {ends}, not {value}"


Weight = Annotated[float, AtLeast(0)]  # of a term of a loss

# The same seeds everywhere: random draws use 32 bits of them.
SEEDS = AtLeast(0, 2**32 - 1)


def check_seed(seed: int) -> None:
    """Refuse what is no seed."""
    if wrong := SEEDS.refusal(seed):
        raise UserError(f"seed {wrong}")


class Role(Enum):
    """What a field is for: which runs may differ in it."""

    IDENTITY = auto()  # two runs that differ in it are different runs
    METHOD = auto()  # a method of the paper may set it: it may differ between methods
    AXIS = auto()  # seed, backbone: the runs of one table differ in it
    RUNTIME = auto()  # changes no draw, loss or weight: it may differ when a run goes on


@dataclass(frozen=True)
class Settings:
    """A group of settings; `section` is its dotted name in a run's config."""

    _section: ClassVar[str] = ""

    def __init_subclass__(cls, section: str = "", **rest: Any):
        super().__init_subclass__(**rest)
        cls._section = section

    def __post_init__(self) -> None:
        check_ranges(self, self._section)


def check_ranges(group: Any, section: str) -> None:
    """Refuse values outside the ranges at the fields of a group."""
    for name, markers in _markers(type(group)).items():
        value = getattr(group, name)
        for marker in markers:
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(marker, Range) and (wrong := marker.refusal(one)):
                    raise UserError(f"{flag(section, name)} {wrong}")


def flag(section: str, name: str) -> str:
    """A field as the command line names it."""
    return ".".join(part for part in (section, name) if part).replace("_", "-")


def _markers(kind: Any) -> dict[str, tuple[Any, ...]]:
    """The markers of every field of a dataclass."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        field.name: getattr(hints[field.name], "__metadata__", ())
        for field in dataclasses.fields(kind)
    }


def walk(
    config: Any, above: str = "", role: Role = Role.IDENTITY
) -> Iterator[tuple[str, Role, Any]]:
    """Dotted name, role and value of every field; a group's role is that of all in it."""
    for name, markers in _markers(type(config)).items():
        own = next((marker for marker in markers if isinstance(marker, Role)), role)
        value = getattr(config, name)
        if dataclasses.is_dataclass(value):
            yield from walk(value, f"{above}{name}.", own)
        else:
            yield f"{above}{name}", own, value
