#!/bin/sh
# Interesting (exit 1) is what still takes a root.
! grep -q math.sqrt "$1"
