#!/bin/sh
# Writes one group of assembly: ../asm_GROUP_amd64.s and its declarations.
set -e
cd "$(dirname "$0")"
GOFLAGS= go run . "$1" -out "../asm_$1_amd64.s" -stubs "../asm_$1_amd64.go" -pkg kernel
case $1 in *512) ;; *) # out of sixteen registers, avo takes those of AVX-512
	if grep -nE '\b[XY](1[6-9]|2[0-9]|3[01])\b' "../asm_$1_amd64.s"; then
		echo "group $1: more than sixteen registers" >&2
		exit 1
	fi ;;
esac
