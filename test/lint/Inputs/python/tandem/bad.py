import re

RULE = "tandem.assign output = "
FLOATS = f"#tandem.float<{RULE}>"
from re import compile


def name(word):
    """The name of a word."""
