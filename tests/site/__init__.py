"""The site: the documents of the repository as pages, `make site`."""
