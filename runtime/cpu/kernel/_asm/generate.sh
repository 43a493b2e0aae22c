#!/bin/sh
# Writes one group of assembly: ../asm_GROUP_amd64.s and its declarations.
set -e
cd "$(dirname "$0")"
GOFLAGS= go run . "$1" -out "../asm_$1_amd64.s" -stubs "../asm_$1_amd64.go" -pkg kernel
