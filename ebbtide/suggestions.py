"""Finds the known words that a mistyped word resembles.

Errors name these words instead of a long list. Letters alone make no resemblance: `packet-loss` has most letters of
`power-loss`, but is no slip of it. A slip has the same parts, each with a few wrong letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

NEAREST_MAX = 3
_WORD_MAX = 100
"""Longer words are not compared, because that takes long and they resemble no known word."""
_PREFIX_MIN = 3
"""The typed beginning of a name has at least so many characters; a shorter one begins too many."""
_PARTS = re.compile(r"[-_.\s]+")
"""What stands between the parts of a word: `power-loss`, `rate_per_s`, `log.dirs`."""
_ALIKE_MIN = 0.6
"""How much of the letters of two words, and of two parts, is the same at least; difflib counts from 0 to 1."""
_ALL_MAX = 8
"""A list of at most this many words is shown whole."""


def nearest_words(word: str, known: Iterable[str], most: int = NEAREST_MAX) -> list[str]:
    """Return the known words that resemble `word`, the nearest first, at most `most`.

    Capitals do not count: `ALL` is `all`.
    """
    if len(word) > _WORD_MAX:
        return []
    # Imported here: every process of Ebbtide imports this package, and few meet a mistake.
    from difflib import get_close_matches

    by_lower: dict[str, str] = {}
    for one in known:
        if _may_be_slip(word.lower(), one.lower()):
            by_lower.setdefault(one.lower(), one)
    return [by_lower[near] for near in get_close_matches(word.lower(), list(by_lower), n=most, cutoff=_ALIKE_MIN)]


def _may_be_slip(word: str, known: str) -> bool:
    """Whether each part of a typed word may be a slip of a part of the known word, in order, from the first part on."""
    typed, parts = (_PARTS.split(one) for one in (word, known))
    if "".join(typed) == "".join(parts):
        return True
    if not _are_alike(typed[0], parts[0]):
        return False
    rest = iter(parts[1:])
    return all(any(_are_alike(one, part) for part in rest) for one in typed[1:])


def _are_alike(part: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, part, other).ratio() >= _ALIKE_MIN


def nearest_names(word: str, known: Iterable[str]) -> list[str]:
    """Return the names that resemble `word`, or that begin with it as people type long names, the nearest first.

    The only name that begins with `word` comes first. Several follow the others, the shortest first.
    """
    every = list(known)
    close, begun = nearest_words(word, every), _names_begun_with(word, every)
    near = [*begun, *close] if len(begun) == 1 else [*close, *begun]
    return list(dict.fromkeys(near))[:NEAREST_MAX]


def meant_name(word: str, known: Iterable[str]) -> str | None:
    """Return the name that was probably meant: the only one that begins with `word`, or else the nearest one."""
    every = list(known)
    begun = _names_begun_with(word, every)
    return begun[0] if len(begun) == 1 else next(iter(nearest_words(word, every, most=1)), None)


def _names_begun_with(word: str, known: Iterable[str]) -> list[str]:
    return sorted((one for one in known if one.startswith(word)), key=len) if len(word) >= _PREFIX_MIN else []


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `, did you mean X?` for the known word nearest to `word`, else ""."""
    near = nearest_words(word, known, most=1)
    return f", did you mean {near[0]}?" if near else ""


def bracketed_suggestion(word: str, known: Iterable[str], shown: Mapping[str, str] | None = None) -> str:
    """Return ` (did you mean 'X'?)` for the known word nearest to `word`, else "".

    `shown` gives words another form in the message, as `leader` is shown as `leader(TOPIC-PARTITION)`.
    """
    near = nearest_words(word, known, most=1)
    return f" (did you mean '{(shown or {}).get(near[0], near[0])}'?)" if near else ""


def is_short_list(known: Sequence[str]) -> bool:
    """Whether `allowed_words` shows all of these words."""
    return len(known) <= _ALL_MAX


def allowed_words(word: str, known: Sequence[str]) -> str:
    """Return a short list whole, and of a long list the words nearest to `word`.

    A long list also says how many words it has. Nine words or more are a long list: `kill, ... (43 in
    all)`, or `one of 43` if none resembles `word`.
    """
    if is_short_list(known):
        return ", ".join(known)
    near = nearest_words(word, known)
    return f"{', '.join(near)}, ... ({len(known)} in all)" if near else f"one of {len(known)}"
