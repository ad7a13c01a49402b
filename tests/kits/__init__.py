"""Parts that tests of several modules share: one module for each subject, none of which has tests."""
