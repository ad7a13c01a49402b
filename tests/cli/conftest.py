"""The program in this process, with a folder to work in and a data folder."""

from tests.kits.commands import cwd as cwd
from tests.kits.commands import data as data
from tests.kits.commands import tenex as tenex
