"""Everything about conversations that outlives a process: journals on disk, and a cache that finds its way in them.

shapes containers format values as JSON, records as lines that can tell when they are broken
migrations               how lines of older versions are read
atomic disk lock         files that are whole or not there, threads for slow calls, one daemon per folder
segments                 the names of a journal's files
loading journal folder   a journal read and mended, written, and all of them together
view rendering           conversation.json, for people
daemon                   the journal of what belongs to no conversation
index tables schema      the cache: may be deleted at any time
summary gathering        what the cache keeps of a conversation, and how it is read from a journal
words search catalogue   full text: words and queries, looking for them, and the cache as a command sees it
"""
