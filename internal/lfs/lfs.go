// Package lfs recognises Git LFS pointers: small text files that a repository stores in place of large files, until
// these are fetched.
//
// It imports the standard library only. A file counts as a pointer if it starts the way the Git LFS specification
// requires and does not exceed the specified length.
package lfs

import (
	"bytes"
	"errors"
	"io"
)

// ErrPointer says that a file is a pointer, and what to do.
var ErrPointer = errors.New("is a pointer of Git LFS and not the file itself; fetch that: git lfs pull")

const (
	magic   = "version https://git-lfs.github.com/spec/v1"
	maxSize = 1024 // of a pointer
)

// Check returns ErrPointer if the content of a file, or its beginning, is that of a pointer.
func Check(head []byte) error {
	if bytes.HasPrefix(head, []byte(magic)) {
		return ErrPointer
	}
	return nil
}

// CheckFile returns ErrPointer if a file of the given size is a pointer. It leaves other errors to those who read the
// file.
func CheckFile(r io.ReaderAt, size int64) error {
	if size < int64(len(magic)) || size >= maxSize {
		return nil
	}
	head := make([]byte, len(magic))
	if n, _ := r.ReadAt(head, 0); n < len(head) {
		return nil
	}
	return Check(head)
}
