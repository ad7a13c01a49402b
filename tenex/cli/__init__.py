"""The command line: `tenex NOUN VERB`, results on stdout, talk on stderr, `--json` on every listing.

`main` knows the commands by name and loads a command's module only when it is run.
"""
