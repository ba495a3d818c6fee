"""One run: from what it depends on, checked before anything happens, to a verdict that can be printed and repeated.

configuration  what a run depends on: options, constants, weather
scenario_file  scenarios as TOML files, read and written
own_code       scenarios and checkers in a Python file of the user's
run            the run and its verdict
scenario_of_run    a finished run written as a scenario file
code_version   which code a run was made by
"""
