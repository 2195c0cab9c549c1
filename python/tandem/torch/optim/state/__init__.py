"""States of parameters: they are made, checked, converted, saved, loaded and described here.

Nothing here knows steps, hooks or the addresses that kernels get.
"""
