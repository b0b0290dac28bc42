"""Finds the known words that a mistyped word resembles.

Errors name these words instead of a long list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

NEAREST_MAX = 3
_WORD_MAX = 100
"""Longer words are not compared, because that takes long and they resemble no known word."""
_ALL_MAX = 8
"""A list of at most this many words is shown whole."""


def nearest_words(word: str, known: Iterable[str], most: int = NEAREST_MAX) -> list[str]:
    """Return the known words that resemble `word`, the nearest first, at most `most`."""
    if len(word) > _WORD_MAX:
        return []
    # Imported here: every process of Ebbtide imports this package, and few meet a mistake.
    from difflib import get_close_matches

    return get_close_matches(word, list(known), n=most, cutoff=0.6)


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


def allowed_words(word: str, known: Sequence[str]) -> str:
    """Return a short list whole, and of a long list the words nearest to `word`.

    A long list also says how many words it has. Nine words or more are a long list: `kill, ... (43 in
    all)`, or `one of 43` if none resembles `word`.
    """
    if len(known) <= _ALL_MAX:
        return ", ".join(known)
    near = nearest_words(word, known)
    return f"{', '.join(near)}, ... ({len(known)} in all)" if near else f"one of {len(known)}"
