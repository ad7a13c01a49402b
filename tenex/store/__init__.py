"""Everything about conversations that outlives a process: journals on disk, and a cache that finds its way in them.

    shapes format            values as JSON, records as lines that can tell when they are broken
    atomic disk lock         files that are whole or not there, threads for slow calls, one daemon per folder
    loading journal folder   a journal read and mended, written, and all of them together
    daemon                   the journal of what belongs to no conversation
    index tables schema      the cache: may be deleted at any time
    summary                  what the cache keeps of a conversation

Never: import at this level, or say what a record means; that is the core's.
"""
