//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package plan

import (
	"syscall"

	"github.com/essmc/essmc/internal/files"
)

// mapFile maps all of f for reading. It returns nil if that is not possible; the file is read then.
func mapFile(f *files.File, size int64) []byte {
	fd, err := f.Fd()
	if err != nil {
		return nil
	}
	b, err := syscall.Mmap(int(fd), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil { // some file systems cannot map
		return nil
	}
	return b
}

func unmap(b []byte) error { return syscall.Munmap(b) }
