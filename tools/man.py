#!/usr/bin/env python3
"""Write a manual page: tools/man.py PAGE.scd BIN_FOLDER SCDOC >PAGE

A line `@OPTIONS psd check@` of the page becomes the options of that program,
printed by its own --help (PSD_HELP=scdoc), so that manual and program cannot
differ.
"""
import os
import re
import subprocess
import sys


def options(folder, words):
    out = subprocess.run(
        [os.path.join(folder, words[0]), *words[1:], "--help"],
        env=dict(os.environ, PSD_HELP="scdoc"), check=True,
        stdout=subprocess.PIPE, text=True).stdout
    rows = re.findall(r"^\*-.*?\n\t.*?\n\n", out, re.M | re.S)
    if not rows:
        sys.exit("man.py: %s --help has no options" % " ".join(words))
    return "".join(rows).rstrip("\n")


def main():
    page, folder, scdoc = sys.argv[1:]
    with open(page) as file:
        text = re.sub(r"^@OPTIONS ([a-z_ ]+)@$",
                      lambda match: options(folder, match.group(1).split()),
                      file.read(), flags=re.M)
    done = subprocess.run([scdoc], input=text, stdout=subprocess.PIPE,
                          text=True, check=True)
    sys.stdout.write(done.stdout)


main()
