"""The store of conversations in PostgreSQL: imported only where the setting `store` names a database."""
