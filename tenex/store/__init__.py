"""Everything about conversations that outlives a process: journals on disk, and an index to find them by.

codec format                 records as lines with a checksum, and how lines of older versions are read
atomic atomic_folder disk    files that are whole or absent, slow calls in a thread, one daemon per folder (`lock`)
segments                     the names of a journal's files
conversations journal        all conversations, and one that is open, whatever holds their records
record_log reading           what a driver offers, and how files of lines become records
repository file_writer       the driver for files; `journal_reader` reads and repairs them
postgres                     the driver for a database, and its leases
view view_json view_model    conversation.json
daemon_journal               what belongs to no conversation
index                        a SQLite cache, which may be deleted at any time, and full-text search in it
"""
