//go:build unix

package files

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOpenDoesNotWait checks that files without an end, and files that wait for another program, are refused at once.
func TestOpenDoesNotWait(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := net.Listen("unix", filepath.Join(dir, "socket")); err != nil {
		t.Log("no sockets here:", err)
	} else {
		defer l.Close()
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	open := func(path string) error {
		result := make(chan error, 1)
		go func() {
			f, err := Open(path)
			if err == nil {
				err = f.Close()
			}
			if filepath.Dir(path) == dir {
				g, rootErr := root.Open(filepath.Base(path))
				if rootErr == nil {
					g.Close()
				}
				if (rootErr == nil) != (err == nil) {
					t.Errorf("%s: Open says %v, Root.Open %v", path, err, rootErr)
				}
			}
			result <- err
		}()
		select {
		case err := <-result:
			return err
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: Open waits", path)
			return nil
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "pipe"):   "pipe: expected a regular file, found a pipe",
		"/dev/zero":                  "/dev/zero: expected a regular file, found a device",
		filepath.Join(dir, "socket"): "", // opening one is an error already
	} {
		if err := open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %q", path, err, want)
		}
	}
	if err := open(filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	if b, err := ReadFile(filepath.Join(dir, "file")); err != nil || string(b) != "x" {
		t.Errorf("read %q, %v", b, err)
	}
}
