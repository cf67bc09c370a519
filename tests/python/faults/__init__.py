"""What happens around the library: no memory, forks, signals, many threads.

Each module is a suite that runs for a given time, and prints what it did and found:

    cd tests/python && python -m faults.memory 15

Exit status 1 says that something was found. `make faults` runs all of them.
"""
