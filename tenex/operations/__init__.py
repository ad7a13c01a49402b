"""What an operator does with stored conversations: status, doctor, rollback, fork, recovery and import."""
