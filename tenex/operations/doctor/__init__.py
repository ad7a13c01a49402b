"""`tenex doctor`: looks at everything a daemon will need, and says each fault with its place and its mend.

findings examination     what a check says, and how checks run: side by side, each with a deadline
configuring sense        settings, folders that overlap, agents; numbers that make no sense together
keeping keyring          permissions and owners; the keys
running testimony        the daemon, its lock and socket; what it says of itself
machine disk             Python, clock, service manager; the disk
relays models workbench  what is asked over the network; the sandbox and git
journals beside cache    conversations on disk, and what stands beside them; the index
checks words             all checks in order; values as people read them
"""
