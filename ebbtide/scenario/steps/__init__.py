"""The kinds of steps, one module per family.

Everything that is true of a kind is in its module, and nowhere else.
"""
