"""The house: what every change must leave true of the repository itself."""
