"""Faults on purpose: a disk that fails, power that goes, clocks that jump, signals that come.

machine.py      what a disk holds, and what of it is left when the power goes
disk.py         the functions of `mill.storage.disk`, over a machine that fails by a schedule
sqlite_disk.py  the same for SQLite, which has its own way to the disk
schedule.py     what fails when: all of it from one seed
play.py         one schedule: random changes of a durable mill, and what must hold after each
"""
