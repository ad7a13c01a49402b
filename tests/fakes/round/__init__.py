"""A kind of conversation for tests: agents speak in a fixed order, a given number of times, and then it ends.

It is the contract of the port: this folder and one call of `register` are all that a kind needs.
"""
