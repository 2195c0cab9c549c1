"""A storage is spelled #tandem.float<bf16>, a strategy as tandem.strategy @name."""


def refuse(name: str) -> None:
    """Takes no tandem.assign."""
    raise ValueError(f"{name} needs #tandem.scaled with scale = f32")
