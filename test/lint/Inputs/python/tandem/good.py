"""A storage is spelled #tandem.float<bf16>, a strategy as tandem.strategy @name."""


def refuse(name: str) -> None:
    """Takes no tandem.assign."""
    raise ValueError(f"{name} needs #tandem.scaled with scale = f32")


class Word:
    """A word of a text."""

    @property
    def name(self):
        """The name of the word."""


def test_names():
    """Every word has a name."""
